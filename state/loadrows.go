package state

import (
	"errors"
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// Each method takes one row of its table and refuses what could not have been
// saved. The sum of the rows is left to the digest.

func (l *loader) lease(r *messages.SnapshotLease) error {
	m := l.m
	switch {
	case r.GetId() == 0 || r.GetId() >= m.global.nextLeaseID:
		return fmt.Errorf("lease %d, next is %d", r.GetId(), m.global.nextLeaseID)
	case r.GetTtlMs() <= 0 || r.GetTtlMs() > clockMaxMs, r.GetDeadlineMs() < 0 || r.GetDeadlineMs() > 2*clockMaxMs:
		return fmt.Errorf("lease %d has ttl %d, deadline %d", r.GetId(), r.GetTtlMs(), r.GetDeadlineMs())
	case r.GetAnonymous() && (r.GetAlias() != 0 || r.GetSessionId() != 0):
		return fmt.Errorf("anonymous lease %d has alias %d, session %d", r.GetId(), r.GetAlias(), r.GetSessionId())
	}
	if last, ok := m.leases.order.tree.Max(); ok && last.id >= r.GetId() {
		return fmt.Errorf("lease %d after lease %d", r.GetId(), last.id)
	}
	body := &leaseBody{
		gen: m.leases.bodyGen(), grantedAt: r.GetGrantedAt(), alias: r.GetAlias(), sessionID: r.GetSessionId(), owner: r.GetOwnerId(),
		metadata: r.GetMetadata(),
	}
	row := leaseRow{
		id: r.GetId(), deadlineMs: r.GetDeadlineMs(), ttlMs: r.GetTtlMs(), renewals: r.GetRenewals(),
		anonymous: r.GetAnonymous(), body: body,
	}
	row.fixed = hashLeaseFixed(&row)
	m.leases.add(row)
	return nil
}

func (l *loader) sessionRow(r *messages.SnapshotSession) error {
	id := r.GetId()
	if l.session == nil || l.open != id {
		if err := l.endSession(); err != nil {
			return err
		}
		if id == 0 || id <= l.open || id >= l.m.global.nextSessionID {
			return fmt.Errorf("session %d after %d, next is %d", id, l.open, l.m.global.nextSessionID)
		}
		slot, ok := l.m.leases.find(r.GetLeaseId())
		if !ok || l.m.leases.at(slot).body.sessionID != id {
			return fmt.Errorf("session %d names lease %d, which does not name it", id, r.GetLeaseId())
		}
		if r.GetAcknowledged() > r.GetLastSequence() {
			return fmt.Errorf("session %d acknowledged %d of %d", id, r.GetAcknowledged(), r.GetLastSequence())
		}
		l.open = id
		l.session = &session{
			leaseID: r.GetLeaseId(), label: r.GetLabel(), last: r.GetLastSequence(), acknowledged: r.GetAcknowledged(),
		}
	}
	s := l.session
	for _, a := range r.GetAnswers() {
		if want := s.number(len(s.answers)); a.GetSequence() != want {
			return fmt.Errorf("session %d has answer %d in the place of %d", id, a.GetSequence(), want)
		}
		if !recordable(a.GetResult()) {
			return fmt.Errorf("session %d has a %T", id, a.GetResult().GetAnswer())
		}
		s.answers = append(s.answers, answerOf(a.GetResult()))
	}
	return nil
}

// endSession adds the session whose rows have ended.
func (l *loader) endSession() error {
	s := l.session
	if s == nil {
		return nil
	}
	if n := uint64(len(s.answers)); n != s.last-s.acknowledged {
		return fmt.Errorf("session %d has %d answers, not %d", l.open, n, s.last-s.acknowledged)
	}
	l.m.sessions.add(l.open, *s)
	l.session = nil
	return nil
}

func (l *loader) idempotency(r *messages.SnapshotIdempotency) error {
	t := &l.m.once
	e := &idempotencyEntry{
		key: r.GetKey(), requestHash: r.GetRequestHash(), fenced: r.GetFenced(),
		recordedAtMs: r.GetRecordedAtMs(), order: r.GetOrder(),
	}
	if n := len(t.queue); n > 0 && t.queue[n-1].order >= e.order {
		return fmt.Errorf("idempotency key %q is out of order", e.key)
	}
	if _, twice := t.byKey[e.key]; twice || e.key == "" {
		return fmt.Errorf("idempotency key %q comes twice", e.key)
	}
	switch {
	case e.fenced && (r.GetResult() != nil || len(e.requestHash) > 0):
		return fmt.Errorf("idempotency key %q is fenced and has a result", e.key)
	case e.fenced:
		e.answer = answer{result: &messages.Result{}}
	case !recordable(r.GetResult()):
		return fmt.Errorf("idempotency key %q has a %T", e.key, r.GetResult().GetAnswer())
	default:
		e.answer = answerOf(r.GetResult())
	}
	t.add(e)
	return nil
}

func (l *loader) cursor(r *messages.CursorInfo) error {
	c := cursor{name: r.GetName(), leaseID: r.GetLeaseId(), after: r.GetAfterRevision()}
	if last, ok := l.m.cursors.named.tree.Max(); ok && last.name >= c.name {
		return fmt.Errorf("cursor %q after %q", c.name, last.name)
	}
	if _, ok := l.m.leases.find(c.leaseID); !ok {
		return fmt.Errorf("cursor %q names lease %d, which does not exist", c.name, c.leaseID)
	}
	l.m.cursors.set(c)
	l.m.leases.depend(c.leaseID, 1)
	return nil
}

func (l *loader) report(r *messages.SnapshotReport) error {
	p := report{replica: r.GetReplicaId(), leaseID: r.GetLeaseId(), after: r.GetAfterRevision()}
	if last, ok := l.m.cursors.reports.tree.Max(); ok && last.replica >= p.replica {
		return fmt.Errorf("report of replica %d after %d", p.replica, last.replica)
	}
	if _, ok := l.m.leases.find(p.leaseID); !ok {
		return fmt.Errorf("the report of replica %d names lease %d, which does not exist", p.replica, p.leaseID)
	}
	l.m.cursors.setReport(p)
	l.m.leases.depend(p.leaseID, 1)
	return nil
}

func (l *loader) sample(s sample) error {
	list := l.m.samples.list
	if n := len(list); n > 0 && (list[n-1].revision >= s.revision || list[n-1].clockMs > s.clockMs) {
		return errors.New("a revision sample is out of order")
	}
	l.m.samples.list = append(list, s)
	l.m.samples.digest += hashSample(s)
	return nil
}

func (l *loader) audit(r *messages.AuditRecord) error {
	list := l.m.audit.list
	if n := len(list); n > 0 && list[n-1].GetId() >= r.GetId() || r.GetId() == 0 || r.GetId() >= l.auth.NextAuditID() {
		return fmt.Errorf("audit record %d is out of order", r.GetId())
	}
	l.m.audit.add(r)
	return nil
}
