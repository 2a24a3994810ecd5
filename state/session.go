package state

import (
	"fmt"

	"github.com/tidwall/btree"

	"github.com/concord-kv/concord/messages"
)

// sessionTable holds the exactly-once sessions: for each the number of its last
// write, and the answers that its client has not acknowledged yet.
type sessionTable struct {
	table  ordered[sessionRow]
	gen    uint64
	shared bool
	digest uint64
}

// sessionRow stands in the table; its session is copied before a change when a view
// may see it.
type sessionRow struct {
	id uint64
	*session
}

type session struct {
	gen     uint64
	leaseID uint64
	label   string
	// last is the highest number that was answered, acknowledged the highest whose
	// answer is not needed any more. answers are those between, without gaps. The
	// slice only grows at its end and shrinks at its front, so that a view can
	// share it.
	last, acknowledged uint64
	answers            []answer
	bytes              int // of the answers
}

// answersGrowth is the least room that a session's answers get at once: most
// sessions never have more than a few.
const answersGrowth = 16

func newSessionTable() sessionTable {
	return sessionTable{gen: 1, table: newOrdered(func(a, b sessionRow) bool { return a.id < b.id })}
}

func (t *sessionTable) len() int { return t.table.len() }

func (t *sessionTable) find(id uint64) (*session, bool) {
	row, ok := t.table.get(sessionRow{id: id})
	return row.session, ok
}

// own returns a session of the table for changing it: s, or a copy when a view may
// see s. Its hash has left the digest: call done afterwards.
func (t *sessionTable) own(id uint64, s *session) *session {
	t.digest -= hashSession(id, s)
	if t.shared {
		t.shared = false
		t.gen++
	}
	if s.gen != t.gen {
		c := *s
		c.gen = t.gen
		s = &c
		t.table.set(sessionRow{id: id, session: s})
	}
	return s
}

func (t *sessionTable) done(id uint64, s *session) { t.digest += hashSession(id, s) }

func (t *sessionTable) add(id uint64, s session) {
	if t.shared {
		t.shared = false
		t.gen++
	}
	s.gen = t.gen
	s.bytes = 0
	t.table.set(sessionRow{id: id, session: &s})
	t.digest += hashSession(id, &s)
	for i, a := range s.answers {
		t.digest += s.hashAnswer(id, i)
		s.bytes += a.bytes()
	}
}

func (t *sessionTable) remove(id uint64) {
	s, ok := t.find(id)
	if !ok {
		panic(fmt.Sprintf("sessions: %d does not exist", id))
	}
	t.digest -= hashSession(id, s)
	for i := range s.answers {
		t.digest -= s.hashAnswer(id, i)
	}
	t.table.remove(sessionRow{id: id})
}

// acknowledge drops the answers up to a number, and returns the session then.
func (t *sessionTable) acknowledge(id uint64, s *session, number uint64) *session {
	number = min(number, s.last)
	if number <= s.acknowledged {
		return s
	}
	s = t.own(id, s)
	n := int(number - s.acknowledged)
	for i := range n {
		t.digest -= s.hashAnswer(id, i)
		s.bytes -= s.answers[i].bytes()
	}
	s.answers = s.answers[n:]
	s.acknowledged = number
	t.done(id, s)
	return s
}

// record keeps the answer of the next number.
func (t *sessionTable) record(id uint64, s *session, r *messages.Result) {
	s = t.own(id, s)
	s.last++
	if n := len(s.answers); n == cap(s.answers) {
		s.answers = append(make([]answer, 0, max(answersGrowth, 2*n)), s.answers...)
	}
	a := answerOf(r)
	s.answers = append(s.answers, a)
	s.bytes += a.bytes()
	t.digest += s.hashAnswer(id, len(s.answers)-1)
	t.done(id, s)
}

func (t *sessionTable) view() *btree.BTreeG[sessionRow] {
	t.shared = true
	return t.table.freeze()
}

// number returns the sequence number of answers[i].
func (s *session) number(i int) uint64 { return s.acknowledged + uint64(i) + 1 }

// inSession applies a numbered write of a session: each number once, in order.
func (m *Machine) inSession(r *messages.Result, c *messages.Command) *messages.Error {
	id, number := c.GetSessionId(), c.GetSequence()
	s, ok := m.sessions.find(id)
	if !ok {
		// Whether this number was applied while the session lived, nobody knows.
		return m.field(messages.UnknownOutcome(messages.Code_CODE_SESSION_EXPIRED, "session %d does not exist", id), "session_id")
	}
	s = m.sessions.acknowledge(id, s, c.GetAcknowledged())
	switch {
	case number <= s.acknowledged:
		return m.field(messages.UnknownOutcome(messages.Code_CODE_OUT_OF_ORDER, "write %d was answered and acknowledged", number), "sequence")
	case number <= s.last:
		m.replay(r, s.answers[number-s.acknowledged-1])
		return nil
	case number > s.last+1:
		return m.field(messages.NewError(messages.Code_CODE_OUT_OF_ORDER, "write %d is next, not %d", s.last+1, number), "sequence")
	case !m.live(m.leases.at(m.mustFind(s.leaseID))):
		return m.field(messages.NewError(messages.Code_CODE_SESSION_EXPIRED, "session %d is past its deadline", id), "session_id")
	}
	if most := m.config.GetSessionAnswersMax(); uint64(len(s.answers)) >= most {
		return messages.NewError(messages.Code_CODE_OVERLOADED, "%d answers wait for an acknowledgement", most).
			WithField("acknowledged").WithLimit(most)
	}
	if s.bytes >= sessionAnswerBytesMax {
		return messages.NewError(messages.Code_CODE_OVERLOADED, "%d bytes of answers wait for an acknowledgement", s.bytes).
			WithField("acknowledged").WithLimit(sessionAnswerBytesMax)
	}
	m.settle(r, m.idempotent(r, c))
	if s, ok := m.sessions.find(id); ok { // it may have ended itself
		m.sessions.record(id, s, r)
	}
	return nil
}

// openSession makes a session and the lease that it hangs on.
func (m *Machine) openSession(r *messages.Result, o *messages.OpenSession) *messages.Error {
	if most := m.config.GetSessionsMax(); uint64(m.sessions.len()) >= most {
		return m.field(messages.NewError(messages.Code_CODE_SESSION_LIMIT, "%d sessions exist", most).WithLimit(most), "open_session")
	}
	if err := m.roomForLease(0); err != nil {
		return err
	}
	if err := m.roomForUser(); err != nil {
		return err
	}
	id := m.global.nextSessionID
	m.global.nextSessionID++
	lease, _ := m.newLease(o.GetTtlMs(), false, leaseBody{sessionID: id})
	m.sessions.add(id, session{leaseID: lease, label: o.GetLabel()})
	r.Answer = &messages.Result_OpenSession{OpenSession: &messages.OpenSessionResult{
		SessionId: id, LeaseId: lease, TtlMs: o.GetTtlMs(),
	}}
	return nil
}

// closeSession ends a session and its lease.
func (m *Machine) closeSession(r *messages.Result, c *messages.CloseSession) *messages.Error {
	s, ok := m.sessions.find(c.GetSessionId())
	if !ok {
		return messages.NewError(messages.Code_CODE_SESSION_EXPIRED, "session %d does not exist", c.GetSessionId()).
			WithField("session_id")
	}
	if m.actor != nil {
		if err := m.mayUse(m.mustFind(s.leaseID), true, "session_id"); err != nil {
			return err
		}
	}
	m.begin(false)
	keys := m.endLease(m.mustFind(s.leaseID), messages.EventCause_EVENT_CAUSE_REVOKED)
	m.commit()
	r.Answer = &messages.Result_CloseSession{CloseSession: &messages.CloseSessionResult{KeysDeleted: uint64(keys)}}
	return nil
}
