package client

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/concord-kv/concord/messages"
)

// A watch goes over cut connections and hung nodes without a gap and without a repeat.
func TestWatchSurvives(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		n1 := net["n1"]
		net["n2"] = newFakeNode(n1.cluster)
		c := newTestClient(t, net, nil)
		defer c.Close()
		w, err := c.Watch(context.Background(), PrefixSelector(""), WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if w.Start().FromRevision != 101 {
			t.Fatalf("starts at %d", w.Start().FromRevision)
		}
		// Cut before the first event: nothing written since Watch returned is missed.
		writer := newTestClient(t, net, nil)
		defer writer.Close()
		next := uint64(101)
		for round := range 20 {
			n1.cut()
			net["n2"].cut()
			n1.setSilent(round%5 == 4)
			for i := range 3 {
				if _, err := writer.Put(context.Background(), fmt.Sprintf("%d/%d", round, i), nil, PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				b, err := w.Next(ctx)
				cancel()
				if err != nil || len(b.Events) != 1 || b.Events[0].Revision != next {
					t.Fatalf("round %d: %v, %v, want %d", round, b.Events, err, next)
				}
				next++
			}
		}
	})
}

func TestWatchContext(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		ctx, cancel := context.WithCancel(context.Background())
		w, err := c.Watch(ctx, PrefixSelector(""), WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		once, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		if _, err := w.Next(once); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
			t.Fatal(err)
		}
		cancel()
		for _, err := range w.Batches(context.Background()) {
			if messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
				t.Fatal(err)
			}
		}
		w.Close()
		w.Close()
	})
}
