package clustertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

var killRounds = flag.Int("kill.rounds", 20, "rounds of kill -9 under load")

// TestKillUnderLoad kills the only node in the middle of a write load, again and
// again. After each restart every acknowledged write is there at its revision, the
// revision goes on, no write took effect twice, and a lease that the load's client
// holds has not ended although the node was away for a part of its time.
func TestKillUnderLoad(t *testing.T) {
	rounds := *killRounds
	if testing.Short() {
		rounds = 3
	}
	n := NewNode(t)
	n.Start()
	c := n.Client()
	n.WaitReady(c)
	ctx := Deadline(t, 10*time.Minute)

	lease, err := c.Grant(ctx, time.Minute, client.GrantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(ctx, "/leased", []byte("1"), client.PutOptions{LeaseID: lease.LeaseID}); err != nil {
		t.Fatal(err)
	}

	const writers = 16
	var (
		mu    sync.Mutex
		acked = map[string]uint64{} // key -> revision of its only write
		last  uint64
	)
	for round := range rounds {
		load, stop := context.WithCancel(ctx)
		var group sync.WaitGroup
		before := len(acked)
		enough := make(chan struct{})
		for w := range writers {
			group.Go(func() {
				for i := 0; load.Err() == nil; i++ {
					key := fmt.Sprintf("/load/%03d/%02d/%06d", round, w, i)
					r, err := c.Put(load, key, []byte(key), client.PutOptions{})
					switch {
					case err == nil && r.Prev != nil:
						t.Errorf("round %d: %s was written twice", round, key)
						return
					case err == nil:
						mu.Lock()
						acked[key] = r.Revision
						last = max(last, r.Revision)
						if len(acked) == before+500 {
							close(enough)
						}
						mu.Unlock()
					case load.Err() == nil && !errors.Is(err, context.Canceled):
						// The SDK resends a session's writes, so a kill is not an error.
						t.Errorf("round %d: put %s: %v", round, key, err)
						return
					}
				}
			})
		}
		select {
		case <-enough:
		case <-ctx.Done():
			t.Fatalf("round %d: no progress\n%s", round, n.Output())
		}
		// Kill at a random moment of the load, restart at once: the writers never
		// pause.
		for range rand.IntN(2000) {
			mu.Lock()
			mu.Unlock() //nolint:staticcheck // yields to a writer
		}
		n.Kill()
		n.Start()
		n.WaitReady(c)
		stop()
		group.Wait()

		revision, err := c.Revision(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if revision.Revision < last {
			t.Fatalf("round %d: revision %d after %d was acknowledged", round, revision.Revision, last)
		}
		last = revision.Revision
		got := map[string]uint64{}
		for r, err := range c.Records(ctx, Prefix(fmt.Sprintf("/load/%03d/", round)), client.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Value) != string(r.Key) || r.Version != 1 {
				t.Fatalf("round %d: %s has value %q, version %d", round, r.Key, r.Value, r.Version)
			}
			got[string(r.Key)] = r.ModRevision
		}
		lost := 0
		for key, rev := range acked {
			if got[key] == rev {
				continue
			}
			if key[:len("/load/000/")] == fmt.Sprintf("/load/%03d/", round) {
				lost++
				t.Errorf("round %d: %s acknowledged at revision %d, now %d", round, key, rev, got[key])
			}
		}
		if lost > 0 {
			t.FailNow()
		}
		t.Logf("round %d: %d writes acknowledged, revision %d", round, len(got), last)
	}
	// Everything, of all rounds, and dense: each revision has its event.
	total := 0
	for r, err := range c.Records(ctx, Prefix("/load/"), client.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if rev, ok := acked[string(r.Key)]; ok {
			total++
			if rev != r.ModRevision {
				t.Errorf("%s: revision %d, acknowledged at %d", r.Key, r.ModRevision, rev)
			}
		}
	}
	if total != len(acked) {
		t.Errorf("%d of %d acknowledged writes are there", total, len(acked))
	}
	info, err := c.LeaseInfo(ctx, lease.LeaseID, client.LeaseInfoOptions{Keys: true})
	if err != nil {
		t.Fatalf("the lease: %v", err)
	}
	if info.RemainingTtlMs <= 0 || info.RemainingTtlMs > 60_000 || len(info.Keys) != 1 {
		t.Errorf("the lease has %d ms and keys %q", info.RemainingTtlMs, info.Keys)
	}
}

// TestStopAndStart: SIGTERM ends the process by itself with exit code 0, and the
// next one has everything.
func TestStopAndStart(t *testing.T) {
	n := NewNode(t)
	n.Start()
	c := n.Client()
	n.WaitReady(c)
	ctx := Deadline(t, time.Minute)
	r, err := c.Put(ctx, "/a", []byte("1"), client.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	g, err := c.Get(ctx, "/a", client.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if g.Record.GetModRevision() != r.Revision {
		t.Errorf("/a at revision %d, want %d", g.Record.GetModRevision(), r.Revision)
	}
	if messages.CodeOf(err) != messages.Code_CODE_OK {
		t.Error(err)
	}
}
