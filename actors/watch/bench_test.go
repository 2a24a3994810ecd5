package watch

import (
	"fmt"
	"testing"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// BenchmarkMatch finds the one watch of many that an event is for.
func BenchmarkMatch(b *testing.B) {
	kinds := map[string]func(i int) *messages.Selector{
		"exact":  func(i int) *messages.Selector { return exact(fmt.Sprintf("tenant/x/%08d", i)) },
		"prefix": func(i int) *messages.Selector { return prefix(fmt.Sprintf("tenant/x/%08d/", i)) },
		"range": func(i int) *messages.Selector {
			return between(fmt.Sprintf("tenant/x/%08d", i), fmt.Sprintf("tenant/x/%08d", i+1))
		},
	}
	for _, kind := range []string{"exact", "prefix", "range"} {
		for _, n := range []int{10_000, 100_000} {
			var x index
			for i := range n {
				x.add(&watcher{span: spanOf(kinds[kind](i))})
			}
			keys := make([]string, 4096)
			for i := range keys {
				keys[i] = fmt.Sprintf("tenant/x/%08d", (i*7919)%n)
				if kind == "prefix" {
					keys[i] += "/k"
				}
			}
			for _, miss := range []bool{false, true} {
				name := fmt.Sprintf("%s/%d/1_match", kind, n)
				if miss {
					name = fmt.Sprintf("%s/%d/0_matches", kind, n)
					for i := range keys {
						keys[i] = "tenant/y" + keys[i][8:]
					}
				}
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					found := 0
					count := func(s *set) { found += len(s.watchers) }
					for i := range b.N {
						x.match(keys[i%len(keys)], count)
					}
					if miss != (found == 0) {
						b.Fatalf("%d found in %d", found, b.N)
					}
				})
			}
		}
	}
}

// BenchmarkCommit is one revision of one put, to this many of 10,000 watches.
func BenchmarkCommit(b *testing.B) {
	for _, matches := range []int{0, 1, 100, 10_000} {
		b.Run(fmt.Sprintf("%d_of_10000", matches), func(b *testing.B) {
			h := NewHub(Limits{WatchersPerSessionMax: 10_000})
			h.ViewArrived(&frozen{})
			for i := range 10_000 {
				s := exact(fmt.Sprintf("other/%d", i))
				if i < matches {
					s = exact("k")
				}
				h.Start(protocol.StartWatch{Session: uint64(i % 100), After: protocol.EndOf(0), Request: &messages.WatchRequest{
					WatchId: uint64(i) + 1, Selector: s, CreditEvents: messages.WatchCreditEventsMax, CreditBytes: messages.WatchCreditBytesMax,
				}})
			}
			h.TakeOutput()
			value := string(make([]byte, 256))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				rev := uint64(i) + 1
				e := store.Event{Rec: store.Make(store.Fields{Key: "k", Value: value, Create: 1, Mod: rev, Version: rev})}
				h.Committed([]store.Event{e}, rev, 0)
				for _, o := range h.TakeOutput() {
					var bytes int64
					for _, item := range o.Items {
						bytes += item.Bytes
						for _, id := range item.WatchIDs {
							h.Grant(o.Session, id, 1, 1_000)
						}
					}
					h.Drained(o.Session, bytes)
				}
			}
			if h.live.size != 10_000 {
				b.Fatalf("%d live", h.live.size)
			}
		})
	}
}

// BenchmarkReplay reads the log for this many watches that are behind, none of
// which it is for: the cost an event.
func BenchmarkReplay(b *testing.B) {
	for _, watches := range []int{1, 1_000} {
		b.Run(fmt.Sprintf("%d_watches", watches), func(b *testing.B) {
			const events = 100_000
			log := &frozen{revision: events}
			for i := range uint64(events) {
				log.events = append(log.events, store.Event{Rec: store.Make(store.Fields{Key: fmt.Sprint("k", i%1_000), Mod: i + 1, Create: 1, Version: 1})})
			}
			b.ResetTimer()
			for n := 0; n < b.N; n += events {
				h := NewHub(Limits{WatchersPerSessionMax: watches})
				h.ViewArrived(&frozen{revision: events})
				for i := range watches {
					h.Start(protocol.StartWatch{Session: 1, Request: &messages.WatchRequest{WatchId: uint64(i) + 1, Selector: exact(fmt.Sprint("other", i))}})
				}
				h.ViewArrived(log)
				for h.HasReplay() {
					h.Replay()
				}
				if h.live.size != watches {
					b.Fatalf("%d live", h.live.size)
				}
			}
		})
	}
}
