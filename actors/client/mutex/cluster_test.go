package mutex_test

import (
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client/mutex"
)

// The cluster is restored from a backup while clients stay up: every hold is lost, new
// ones work without a new client, and no token that was handed out before, also after
// the backup was made, comes again.
func TestB093RestoreFromABackup(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	held := lock(t, newMutex(t, r.Session(0), "kept"))
	backup := w.Backup()
	after := lock(t, newMutex(t, r.Session(0), "after the backup"))
	w.Restore(backup)
	r.Clock.Jump(21 * time.Second) // the next keep-alive finds out
	for _, h := range []*mutex.Held{held, after} {
		lostBy(t, awaitLoss(t, h), nil)
	}
	for _, name := range []string{"kept", "after the backup"} {
		again := lock(t, newMutex(t, r.Session(0), name))
		if again.Token() <= after.Token() {
			t.Fatalf("token %d after %d", again.Token(), after.Token())
		}
		unlock(t, again)
	}
}

// The node restarts while one holds and others wait: nobody loses anything, the order
// stands and tokens rise.
func TestRestart(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	h := lock(t, newMutex(t, w.Client(recipetest.Way).Session(0), "restart"))
	second := waiter(t, w, ctx, newMutex(t, w.Client(recipetest.Way).Session(0), "restart"))
	third := waiter(t, w, ctx, newMutex(t, w.Client(recipetest.Way).Session(0), "restart"))
	for _, c := range []<-chan locking{second, third} {
		address := w.Node.Addr()
		if err := w.Node.Close(); err != nil {
			t.Fatal(err)
		}
		w.Start(address)
		if err := h.Lease().Err(); err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		got := recipetest.Wait(t, c, "the next in line")
		if got.err != nil || got.held.Token() <= h.Token() {
			t.Fatal(got.err)
		}
		h = got.held
	}
	unlock(t, h)
}
