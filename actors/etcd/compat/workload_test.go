package compat

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// BenchmarkWorkloads runs the workloads of etcd's own benchmark tool through etcd's client
// against one node of each, in this process, with fsync: `go test -run ^$ -bench . -benchtime 3s`.
// Each operation is waited for; clients share ten connections.
func BenchmarkWorkloads(b *testing.B) {
	systems := map[string]func(b *testing.B) string{
		"concord": func(b *testing.B) string { return startNode(b).EtcdAddr() },
		"etcd":    func(b *testing.B) string { return startEtcd(b, b.Chdir, false) },
	}
	value := strings.Repeat("x", 256)
	key := func(i int64) string { return fmt.Sprintf("key%07d", i%10_000) }
	workloads := map[string]func(ctx context.Context, c *clientv3.Client, i int64) error{
		"put": func(ctx context.Context, c *clientv3.Client, i int64) error { return drop(c.Put(ctx, key(i), value)) },
		"get": func(ctx context.Context, c *clientv3.Client, i int64) error { return drop(c.Get(ctx, key(i))) },
		"get-serializable": func(ctx context.Context, c *clientv3.Client, i int64) error {
			return drop(c.Get(ctx, key(i), clientv3.WithSerializable()))
		},
		"range-100": func(ctx context.Context, c *clientv3.Client, i int64) error {
			return drop(c.Get(ctx, key(i), clientv3.WithFromKey(), clientv3.WithLimit(100)))
		},
		"txn-put": func(ctx context.Context, c *clientv3.Client, i int64) error {
			k := key(i)
			return drop(c.Txn(ctx).If(clientv3.Compare(clientv3.Version(k), ">", -1)).Then(clientv3.OpPut(k, value)).Commit())
		},
	}
	for _, system := range []string{"concord", "etcd"} {
		b.Run(system, func(b *testing.B) {
			address := systems[system](b)
			clients := make([]*clientv3.Client, 10)
			for i := range clients {
				clients[i] = client(b, address)
			}
			ctx := context.Background()
			run := func(b *testing.B, n, workers int64, do func(context.Context, *clientv3.Client, int64) error) {
				var wg sync.WaitGroup
				var next atomic.Int64
				for w := range workers {
					wg.Go(func() {
						for i := next.Add(1); i <= n; i = next.Add(1) {
							if err := do(ctx, clients[w%int64(len(clients))], i*7919); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			}
			run(b, 10_000, 64, workloads["put"])
			for _, name := range []string{"put", "txn-put", "get", "get-serializable", "range-100"} {
				for _, workers := range []int64{1, 100} {
					b.Run(fmt.Sprintf("%s/clients=%d", name, workers), func(b *testing.B) {
						run(b, int64(b.N), workers, workloads[name])
						b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
					})
				}
			}
		})
	}
}

func drop[T any](_ T, err error) error { return err }
