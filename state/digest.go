package state

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// Digest returns a hash of the whole logical state. Replicas that applied the same
// entries have the same digest, whatever their batches, how far they have swept,
// and whether they began from a snapshot. It costs O(1): each table keeps its own.
func (m *Machine) Digest() uint64 {
	return m.authDigest(m.authH, m.audit.digest) + m.hashGlobal().
		u64(m.kv.Digest()).u64(m.leases.digest).u64(m.sessions.digest).u64(m.once.digest).
		u64(m.cursors.digest).u64(m.samples.digest).u64(m.indexes.Digest()).u64(m.configH).sum()
}

// FullDigest returns what Digest must be, computed from the rows, and panics when
// two tables disagree. For tests and for suspicion: it reads everything.
func (m *Machine) FullDigest() uint64 {
	m.checkLeases()
	m.checkOwned()
	var leases, sessions, once, cursors, samples uint64
	m.leases.order.scan(func(s leaseSlot) bool {
		row := m.leases.at(s.slot)
		if fixed := hashLeaseFixed(row); fixed != row.fixed || row.id != s.id {
			panic(fmt.Sprintf("state: lease %d has changed where it never may", row.id))
		}
		leases += hashLease(row)
		return true
	})
	m.sessions.table.scan(func(s sessionRow) bool {
		sessions += hashSession(s.id, s.session)
		for i := range s.answers {
			sessions += s.hashAnswer(s.id, i)
		}
		return true
	})
	for _, e := range m.once.queue {
		once += hashIdempotency(e)
	}
	m.cursors.named.scan(func(c cursor) bool { cursors += hashCursor(c); return true })
	m.cursors.reports.scan(func(r report) bool { cursors += hashReport(r); return true })
	for _, s := range m.samples.list {
		samples += hashSample(s)
	}
	var audit uint64
	for _, r := range m.audit.list {
		audit += hashAudit(r)
	}
	return m.authDigest(hashAuth(m.auth), audit) + m.hashGlobal().
		u64(m.kv.FullDigest()).u64(leases).u64(sessions).u64(once).
		u64(cursors).u64(samples).u64(m.indexes.FullDigest()).u64(hashConfig(m.config)).sum()
}

// checkLeases panics unless each key's lease has the key, and the other way round.
func (m *Machine) checkLeases() {
	m.leases.byTime.check()
	attached := 0
	m.kv.Ascend("", "", func(r store.Rec) bool {
		if id := r.Lease(); id != 0 {
			if row := m.leases.at(m.mustFind(id)); !row.body.keys.has(r.Key()) {
				panic(fmt.Sprintf("state: key %q has lease %d, which does not have it", r.Key(), id))
			}
			attached++
		}
		return true
	})
	m.leases.order.scan(func(s leaseSlot) bool {
		row := m.leases.at(s.slot)
		attached -= row.body.keys.len()
		if row.anonymous && row.body.keys.len() != 1 {
			panic(fmt.Sprintf("state: anonymous lease %d has %d keys", s.id, row.body.keys.len()))
		}
		return true
	})
	if attached != 0 {
		panic(fmt.Sprintf("state: keys and leases differ by %d attachments", attached))
	}
	if n := m.leases.len(); n != m.leases.order.len() || n != m.leases.byTime.len() {
		panic(fmt.Sprintf("state: %d leases, %d in order, %d with a deadline", n, m.leases.order.len(), m.leases.byTime.len()))
	}
}

func (m *Machine) hashGlobal() hasher {
	g := &m.global
	return newHash(tableGlobal).bytes(g.clusterID).u64(g.incarnation).u64(uint64(g.applyVersion)).
		u64(g.nextLeaseID).u64(g.nextSessionID).u64(g.commandCount).
		i64(m.clock.ms).u64(m.clock.epoch).u64(m.clock.replica).u64(m.clock.nonce).u64(m.once.order)
}

func hashLeaseFixed(row *leaseRow) uint64 {
	b := row.body
	var owner uint64
	if b.owner != 0 {
		owner = newHash(tableOwner).u64(row.id).u64(b.owner).sum()
	}
	return owner + newHash(tableLease).u64(row.id).u64(b.grantedAt).u64(b.alias).u64(b.sessionID).bool(row.anonymous).
		metadata(b.metadata).sum()
}

func hashLease(row *leaseRow) uint64 {
	return hasher(row.fixed).i64(row.deadlineMs).i64(row.ttlMs).u64(row.renewals).sum()
}

func hashSession(id uint64, s *session) uint64 {
	return newHash(tableSession).u64(id).u64(s.leaseID).str(s.label).u64(s.last).u64(s.acknowledged).sum()
}

func (s *session) hashAnswer(id uint64, i int) uint64 {
	return s.answers[i].hash(newHash(tableAnswer).u64(id).u64(s.number(i))).sum()
}

func hashIdempotency(e *idempotencyEntry) uint64 {
	return e.answer.hash(newHash(tableIdempotency).str(e.key).bytes(e.requestHash).bool(e.fenced).
		i64(e.recordedAtMs).u64(e.order)).sum()
}

func hashCursor(c cursor) uint64 {
	return newHash(tableCursor).str(c.name).u64(c.leaseID).u64(c.after).sum()
}

func hashReport(r report) uint64 {
	return newHash(tableReport).u64(r.replica).u64(r.leaseID).u64(r.after).sum()
}

func hashSample(s sample) uint64 {
	return newHash(tableSample).u64(s.revision).i64(s.clockMs).sum()
}

// hashConfig covers every field of the configuration by its number, so that a new
// setting is part of it at once.
func hashConfig(c *messages.ClusterConfig) uint64 {
	h := newHash(tableConfig)
	m := c.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		h = h.u64(uint64(fd.Number()))
		switch {
		case fd.IsList():
			for _, p := range c.GetProtectedPrefixes() {
				h = h.bytes(p.GetPrefix()).u64(p.GetFloor())
			}
		case fd.Kind() == protoreflect.Int64Kind:
			h = h.i64(m.Get(fd).Int())
		default:
			h = h.u64(m.Get(fd).Uint())
		}
	}
	return h.sum()
}
