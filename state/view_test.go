package state_test

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/statetest"
)

// TestViewsAreReadBesideApply has goroutines that query and save views while the
// machine goes on, sweeps and compacts. Run it with the race detector. Each view
// answers the same at the end as at once.
func TestViewsAreReadBesideApply(t *testing.T) {
	log := logOf(7, 400)
	m := state.New()
	var readers sync.WaitGroup
	for i, e := range log {
		m.Apply(uint64(i+1), proto.Clone(e).(*messages.Entry))
		m.TakeEffects()
		m.Sweep(5)
		if i%7 != 0 {
			continue
		}
		v := m.View()
		if v != m.View() {
			t.Fatal("two views of one state")
		}
		readers.Add(1)
		go func() {
			defer readers.Done()
			g := &statetest.Generator{Source: seeded{rand.New(rand.NewPCG(uint64(i), 1))}, Twin: statetest.NewTwin()}
			g.Twin.Revision, g.Twin.Compacted = v.Revision(), v.CompactRevision()
			var first, second bytes.Buffer
			if err := v.Save(&first); err != nil {
				t.Error(err)
			}
			for range 50 {
				if _, err := v.Query(g.Query(), state.Now{}); err != nil && err.Code() == messages.Code_CODE_INTERNAL {
					t.Error(err)
				}
			}
			if err := v.Save(&second); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(first.Bytes(), second.Bytes()) {
				t.Errorf("the view of entry %d has changed", i)
			}
			if loaded, err := state.Load(&first); err != nil || loaded.Digest() != v.Digest() {
				t.Errorf("the view of entry %d: %v", i, err)
			}
		}()
	}
	readers.Wait()
}

// TestViewPerIndex: views are by log index, not by revision: a grant has none, and yet
// is another state.
func TestViewPerIndex(t *testing.T) {
	s := newScript()
	first := s.machine.View()
	s.do(t, "grant 1h")
	second := s.machine.View()
	if first == second || first.Applied() == second.Applied() || first.Revision() != second.Revision() {
		t.Fatal("a grant needs a view of its own")
	}
	if _, ok := first.Lease(1, 0); ok {
		t.Error("the old view has the lease")
	}
	if info, ok := second.Lease(1, 0); !ok || info.TtlMs != 3_600_000 {
		t.Error("the new view has it not")
	}
	if first.Leases() != 0 || second.Leases() != 1 {
		t.Errorf("%d and %d leases", first.Leases(), second.Leases())
	}
	// A node's estimate of the clock is for display only.
	if info, _ := second.Lease(1, 10_000); info.RemainingTtlMs != 3_590_000 {
		t.Errorf("%d ms are left", info.RemainingTtlMs)
	}
}

// TestTimeIsDerived: the time that a record has left, and its end on the wall clock,
// come from the answering node, for the latest state only, and decide nothing.
func TestTimeIsDerived(t *testing.T) {
	s := newScript()
	s.do(t, "put k 1 ttl=10s")
	get := func(rev uint64, now state.Now) *messages.Record {
		t.Helper()
		q := &messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte("k"), Revision: rev}}}
		reply, err := s.machine.View().Query(q, now)
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetGet().Record
	}
	if r := get(0, state.Now{}); r.GetRemainingTtlMs() != 10_000 || r.ExpiresAtUnixMs != nil {
		t.Errorf("without a clock: %v", r)
	}
	if r := get(0, state.Now{ClockMs: 4_000, WallMs: 1_000_000}); r.GetRemainingTtlMs() != 6_000 || r.GetExpiresAtUnixMs() != 1_006_000 {
		t.Errorf("with one: %v", r)
	}
	// Long past its deadline it is still there: only an applied expiry deletes it.
	if r := get(0, state.Now{ClockMs: 99_000, WallMs: 1_000_000}); r == nil || r.GetRemainingTtlMs() != 0 {
		t.Errorf("past the deadline: %v", r)
	}
	s.do(t, "put other 1")
	if r := get(1, state.Now{ClockMs: 4_000, WallMs: 1}); r.RemainingTtlMs != nil || r.ExpiresAtUnixMs != nil || r.LeaseId == 0 {
		t.Errorf("in the past: %v", r)
	}
}
