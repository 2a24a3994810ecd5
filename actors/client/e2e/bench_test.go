package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// BenchmarkPut and BenchmarkGet measure one client over one gRPC connection to a node on
// the same machine, by the number of callers.
func BenchmarkPut(b *testing.B) {
	value := make([]byte, 256)
	throughput(b, func(ctx context.Context, c *client.Client, i int64) error {
		_, err := c.Put(ctx, fmt.Sprintf("/bench/%d", i%10_000), value, client.PutOptions{NoPrev: true})
		return err
	})
}

func BenchmarkGet(b *testing.B) {
	throughput(b, func(ctx context.Context, c *client.Client, i int64) error {
		_, err := c.Get(ctx, "/bench/1", client.GetOptions{})
		return err
	})
}

func throughput(b *testing.B, f func(context.Context, *client.Client, int64) error) {
	for _, callers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			n := startNode(b, b.TempDir(), "")
			c := newClient(b, n.Addr())
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := f(ctx, c, 1); err != nil {
				b.Fatal(err)
			}
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						if err := f(ctx, c, i); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}
