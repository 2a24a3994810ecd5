package state_test

import (
	"fmt"
	"strings"

	"github.com/concord-kv/concord/messages"
)

func (s *script) grant(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_GrantLease{GrantLease: &messages.GrantLease{
		TtlMs: l.millis(l.word(0)), Alias: l.number("alias", 0), Metadata: l.metadata(),
	}}})
	return formatResult(r, "lease %d ttl %s", r.GetGrantLease().GetLeaseId(), millis(r.GetGrantLease().GetTtlMs()))
}

func (s *script) keepAlive(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLease{
		LeaseId: l.parseNumber(l.word(0)), NewTtlMs: l.millis(l.option("ttl", "")),
	}}})
	k := r.GetKeepAliveLease()
	return formatResult(r, "ttl %s left %s", millis(k.GetTtlMs()), millis(k.GetRemainingTtlMs()))
}

func (s *script) revoke(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: l.parseNumber(l.word(0))}}})
	return formatResult(r, "deleted %d", r.GetRevokeLease().GetKeysDeleted())
}

// expire names pairs: lease:renewals.
func (s *script) expire(l *line) string {
	e := &messages.ExpireLeases{}
	for _, w := range l.words {
		id, renewals, _ := strings.Cut(w, ":")
		e.Pairs = append(e.Pairs, &messages.ExpireLeases_Pair{LeaseId: l.parseNumber(id), Renewals: l.parseNumber(renewals)})
	}
	return formatExpired(s.apply(l, &messages.Command{Op: &messages.Command_ExpireLeases{ExpireLeases: e}}))
}

func formatExpired(r *messages.Result) string {
	x := r.GetExpireLeases()
	return formatResult(r, "expired %d skipped %d deleted %d", x.GetExpired(), x.GetSkipped(), x.GetKeysDeleted())
}

func (s *script) due(l *line) string {
	pairs, next := s.machine.Due(s.nowMs, int(l.number("limit", 50)))
	var parts []string
	for _, p := range pairs {
		parts = append(parts, fmt.Sprintf("%d:%d", p.LeaseId, p.Renewals))
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	return fmt.Sprintf("%s next %s", strings.Join(parts, " "), millis(next))
}

// sweepLeases proposes what is due, as the leader does.
func (s *script) sweepLeases(l *line) string {
	pairs, _ := s.machine.Due(s.nowMs, messages.ExpireLeasesMax)
	return formatExpired(s.apply(l, &messages.Command{Op: &messages.Command_ExpireLeases{ExpireLeases: &messages.ExpireLeases{Pairs: pairs}}}))
}

func (s *script) openSession(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_OpenSession{OpenSession: &messages.OpenSession{TtlMs: l.millis(l.word(0))}}})
	o := r.GetOpenSession()
	return formatResult(r, "session %d lease %d ttl %s", o.GetSessionId(), o.GetLeaseId(), millis(o.GetTtlMs()))
}

func (s *script) closeSession(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_CloseSession{CloseSession: &messages.CloseSession{SessionId: l.parseNumber(l.word(0))}}})
	return formatResult(r, "deleted %d", r.GetCloseSession().GetKeysDeleted())
}

func (s *script) resolve(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_ResolveIdempotency{ResolveIdempotency: &messages.ResolveIdempotency{
		Key: l.word(0), Fence: l.flags["fence"],
	}}})
	a := r.GetResolveIdempotency()
	stage := strings.ToLower(strings.TrimPrefix(a.GetState().String(), "STATE_"))
	if a.GetResult() != nil {
		return formatResult(r, "%s: %s", stage, formatResult(a.Result, ""))
	}
	return formatResult(r, "%s", stage)
}
