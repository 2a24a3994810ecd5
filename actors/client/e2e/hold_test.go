package e2e

import (
	"fmt"
	"testing"

	"github.com/concord-kv/concord/actors/client"
)

// What a watch still has to read is not compacted, and is let go as it reads on.
func TestWatchHoldsHistory(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c, s := newClient(t, n.Addr()), newClient(t, n.Addr())
	ctx := testContext(t)
	for i := range 500 {
		if _, err := s.Put(ctx, fmt.Sprint(i), nil, client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := c.Watch(ctx, client.PrefixSelector(""), client.WatchOptions{From: 1, CreditEvents: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// Whatever is asked for, compaction stops where the watch is, and follows it.
	read := uint64(0)
	for read < 500 {
		for range 100 {
			b, err := w.Next(ctx)
			if err != nil {
				t.Fatalf("after %d: %v", read, err)
			}
			read = b.To.GetRevision()
		}
		held := uint64(0) // the node tells after a while
		for held < read {
			status, err := s.Status(ctx)
			if err != nil {
				t.Fatalf("read to %d, history is held at %d: %v", read, held, err)
			}
			held = status.GetHeldRevision()
		}
		compacted, err := s.Compact(ctx, 500)
		if err != nil {
			t.Fatal(err)
		}
		if compacted < held || compacted > read+50 {
			t.Fatalf("read to %d, with credit for 50 more, held at %d, compacted to %d", read, held, compacted)
		}
	}
}
