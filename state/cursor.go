package state

import (
	"math"

	"github.com/concord-kv/concord/messages"
)

// cursorTable holds the consumers of changes that compaction waits for: named
// cursors of clients, and what each node's watch hub has delivered.
type cursorTable struct {
	named   ordered[cursor]
	reports ordered[report]
	digest  uint64
}

type cursor struct {
	name    string
	leaseID uint64
	after   uint64
}

type report struct {
	replica uint64
	leaseID uint64
	after   uint64
}

func newCursorTable() cursorTable {
	return cursorTable{
		named:   newOrdered(func(a, b cursor) bool { return a.name < b.name }),
		reports: newOrdered(func(a, b report) bool { return a.replica < b.replica }),
	}
}

func (t *cursorTable) set(c cursor) {
	t.drop(c.name)
	t.named.set(c)
	t.digest += hashCursor(c)
}

func (t *cursorTable) drop(name string) {
	if old, ok := t.named.get(cursor{name: name}); ok {
		t.digest -= hashCursor(old)
		t.named.remove(old)
	}
}

func (t *cursorTable) setReport(r report) {
	t.dropReport(r.replica)
	t.reports.set(r)
	t.digest += hashReport(r)
}

func (t *cursorTable) dropReport(replica uint64) {
	if old, ok := t.reports.get(report{replica: replica}); ok {
		t.digest -= hashReport(old)
		t.reports.remove(old)
	}
}

// dropLease drops the consumers that end with a lease.
func (t *cursorTable) dropLease(id uint64) {
	var names []string
	t.named.scan(func(c cursor) bool {
		if c.leaseID == id {
			names = append(names, c.name)
		}
		return true
	})
	for _, name := range names {
		t.drop(name)
	}
	var replicas []uint64
	t.reports.scan(func(r report) bool {
		if r.leaseID == id {
			replicas = append(replicas, r.replica)
		}
		return true
	})
	for _, replica := range replicas {
		t.dropReport(replica)
	}
}

// counts reports whether compaction waits for a consumer: it has not fallen behind
// too far, and what it needs is still there.
func counts(after, revision, c, lagMax uint64) bool {
	return after >= c && revision-min(after, revision) <= lagMax
}

// floor returns how far compaction may go: the least position of all consumers
// that count.
func (t *cursorTable) floor(revision, c, lagMax uint64) uint64 {
	return floorOf(t.named.scan, t.reports.scan, revision, c, lagMax)
}

// floorOf is floor over the rows that two scans visit.
func floorOf(named func(func(cursor) bool), reports func(func(report) bool), revision, c, lagMax uint64) uint64 {
	floor := uint64(math.MaxUint64)
	named(func(u cursor) bool {
		if counts(u.after, revision, c, lagMax) {
			floor = min(floor, u.after)
		}
		return true
	})
	reports(func(u report) bool {
		if counts(u.after, revision, c, lagMax) {
			floor = min(floor, u.after)
		}
		return true
	})
	return floor
}

func (m *Machine) openCursor(r *messages.Result, o *messages.OpenCursor) *messages.Error {
	if _, exists := m.cursors.named.get(cursor{name: o.GetName()}); exists {
		return messages.NewError(messages.Code_CODE_CURSOR_EXISTS, "cursor %q exists", o.GetName()).WithField("name")
	}
	if most := m.config.GetCursorsMax(); uint64(m.cursors.named.len()) >= most {
		return m.field(messages.NewError(messages.Code_CODE_CURSOR_LIMIT, "%d cursors exist", most).WithLimit(most), "name")
	}
	if err := m.readablePosition("after_revision", o.GetAfterRevision()); err != nil {
		return err
	}
	slot, ok := m.explicit(o.GetLeaseId())
	if !ok {
		return unknownLease(o.GetLeaseId())
	}
	if m.actor != nil {
		if err := m.mayUse(slot, false, "lease_id"); err != nil {
			return err
		}
	}
	c := cursor{name: o.GetName(), leaseID: o.GetLeaseId(), after: o.GetAfterRevision()}
	m.cursors.set(c)
	m.leases.depend(c.leaseID, 1)
	r.Answer = m.cursorAnswer(c)
	return nil
}

// checkpointCursor moves a cursor forward. A checkpoint that comes late, after a
// higher one, changes nothing; the answer says where the cursor is.
func (m *Machine) checkpointCursor(r *messages.Result, p *messages.CheckpointCursor) *messages.Error {
	c, ok := m.cursors.named.get(cursor{name: p.GetName()})
	if !ok {
		return cursorNotFound(p.GetName())
	}
	if m.actor != nil {
		if err := m.mayUse(m.mustFind(c.leaseID), false, "name"); err != nil {
			return err
		}
	}
	if p.GetAfterRevision() > c.after {
		if err := m.readablePosition("after_revision", p.GetAfterRevision()); err != nil {
			return err
		}
		c.after = p.GetAfterRevision()
		m.cursors.set(c)
	}
	r.Answer = m.cursorAnswer(c)
	return nil
}

func (m *Machine) closeCursor(r *messages.Result, p *messages.CloseCursor) *messages.Error {
	c, ok := m.cursors.named.get(cursor{name: p.GetName()})
	if !ok {
		return cursorNotFound(p.GetName())
	}
	if m.actor != nil {
		if err := m.mayUse(m.mustFind(c.leaseID), false, "name"); err != nil {
			return err
		}
	}
	m.cursors.drop(c.name)
	m.leases.depend(c.leaseID, -1)
	r.Answer = m.cursorAnswer(c)
	return nil
}

// reportConsumers notes what the watchers of a node have seen. A node whose watchers
// are new may report less than before.
func (m *Machine) reportConsumers(p *messages.ReportConsumers) *messages.Error {
	old, had := m.cursors.reports.get(report{replica: p.GetReplicaId()})
	if !p.GetActive() {
		if had {
			m.cursors.dropReport(old.replica)
			m.leases.depend(old.leaseID, -1)
		}
		return nil
	}
	if p.GetReplicaId() == 0 {
		return messages.InvalidField("replica_id", "must not be 0")
	}
	if p.GetAfterRevision() > m.kv.Revision() {
		return futureRevision("after_revision", p.GetAfterRevision(), m.kv.Revision())
	}
	if _, ok := m.explicit(p.GetLeaseId()); !ok {
		return unknownLease(p.GetLeaseId())
	}
	if had {
		m.leases.depend(old.leaseID, -1)
	}
	m.cursors.setReport(report{replica: p.GetReplicaId(), leaseID: p.GetLeaseId(), after: p.GetAfterRevision()})
	m.leases.depend(p.GetLeaseId(), 1)
	return nil
}

// readablePosition refuses a position that no consumer can go on from.
func (m *Machine) readablePosition(field string, after uint64) *messages.Error {
	if c := m.kv.Compacted(); after < c {
		return compacted(field, after, c)
	}
	if r := m.kv.Revision(); after > r {
		return futureRevision(field, after, r)
	}
	return nil
}

func (m *Machine) cursorAnswer(c cursor) *messages.Result_Cursor {
	return &messages.Result_Cursor{Cursor: &messages.CursorResult{
		Cursor: c.info(m.kv.Revision(), m.kv.Compacted(), m.config.GetConsumerLagMax()),
	}}
}

func (c cursor) info(revision, compactRevision, lagMax uint64) *messages.CursorInfo {
	return &messages.CursorInfo{
		Name: c.name, LeaseId: c.leaseID, AfterRevision: c.after,
		Counted: counts(c.after, revision, compactRevision, lagMax),
	}
}

func cursorNotFound(name string) *messages.Error {
	return messages.NewError(messages.Code_CODE_CURSOR_NOT_FOUND, "no cursor is called %q", name).WithField("name")
}
