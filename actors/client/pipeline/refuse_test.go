package pipeline

import (
	"testing"

	"github.com/concord-kv/concord/messages"
)

// TestRefusedCredentialsEndWatches: a client that nodes know nobody by is told so at its
// watches too, at the third refusal in a row; a connection in between begins anew.
func TestRefusedCredentialsEndWatches(t *testing.T) {
	h := newTrace()
	hello := &messages.ServerHello{Protocol: 1, Incarnation: 1, ValueBytesMax: 1 << 20}
	w, err := h.p.OpenWatch(&messages.WatchRequest{Selector: &messages.Selector{By: &messages.Selector_Prefix{}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	nobody := messages.NewError(messages.Code_CODE_UNAUTHENTICATED, "no such user").WithField("credentials")
	refuse := func(times int) {
		for range times {
			h.p.Disconnected(nobody)
			h.p.Refuse(nobody)
		}
	}
	refuse(refusalsMax - 1)
	if w.End() != nil {
		t.Fatalf("ended early: %v", w.End())
	}
	if err := h.p.Connected(hello, h.now); err != nil {
		t.Fatal(err)
	}
	refuse(refusalsMax - 1)
	if w.End() != nil {
		t.Fatalf("ended although a node took the credentials in between: %v", w.End())
	}
	refuse(1)
	_, ok, end := h.p.Take(w)
	if d := messages.DetailOf(end); ok || d.GetCode() != messages.Code_CODE_UNAUTHENTICATED || d.GetField() != "credentials" {
		t.Fatalf("ended with %v", end)
	}
}
