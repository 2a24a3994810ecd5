package session

import (
	"context"
	"testing"
	"time"

	"github.com/concord-kv/concord/messages"
)

// Answers to keep-alives come in the wrong order, and an error between two of them: the
// deadline only ever moves on, and the holder does not stop with time left.
func TestB058ResignsWithTimeLeft(t *testing.T) {
	w := &world{}
	s := open(t, w)
	last := s.Remaining() + w.now
	step := func(f func()) {
		t.Helper()
		f()
		if end := s.Remaining() + w.now; end < last {
			t.Fatalf("the deadline went back from %v to %v", last, end)
		} else {
			last = end
		}
		held(t, s, true)
	}
	w.advance(8 * time.Second)
	step(func() { w.observer.Confirmed(7*time.Second, ttl) }) // the later one first
	step(func() { w.observer.Confirmed(4*time.Second, ttl) })
	w.checkErr = messages.NewError(messages.Code_CODE_UNAVAILABLE, "")
	step(func() {
		if s.Check(context.Background()) == nil {
			t.Fatal("a check that nobody answered")
		}
	})
	if last != 7*time.Second+span {
		t.Fatalf("it ends at %v", last)
	}
	w.advance(7*time.Second + span - w.now - 10*time.Millisecond)
	held(t, s, true)
	step(func() { w.observer.Confirmed(10*time.Second, ttl) })
	w.advance(2 * time.Second)
	held(t, s, true)
}
