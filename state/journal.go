package state

// journal remembers how to undo what a command of several operations did to leases.
// Its operations change the lease table at once, because each of them must see what
// the earlier ones did to leases, limits included; if one is refused, the steps are
// undone in reverse and nothing has happened. Records need no undoing: they wait in
// write. Commands of one operation check first and leave the journal off.
type journal struct {
	on    bool
	steps []undoStep
	// What telemetry had before.
	granted, renewed, ended int
}

type undoStep struct {
	what undoKind
	id   uint64
	key  string
	row  leaseRow
}

type undoKind uint8

const (
	undoAdd    undoKind = iota // a lease was added: row.id
	undoRemove                 // a lease was removed: row
	undoRenew                  // a lease was renewed: row is how it was
	undoAttach                 // key was attached to id
	undoDetach                 // key was detached from id
)

// openJournal turns the journal on until the write is committed or abandoned.
func (m *Machine) openJournal() {
	e := m.effects
	m.journal.on = true
	m.journal.granted, m.journal.renewed, m.journal.ended = len(e.Granted), len(e.Renewed), len(e.Ended)
}

func (j *journal) note(s undoStep) {
	if j.on {
		j.steps = append(j.steps, s)
	}
}

func (j *journal) forget() {
	clear(j.steps)
	j.on, j.steps = false, j.steps[:0]
}

func (m *Machine) undo() {
	j := &m.journal
	if !j.on {
		return
	}
	for i := len(j.steps) - 1; i >= 0; i-- {
		s := j.steps[i]
		switch s.what {
		case undoAdd:
			m.leases.remove(m.mustFind(s.row.id))
			m.global.nextLeaseID--
		case undoRemove:
			m.leases.add(s.row)
		case undoRenew:
			m.leases.renew(m.mustFind(s.row.id), s.row.deadlineMs, s.row.ttlMs, s.row.renewals)
		case undoAttach:
			m.leases.detach(m.mustFind(s.id), s.key)
		case undoDetach:
			m.leases.attach(m.mustFind(s.id), s.key)
		}
	}
	e := m.effects
	e.Granted, e.Renewed, e.Ended = e.Granted[:j.granted], e.Renewed[:j.renewed], e.Ended[:j.ended]
	j.forget()
}
