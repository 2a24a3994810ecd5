package client

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/concord-kv/concord/messages"
)

// TestExactlyOnce runs writers over three nodes that lose, refuse, delay and cut, and
// holds what the callers were told against what was applied:
// an acknowledged write was applied once, one reported as not applied never was, and
// one with an unknown outcome was applied at most once. Writes of one caller take effect
// in the order of its calls.
func TestExactlyOnce(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { exactlyOnce(t, seed) })
		})
	}
}

func exactlyOnce(t *testing.T, seed uint64) {
	rng := mathrand.New(mathrand.NewPCG(seed, 7))
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	codes := []messages.Code{
		messages.Code_CODE_OVERLOADED, messages.Code_CODE_NO_LEADER, messages.Code_CODE_NOT_READY, messages.Code_CODE_NOT_LEADER,
		messages.Code_CODE_INVALID_ARGUMENT, messages.Code_CODE_STALE_CLOCK, messages.Code_CODE_NODE_STOPPING,
	}
	calm := draw(30) + 3 // one in so many operations meets a fault
	decide := func(op *messages.Operation) (fate, messages.Code) {
		if draw(calm) != 0 {
			return serve, 0
		}
		switch f := fate(1 + draw(int(cutAfter))); f {
		case refuseBefore:
			return f, codes[draw(len(codes))]
		case answerUnknown, answerNever:
			return f, messages.Code_CODE_TIMEOUT
		default:
			return f, 0
		}
	}
	cluster := newFakeCluster()
	net := fakeNet{}
	for _, name := range []string{"n1", "n2", "n3"} {
		net[name] = newFakeNode(cluster)
		net[name].decide = decide
	}
	c := newTestClient(t, net, func(cfg *Config) { cfg.Random = func() uint64 { return uint64(draw(1 << 30)) } })
	defer c.Close()

	told := make(map[string]error)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 25 {
				key := fmt.Sprintf("%d/%02d", w, i)
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(50+draw(8000))*time.Millisecond)
				_, err := c.Put(ctx, key, nil, PutOptions{NoPrev: true})
				cancel()
				mu.Lock()
				told[key] = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Minute) // virtual: whatever is on its way arrives
	cluster.mu.Lock()
	defer cluster.mu.Unlock()
	known := 0
	for key, err := range told {
		n := cluster.applied[key]
		switch outcome := messages.OutcomeOf(err); {
		case outcome == messages.Outcome_OUTCOME_APPLIED && n != 1,
			outcome == messages.Outcome_OUTCOME_NOT_APPLIED && n != 0,
			outcome == messages.Outcome_OUTCOME_UNKNOWN && n > 1:
			t.Errorf("%s was applied %d times, its caller was told %v", key, n, err)
		}
		if err == nil {
			known++
		}
	}
	last := map[string]string{}
	for _, key := range cluster.order {
		writer, _, _ := strings.Cut(key, "/")
		if last[writer] >= key {
			t.Errorf("%s was applied after %s", key, last[writer])
		}
		last[writer] = key
	}
	if known < len(told)/2 {
		t.Errorf("only %d of %d writes were acknowledged", known, len(told))
	}
}
