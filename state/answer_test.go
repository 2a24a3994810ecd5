package state

import (
	"fmt"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// TestIdempotencyAnswersAreBounded: recorded answers take at most so many bytes of records
// before the oldest go, however few they are and however young.
func TestIdempotencyAnswersAreBounded(t *testing.T) {
	m := newBench(t)
	value := make([]byte, messages.ValueBytesCeiling) // of all answers: only what they count is large
	r := &messages.Result{Answer: &messages.Result_Put{Put: &messages.PutResult{Prev: &messages.Record{Value: value}}}}
	const most = idempotencyBytesMax / messages.ValueBytesCeiling
	for i := range 2 * most {
		m.recordIdempotency(fmt.Sprint(i), []byte{1}, answerOf(r))
		if m.once.bytes > idempotencyBytesMax+messages.ValueBytesCeiling {
			t.Fatalf("%d bytes of answers are kept", m.once.bytes)
		}
	}
	if n := m.once.len(); n < most || n > most+1 {
		t.Errorf("%d answers of %d bytes are kept", n, len(value))
	}
	if _, kept := m.once.byKey[fmt.Sprint(2*most-1)]; !kept {
		t.Error("the newest is gone")
	}
	if _, kept := m.once.byKey["0"]; kept {
		t.Error("the oldest is still there")
	}
}
