package state

import "github.com/concord-kv/concord/messages"

// Bounds of the memory that recorded answers take. A client that asks every write
// for the record it replaced could otherwise fill every replica.
const (
	// sessionAnswerBytesMax is where a session must acknowledge before it goes on.
	sessionAnswerBytesMax = 16 << 20
	// idempotencyBytesMax is where the oldest answers go before their age.
	idempotencyBytesMax = 256 << 20
)

// answer is a recorded result. The most frequent one, a put that returns nothing,
// is not kept as a message.
type answer struct {
	revision uint64
	result   *messages.Result // nil: a put's empty answer at revision
}

// answerOf returns what is recorded of a result. It shares the result's answer.
func answerOf(r *messages.Result) answer {
	if p, ok := r.Answer.(*messages.Result_Put); ok && r.Error == nil && p.Put.GetPrev() == nil {
		return answer{revision: r.Revision}
	}
	// A copy: the result itself shares its memory with others.
	return answer{revision: r.Revision, result: &messages.Result{Revision: r.Revision, Error: r.Error, Answer: r.Answer}}
}

// replay answers with a recorded result.
func (m *Machine) replay(r *messages.Result, a answer) {
	m.effects.Replayed++
	a.fill(r)
	r.Replayed = true
}

func (a answer) fill(r *messages.Result) {
	r.Revision = a.revision
	if a.result == nil {
		r.Answer = emptyPut
		return
	}
	r.Error, r.Answer = a.result.Error, a.result.Answer
}

// message returns the recorded result in new memory.
func (a answer) message() *messages.Result {
	r := &messages.Result{}
	a.fill(r)
	return r
}

// bytes returns the bytes of keys and values that the answer keeps.
func (a answer) bytes() int {
	if a.result == nil {
		return 0
	}
	return recordBytes(a.result)
}
