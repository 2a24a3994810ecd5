package state

import (
	"fmt"
	"maps"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
)

// Authorization, where a command applies. A session has checked it before; here it is
// checked again, because rights may have been taken away between the two, and because
// whose a lease is only the state knows. While it is disabled, guard and actor are nil
// and a command pays for one comparison.

// setAuth installs a table of who may do what.
func (m *Machine) setAuth(t *auth.Table) {
	m.auth = t
	m.guard = nil
	if t.Enabled() {
		m.guard = t
	} else {
		m.actor = nil
	}
	m.authH = hashAuth(t)
}

// Auth returns who may do what. It never changes.
func (m *Machine) Auth() *auth.Table { return m.auth }

// Auth returns who may do what, as of the view.
func (v *View) Auth() *auth.Table { return v.auth }

// admitPrincipal finds out whose command it is, and refuses what must not even be
// looked up among recorded answers: they hold records.
func (m *Machine) admitPrincipal(c *messages.Command) *messages.Error {
	m.actor = nil
	if c.GetTrusted() || nodesOwn(c) {
		return nil
	}
	rights, ok := m.guard.Rights(c.GetUserId())
	if !ok {
		err := messages.NewError(messages.Code_CODE_UNAUTHENTICATED, "user %q does not exist", c.GetPrincipal())
		return m.withOutcome(err, c)
	}
	m.actor = rights
	if id := c.GetSessionId(); id != 0 {
		if s, ok := m.sessions.find(id); ok {
			if owner := m.leases.at(m.mustFind(s.leaseID)).body.owner; owner != 0 && owner != rights.UserID {
				return rights.Denied("use this session", "session_id")
			}
		}
	}
	if _, ok := m.answered(c); ok {
		if err := auth.CheckCommand(rights, c); err != nil {
			return m.withOutcome(err, c)
		}
	}
	return nil
}

// withOutcome says of a refused retry what is known of the first attempt.
func (m *Machine) withOutcome(err *messages.Error, c *messages.Command) *messages.Error {
	a, ok := m.answered(c)
	switch {
	case !ok:
		if s, open := m.sessions.find(c.GetSessionId()); open && c.GetSequence() <= s.acknowledged {
			err.Detail.Outcome = messages.Outcome_OUTCOME_UNKNOWN
		}
	case a.result.GetError() == nil:
		err.Detail.Outcome = messages.Outcome_OUTCOME_APPLIED
	default:
		err.Detail.Outcome = a.result.GetError().GetOutcome()
	}
	return err
}

// answered returns the recorded answer that a command would be given, if there is one.
func (m *Machine) answered(c *messages.Command) (answer, bool) {
	if id := c.GetSessionId(); id != 0 {
		s, ok := m.sessions.find(id)
		if n := c.GetSequence(); ok && n > s.acknowledged && n <= s.last {
			return s.answers[n-s.acknowledged-1], true
		}
		return answer{}, false
	}
	if key := c.GetIdempotencyKey(); key != "" {
		if e, ok := m.findOnce(key); ok && !e.fenced {
			return e.answer, true
		}
	}
	return answer{}, false
}

// nodesOwn are the commands that no client can send.
func nodesOwn(c *messages.Command) bool {
	switch c.Op.(type) {
	case *messages.Command_Tick, *messages.Command_ExpireLeases, *messages.Command_StepIndex,
		*messages.Command_ReportConsumers, *messages.Command_RaiseApplyVersion, *messages.Command_RecordAudit:
		return true
	}
	return false
}

// onceKey is the key that a client's idempotency key is recorded under: keys of users
// are their own, so that nobody can be given, or take, the answer of somebody else.
func (m *Machine) onceKey(key string) string {
	if m.actor == nil {
		return key
	}
	return ownKey(m.actor.UserID, key)
}

// findOnce finds what is recorded under a client's key: their own, or what was recorded
// while there were no users.
func (m *Machine) findOnce(key string) (*idempotencyEntry, bool) {
	e, ok := m.once.byKey[m.onceKey(key)]
	if !ok && m.actor != nil {
		e, ok = m.once.byKey[key]
	}
	return e, ok
}

// mayUse refuses the lease of somebody else, unless the actor has the right over every
// key of it: lease, and write too where its keys go with it. A lease of nobody is a
// node's, or was granted while authorization was disabled: without a key, nobody but root
// ends it. Call it only when there is an actor.
func (m *Machine) mayUse(slot int32, ending bool, field string) *messages.Error {
	r, b := m.actor, m.leases.at(slot).body
	if r.Root() || b.owner == r.UserID && (b.sessionID != 0 || r.AnyLease()) {
		return nil
	}
	allowed := r.AnyLease() && b.owner != r.UserID && (b.owner == 0 && !ending || b.keys.len() > 0)
	if allowed {
		b.keys.scan(func(key string) bool {
			allowed = r.LeasesKey(key) && (!ending || r.WritesKey(key))
			return allowed
		})
	}
	if !allowed {
		return r.Denied("use this lease", field)
	}
	return nil
}

// roomForUser refuses a lease beyond what one user may have.
func (m *Machine) roomForUser() *messages.Error {
	most := m.config.GetUserLeasesMax()
	if m.actor == nil || most == 0 || m.leases.owned[m.actor.UserID] < most {
		return nil
	}
	return messages.NewError(messages.Code_CODE_LEASE_LIMIT, "user %q has %d leases", m.actor.Name, most).
		WithField("ttl_ms").WithLimit(most)
}

// checkOwned panics unless the leases of each user are counted.
func (m *Machine) checkOwned() {
	counted := map[uint64]uint64{}
	m.leases.order.scan(func(s leaseSlot) bool {
		if o := m.leases.at(s.slot).body.owner; o != 0 {
			counted[o]++
		}
		return true
	})
	if !maps.Equal(counted, m.leases.owned) {
		panic(fmt.Sprintf("state: users have %v leases, counted are %v", counted, m.leases.owned))
	}
}

// changeAuth applies a change of who may do what.
func (m *Machine) changeAuth(r *messages.Result, c *messages.Command) *messages.Error {
	next, result, err := m.auth.Change(c.GetChangeAuth(), c.GetPrincipal())
	if err != nil {
		return err
	}
	if next != m.auth {
		m.setAuth(next)
		m.effects.Auth = append(m.effects.Auth, AuthChanged{Table: next, Revision: m.kv.Revision()})
	}
	r.Answer = &messages.Result_Auth{Auth: result}
	return nil
}

// AuthChanged is a change of who may do what, after the events of a revision.
type AuthChanged struct {
	Table    *auth.Table
	Revision uint64
}

// withoutRecords takes the records out of a recorded answer that its asker may not read
// any more. What is left says whether, and where, the write was applied.
func (m *Machine) withoutRecords(r *messages.Result) *messages.Result {
	if m.actor == nil || r == nil || readable(m.actor, r) {
		return r
	}
	bare := &messages.Result{Revision: r.GetRevision(), Replayed: r.GetReplayed()}
	switch a := r.GetAnswer().(type) {
	case *messages.Result_Put:
		bare.Answer = emptyPut
	case *messages.Result_PutMany:
		bare.Answer = &messages.Result_PutMany{PutMany: &messages.PutManyResult{}}
	case *messages.Result_Delete:
		bare.Answer = &messages.Result_Delete{Delete: &messages.DeleteResult{Deleted: a.Delete.GetDeleted()}}
	case *messages.Result_Txn:
		bare.Answer = &messages.Result_Txn{Txn: &messages.TxnResult{Succeeded: a.Txn.GetSucceeded()}}
	}
	return bare
}

// readable reports whether the actor may read every record in a recorded answer.
func readable(rights *auth.Rights, r *messages.Result) bool {
	ok := true
	answer{result: r}.records(func(rec *messages.Record) { ok = ok && rights.ReadsKey(string(rec.GetKey())) })
	return ok
}

const (
	tableAuth  = 64
	tableAudit = 65
	tableOwner = 66
)

// hashAuth is 0 for a cluster that has never heard of users.
func hashAuth(t *auth.Table) uint64 {
	if t.Empty() {
		return 0
	}
	var sum uint64
	t.EachRow(0, func(row *messages.SnapshotAuth) bool {
		sum += hashAuthRow(row)
		return true
	})
	return sum
}

func hashAuthRow(row *messages.SnapshotAuth) uint64 {
	h := newHash(tableAuth)
	switch r := row.GetRow().(type) {
	case *messages.SnapshotAuth_Settings:
		s := r.Settings
		return h.u64(1).bool(s.GetEnabled()).u64(s.GetRevision()).u64(s.GetNextUserId()).bytes(s.GetTokenKey()).sum()
	case *messages.SnapshotAuth_Role:
		h = h.u64(2).str(r.Role.GetName()).u64(uint64(len(r.Role.GetGrants())))
		for _, g := range r.Role.GetGrants() {
			h = h.selector(g.GetSelector()).bool(g.GetRead()).bool(g.GetWrite()).bool(g.GetLease()).bool(g.GetAdmin())
		}
		return h.sum()
	case *messages.SnapshotAuth_User:
		u := r.User
		h = h.u64(3).str(u.GetName()).u64(u.GetId()).str(u.GetPasswordHash()).u64(u.GetCredentialRevision()).u64(uint64(len(u.GetRoles())))
		for _, role := range u.GetRoles() {
			h = h.str(role)
		}
	}
	return h.sum()
}

func (h hasher) selector(s *messages.Selector) hasher {
	switch by := s.GetBy().(type) {
	case *messages.Selector_Key:
		return h.u64(1).bytes(by.Key)
	case *messages.Selector_Prefix:
		return h.u64(2).bytes(by.Prefix)
	case *messages.Selector_Range:
		return h.u64(3).bytes(by.Range.GetStart()).bytes(by.Range.GetEnd())
	}
	return h.u64(0)
}

// hashAuthResult folds a recorded answer.
func hashAuthResult(h hasher, a *messages.AuthResult) hasher {
	h = h.u64(52).u64(a.GetAuthRevision()).bool(a.GetEnabled())
	if u := a.GetUser(); u != nil {
		h = h.u64(hashAuthRow(&messages.SnapshotAuth{Row: &messages.SnapshotAuth_User{User: u}})).bool(u.GetHasPassword())
	}
	if r := a.GetRole(); r != nil {
		h = h.u64(hashAuthRow(&messages.SnapshotAuth{Row: &messages.SnapshotAuth_Role{Role: r}}))
	}
	return h
}

// records visits the records in a recorded answer.
func (a answer) records(fn func(*messages.Record)) {
	some := func(list ...*messages.Record) {
		for _, r := range list {
			if r != nil {
				fn(r)
			}
		}
	}
	switch r := a.result.GetAnswer().(type) {
	case *messages.Result_Put:
		some(r.Put.GetPrev())
	case *messages.Result_PutMany:
		for _, p := range r.PutMany.GetPuts() {
			some(p.GetPrev())
		}
	case *messages.Result_Delete:
		some(r.Delete.GetPrev()...)
	case *messages.Result_Txn:
		for _, o := range r.Txn.GetResponses() {
			some(o.GetGet().GetRecords()...)
			some(o.GetPut().GetPrev())
			some(o.GetDelete().GetPrev()...)
		}
	}
}
