package e2e

import (
	"fmt"
	"testing"
	"time"

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
	read, compacted, begin := uint64(0), uint64(0), time.Now()
	for read < 500 {
		for range 100 {
			b, err := w.Next(ctx)
			if err != nil {
				t.Fatalf("after %d: %v", read, err)
			}
			read = b.To.GetRevision()
		}
		for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			if time.Since(begin) < time.Second {
				continue // the node has to tell first
			}
			if compacted, err = s.Compact(ctx, 500); err != nil {
				t.Fatal(err)
			}
		}
		if compacted > read+50 || read < 500 && compacted == 0 {
			t.Fatalf("read to %d, with credit for 50 more, compacted to %d", read, compacted)
		}
	}
}
