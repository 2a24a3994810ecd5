package session_test

import (
	"testing"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
)

func TestWhenGone(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	s := r.Session(0)
	put := func(key string) uint64 {
		t.Helper()
		p, err := w.Admin().Put(ctx, key, nil, client.PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Revision
	}
	created := put("/k")
	gone := make(chan string, 10)
	wait := func(name string) func() {
		return s.WhenGone("/k", created, created, func() { gone <- name })
	}
	wait("one")
	stop := wait("two")
	wait("three")
	stop()
	stop()
	put("/k") // written, not gone
	put("/kk")
	if len(gone) != 0 {
		t.Fatal(<-gone)
	}
	w.Delete("/kk")
	w.Delete("/k")
	heard := map[string]bool{recipetest.Wait(t, gone, "gone"): true, recipetest.Wait(t, gone, "gone"): true}
	if len(gone) != 0 || !heard["one"] || !heard["three"] {
		t.Fatal(heard)
	}
	// Gone already, also when somebody made it anew and history is compacted.
	last := put("/k")
	if _, err := w.Admin().Compact(ctx, last); err != nil {
		t.Fatal(err)
	}
	wait("late")
	if got := recipetest.Wait(t, gone, "late"); got != "late" {
		t.Fatal(got)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s.WhenGone("/k", last, last, func() { gone <- "after" })()
	w.Delete("/k")
	if len(gone) != 0 {
		t.Fatal(<-gone)
	}
}
