package state

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// mustFind returns the slot of a lease that a record or another table names.
func (m *Machine) mustFind(id uint64) int32 {
	slot, ok := m.leases.find(id)
	if !ok {
		panic(fmt.Sprintf("state: lease %d is named and does not exist", id))
	}
	return slot
}

// live reports whether a lease is before its deadline. From the deadline on it is
// dead, even while its expiry has not been applied, and it never comes back.
func (m *Machine) live(row *leaseRow) bool { return m.clock.ms < row.deadlineMs }

// explicit returns a live lease that clients may name. Anonymous leases are reached
// through their key only.
func (m *Machine) explicit(id uint64) (int32, bool) {
	slot, ok := m.leases.find(id)
	if !ok {
		return 0, false
	}
	row := m.leases.at(slot)
	return slot, !row.anonymous && m.live(row)
}

// newLease adds a lease with the next id.
func (m *Machine) newLease(ttlMs int64, anonymous bool, body leaseBody) (uint64, int32) {
	id := m.global.nextLeaseID
	m.global.nextLeaseID++
	body.gen = m.leases.bodyGen()
	body.grantedAt = m.kv.Revision()
	if m.actor != nil && !anonymous {
		body.owner = m.actor.UserID
	}
	row := leaseRow{id: id, ttlMs: ttlMs, deadlineMs: m.clock.ms + ttlMs, anonymous: anonymous, body: &body}
	row.fixed = hashLeaseFixed(&row)
	slot := m.leases.add(row)
	m.journal.note(undoStep{what: undoAdd, row: row})
	m.effects.Granted = append(m.effects.Granted, LeaseGranted{LeaseID: id, TTLMs: ttlMs, Anonymous: anonymous})
	return id, slot
}

// roomForLease refuses a lease beyond the limit. freed is how many go in the same
// step. Leases that are dead and not swept count: they hold memory.
func (m *Machine) roomForLease(freed int) *messages.Error {
	most := m.config.GetLeasesMax()
	if uint64(m.leases.len()-freed) < most {
		return nil
	}
	return m.field(messages.NewError(messages.Code_CODE_LEASE_LIMIT, "%d leases exist, at most %d", m.leases.len(), most).
		WithLimit(most), "ttl_ms")
}

// renew moves a deadline to max(deadline, clock + ttl): never back, because its
// holder counts on the deadline that it knows.
func (m *Machine) renew(slot int32, ttlMs int64) (remainingMs int64) {
	row := m.leases.at(slot)
	if m.journal.on {
		m.journal.note(undoStep{what: undoRenew, row: *row})
	}
	deadlineMs := max(row.deadlineMs, m.clock.ms+ttlMs)
	id := row.id
	m.leases.renew(slot, deadlineMs, ttlMs, row.renewals+1)
	m.effects.Renewed = append(m.effects.Renewed, LeaseRenewed{LeaseID: id, RemainingMs: deadlineMs - m.clock.ms})
	return deadlineMs - m.clock.ms
}

func (m *Machine) attach(slot int32, key string) {
	m.leases.attach(slot, key)
	m.journal.note(undoStep{what: undoAttach, id: m.leases.at(slot).id, key: key})
}

// release takes a key from the lease it has: an anonymous lease goes with it.
func (m *Machine) release(id uint64, key string) {
	slot := m.mustFind(id)
	row := m.leases.at(slot)
	if !row.anonymous {
		m.leases.detach(slot, key)
		m.journal.note(undoStep{what: undoDetach, id: id, key: key})
		return
	}
	m.journal.note(undoStep{what: undoRemove, row: m.leases.remove(slot)})
	m.effects.Ended = append(m.effects.Ended, LeaseEnded{
		LeaseID: id, Keys: 1, Anonymous: true, Cause: messages.EventCause_EVENT_CAUSE_UNSPECIFIED,
	})
}

// endLease stages the deletion of every key of a lease, in key order, and takes the
// lease and all that hangs on it out of the tables.
func (m *Machine) endLease(slot int32, cause messages.EventCause) (keys int) {
	row := m.leases.at(slot)
	id, body := row.id, row.body
	body.keys.scan(func(key string) bool {
		r, ok := m.kv.Get(key)
		if !ok || r.Lease() != id {
			panic(fmt.Sprintf("state: lease %d has key %q, which does not have it", id, key))
		}
		m.stageTombstone(r, cause)
		keys++
		return true
	})
	ended := LeaseEnded{LeaseID: id, Keys: keys, Anonymous: row.anonymous, Cause: cause}
	if cause == messages.EventCause_EVENT_CAUSE_EXPIRED {
		ended.LatenessMs = m.clock.ms - row.deadlineMs
	}
	m.effects.Ended = append(m.effects.Ended, ended)
	if body.dependents > 0 {
		m.cursors.dropLease(id)
	}
	if body.sessionID != 0 {
		m.sessions.remove(body.sessionID)
	}
	m.leases.remove(slot)
	return keys
}

func (m *Machine) grantLease(r *messages.Result, g *messages.GrantLease) *messages.Error {
	if err := m.roomForLease(0); err != nil {
		return err
	}
	if err := m.roomForUser(); err != nil {
		return err
	}
	if a := g.GetAlias(); a != 0 {
		if slot, ok := m.leases.findAlias(a); ok && m.live(m.leases.at(slot)) {
			return messages.NewError(messages.Code_CODE_ALIAS_EXISTS, "lease %d has alias %d", m.leases.at(slot).id, a).
				WithField("alias").WithLease(m.leases.at(slot).id)
		}
	}
	id, _ := m.newLease(g.GetTtlMs(), false, leaseBody{alias: g.GetAlias(), metadata: g.GetMetadata()})
	r.Answer = &messages.Result_GrantLease{GrantLease: &messages.GrantLeaseResult{LeaseId: id, TtlMs: g.GetTtlMs()}}
	return nil
}

func (m *Machine) keepAliveLease(r *messages.Result, k *messages.KeepAliveLease) *messages.Error {
	slot, ok := m.explicit(k.GetLeaseId())
	if !ok {
		return m.field(leaseNotFound(k.GetLeaseId()), "lease_id")
	}
	if m.actor != nil {
		if err := m.mayUse(slot, false, "lease_id"); err != nil {
			return err
		}
	}
	ttl := k.GetNewTtlMs()
	if ttl == 0 {
		ttl = m.leases.at(slot).ttlMs
	}
	remaining := m.renew(slot, ttl)
	a := m.keepAliveAnswer()
	a.result.LeaseId, a.result.TtlMs, a.result.RemainingTtlMs = k.GetLeaseId(), ttl, remaining
	r.Answer = &a.wrapper
	return nil
}

// keepAliveAnswer keeps the parts of a keep-alive's answer in one piece of memory.
type keepAliveAnswer struct {
	wrapper messages.Result_KeepAliveLease
	result  messages.KeepAliveLeaseResult
}

// keepAliveChunk is how many answers are allocated at once. They are never recorded,
// so that none of them keeps the others in memory for long.
const keepAliveChunk = 32

func (m *Machine) keepAliveAnswer() *keepAliveAnswer {
	if len(m.keepAlives) == 0 {
		m.keepAlives = make([]keepAliveAnswer, keepAliveChunk)
	}
	a := &m.keepAlives[0]
	m.keepAlives = m.keepAlives[1:]
	a.wrapper.KeepAliveLease = &a.result
	return a
}

// revokeLease ends a lease now. One that is dead and not swept can be revoked too:
// it ends its keys' time a little earlier and revives nothing.
func (m *Machine) revokeLease(r *messages.Result, v *messages.RevokeLease) *messages.Error {
	slot, ok := m.leases.find(v.GetLeaseId())
	if !ok || m.leases.at(slot).anonymous {
		return m.field(leaseNotFound(v.GetLeaseId()), "lease_id")
	}
	if m.actor != nil {
		if err := m.mayUse(slot, true, "lease_id"); err != nil {
			return err
		}
	}
	m.begin(false)
	keys := m.endLease(slot, messages.EventCause_EVENT_CAUSE_REVOKED)
	m.commit()
	r.Answer = &messages.Result_RevokeLease{RevokeLease: &messages.RevokeLeaseResult{KeysDeleted: uint64(keys)}}
	return nil
}

// expireLeases ends the leases that are due, all at one revision. Each pair is
// checked again here, where the log has put it: a lease that was renewed meanwhile
// is another one than the proposer saw.
func (m *Machine) expireLeases(r *messages.Result, e *messages.ExpireLeases) *messages.Error {
	if n := len(e.GetPairs()); n > messages.ExpireLeasesMax {
		return messages.InvalidField("pairs", "%d pairs, at most %d", n, messages.ExpireLeasesMax).WithLimit(messages.ExpireLeasesMax)
	}
	m.begin(false)
	expired, keys := 0, 0
	for _, p := range e.GetPairs() {
		slot, ok := m.leases.find(p.GetLeaseId())
		if !ok {
			continue
		}
		row := m.leases.at(slot)
		if row.renewals != p.GetRenewals() || m.live(row) {
			continue
		}
		if keys+row.body.keys.len() > messages.CommandKeysMax {
			break
		}
		keys += m.endLease(slot, messages.EventCause_EVENT_CAUSE_EXPIRED)
		expired++
	}
	m.commit()
	r.Answer = &messages.Result_ExpireLeases{ExpireLeases: &messages.ExpireLeasesResult{
		Expired: uint32(expired), Skipped: uint32(len(e.GetPairs()) - expired), KeysDeleted: uint64(keys),
	}}
	return nil
}

// stageTombstone stages the deletion of a record. The tombstone keeps its create
// revision: it says which life of the key has ended.
func (m *Machine) stageTombstone(r store.Rec, cause messages.EventCause) {
	m.stage(store.Make(store.Fields{
		Key: r.Key(), Create: r.Create(), Mod: m.write.revision, OpIndex: m.write.next(), Cause: cause, Tombstone: true,
	}))
}

func leaseNotFound(id uint64) *messages.Error {
	return messages.NewError(messages.Code_CODE_LEASE_NOT_FOUND, "lease %d does not exist", id).WithLease(id)
}

func unknownLease(id uint64) *messages.Error {
	return messages.NewError(messages.Code_CODE_UNKNOWN_LEASE, "lease %d does not exist or is past its deadline", id).
		WithField("lease_id").WithLease(id)
}

func leaseConflict(id uint64) *messages.Error {
	return messages.NewError(messages.Code_CODE_LEASE_CONFLICT, "the key is attached to lease %d: delete it first", id).
		WithField("lease_id").WithLease(id)
}
