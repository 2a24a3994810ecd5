package mutex_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client/mutex"
)

// BenchmarkUncontended is a lock and an unlock of a lock that nobody else wants.
func BenchmarkUncontended(b *testing.B) {
	for _, kind := range []string{recipetest.Way} {
		b.Run(kind, func(b *testing.B) {
			w := recipetest.New(b)
			ctx := context.Background()
			m := newMutex(b, w.Client(kind).Session(0), "bench")
			took := make([]time.Duration, 0, b.N)
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				h, err := m.Lock(ctx)
				if err == nil {
					err = h.Unlock(ctx)
				}
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			report(b, took)
		})
	}
}

// BenchmarkHandover is from the unlock of a holder to the lock of the next, of 50 that
// wait, each of a process of its own or all of one.
func BenchmarkHandover(b *testing.B) {
	for _, clients := range []int{1, 50} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			w := recipetest.New(b)
			ctx := context.Background()
			const waiting = 50
			granted := make(chan *mutex.Held)
			next := make(chan struct{})
			var sessions []*mutex.Mutex
			for range clients {
				sessions = append(sessions, newMutex(b, w.Client(recipetest.Way).Session(0), "handover"))
			}
			stop, cancel := context.WithCancel(ctx)
			ended := make(chan struct{}, waiting)
			for i := range waiting {
				go func() {
					defer func() { ended <- struct{}{} }()
					for {
						h, err := sessions[i%clients].Lock(stop)
						if err != nil {
							return
						}
						granted <- h
						<-next
					}
				}()
			}
			h := <-granted
			recipetest.Eventually(b, "all wait", func() bool { return len(w.Keys(prefix("handover"))) == waiting })
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := h.Unlock(ctx); err != nil {
					b.Fatal(err)
				}
				former := h
				h = <-granted
				took = append(took, time.Since(began))
				if h.Token() <= former.Token() {
					b.Fatal("the order was not kept")
				}
				next <- struct{}{} // one that has had it waits again, at the end of the line
			}
			report(b, took)
			cancel()
			close(next)
			for n := 0; n < waiting; {
				select {
				case <-granted: // it was before the cancel
				case <-ended:
					n++
				}
			}
		})
	}
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	n := len(took)
	b.ReportMetric(float64(took[n/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[n*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "per-s")
}
