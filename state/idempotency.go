package state

import (
	"bytes"

	"github.com/concord-kv/concord/messages"
)

// idempotencyTable holds the answers of one-shot writes by the key their client
// chose. Entries leave in the order they came, by age and by number, which is the
// same on every replica.
type idempotencyTable struct {
	byKey map[string]*idempotencyEntry
	// queue holds the entries in order. It only grows at its end and shrinks at its
	// front, so that a view can share it; the entries never change.
	queue  []*idempotencyEntry
	order  uint64 // of the next entry
	bytes  int    // of the answers
	digest uint64
}

type idempotencyEntry struct {
	key          string
	requestHash  []byte
	fenced       bool
	answer       answer
	recordedAtMs int64
	order        uint64
}

func newIdempotencyTable() idempotencyTable {
	return idempotencyTable{byKey: map[string]*idempotencyEntry{}, order: 1}
}

func (t *idempotencyTable) len() int { return len(t.queue) }

func (t *idempotencyTable) add(e *idempotencyEntry) {
	t.byKey[e.key] = e
	t.queue = append(t.queue, e)
	t.order = e.order + 1
	t.bytes += e.answer.bytes()
	t.digest += hashIdempotency(e)
}

func (t *idempotencyTable) dropFirst() {
	e := t.queue[0]
	t.queue = t.queue[1:]
	delete(t.byKey, e.key)
	t.bytes -= e.answer.bytes()
	t.digest -= hashIdempotency(e)
	if len(t.queue) == 0 {
		t.order = 1 // a snapshot cannot tell it when there is no entry
	}
}

// trim drops the oldest entries until most are left.
func (t *idempotencyTable) trim(most uint64) {
	for uint64(len(t.queue)) > most {
		t.dropFirst()
	}
}

// expire drops the entries that are older than age.
func (t *idempotencyTable) expire(nowMs, ageMs int64) {
	for len(t.queue) > 0 && nowMs-t.queue[0].recordedAtMs >= ageMs {
		t.dropFirst()
	}
}

// record keeps the answer of a request, or, with a nil hash, that the key is fenced.
func (m *Machine) recordIdempotency(key string, hash []byte, a answer) {
	m.once.trim(m.config.GetIdempotencyEntriesMax() - 1)
	for m.once.bytes > idempotencyBytesMax {
		m.once.dropFirst()
	}
	m.once.add(&idempotencyEntry{
		key: key, requestHash: bytes.Clone(hash), fenced: hash == nil, answer: a,
		recordedAtMs: m.clock.ms, order: m.once.order,
	})
}

// idempotent applies a command once for each idempotency key, if it has one.
func (m *Machine) idempotent(r *messages.Result, c *messages.Command) *messages.Error {
	key := c.GetIdempotencyKey()
	if key == "" {
		return m.operate(r, c)
	}
	if e, ok := m.findOnce(key); ok {
		switch {
		case e.fenced:
			return messages.NewError(messages.Code_CODE_IDEMPOTENCY_FENCED, "the request was given up").WithField("idempotency_key")
		case !bytes.Equal(e.requestHash, c.GetRequestHash()):
			return messages.NewError(messages.Code_CODE_IDEMPOTENCY_CONFLICT, "another request had this key").WithField("idempotency_key")
		}
		m.replay(r, e.answer)
		return nil
	}
	m.settle(r, m.operate(r, c))
	m.recordIdempotency(m.onceKey(key), c.GetRequestHash(), answerOf(r))
	return nil
}

// resolveIdempotency tells what became of a request. To not find it says nothing:
// it may still be on its way, unless it is fenced here.
func (m *Machine) resolveIdempotency(r *messages.Result, q *messages.ResolveIdempotency) *messages.Error {
	result := &messages.ResolveIdempotencyResult{}
	e, ok := m.findOnce(q.GetKey())
	switch {
	case ok && e.fenced:
		result.State = messages.ResolveIdempotencyResult_STATE_FENCED
	case ok:
		result.State = messages.ResolveIdempotencyResult_STATE_RECORDED
		result.Result = m.withoutRecords(e.answer.message())
	case q.GetFence():
		m.recordIdempotency(m.onceKey(q.GetKey()), nil, answer{result: &messages.Result{}})
		result.State = messages.ResolveIdempotencyResult_STATE_FENCED
	default:
		result.State = messages.ResolveIdempotencyResult_STATE_NOT_FOUND
	}
	r.Answer = &messages.Result_ResolveIdempotency{ResolveIdempotency: result}
	return nil
}
