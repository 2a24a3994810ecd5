package compat

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
)

// systems are what is measured: each returns where its clients connect.
var systems = []struct {
	name  string
	start func(b *testing.B) []string
}{
	{"members=1/concord", func(b *testing.B) []string { return []string{startNode(b).EtcdAddr()} }},
	{"members=1/etcd", func(b *testing.B) []string { return []string{startEtcd(b, b.Chdir, false)} }},
	{"members=3/concord", func(b *testing.B) []string { return endpoints(startCluster(b)) }},
	{"members=3/etcd", startEtcdCluster},
}

// startEtcdCluster starts three members of etcd in this process, with fsync.
func startEtcdCluster(b *testing.B) (at []string) {
	var configs []*embed.Config
	var initial []string
	for i := range 3 {
		cfg := embed.NewConfig()
		cfg.Name, cfg.Dir, cfg.LogLevel = fmt.Sprint("etcd", i), b.TempDir(), "fatal"
		peer, client := url.URL{Scheme: "http", Host: freePort(b)}, url.URL{Scheme: "http", Host: freePort(b)}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		configs, initial, at = append(configs, cfg), append(initial, cfg.Name+"="+peer.String()), append(at, client.Host)
	}
	for _, cfg := range configs {
		cfg.InitialCluster = strings.Join(initial, ",")
		e, err := embed.StartEtcd(cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(e.Close)
		defer func() {
			select {
			case <-e.Server.ReadyNotify():
			case <-time.After(time.Minute):
				b.Error("etcd does not start")
			}
		}()
	}
	return at
}

// load is what clients do at once; each operation is waited for.
type load struct {
	ctx     context.Context
	clients []*clientv3.Client
	leases  []clientv3.LeaseID
}

var loadValue = strings.Repeat("x", 256)

func loadKey(i int64) string { return fmt.Sprintf("key%07d", i%10_000) }

// workloads are those of etcd's own benchmark tool; i is a number of the operation.
var workloads = []struct {
	name string
	do   func(l *load, c *clientv3.Client, i int64) error
}{
	{"put", func(l *load, c *clientv3.Client, i int64) error { return drop(c.Put(l.ctx, loadKey(i), loadValue)) }},
	{"txn-put", func(l *load, c *clientv3.Client, i int64) error {
		k := loadKey(i)
		return drop(c.Txn(l.ctx).If(clientv3.Compare(clientv3.Version(k), ">", -1)).Then(clientv3.OpPut(k, loadValue)).Commit())
	}},
	{"stm", func(l *load, c *clientv3.Client, i int64) error {
		return drop(concurrency.NewSTM(c, func(s concurrency.STM) error {
			s.Get(loadKey(i % 100))
			s.Put(loadKey(i%100), loadValue)
			return nil
		}, concurrency.WithAbortContext(l.ctx)))
	}},
	{"get", func(l *load, c *clientv3.Client, i int64) error { return drop(c.Get(l.ctx, loadKey(i))) }},
	{"get-serializable", func(l *load, c *clientv3.Client, i int64) error {
		return drop(c.Get(l.ctx, loadKey(i), clientv3.WithSerializable()))
	}},
	{"range-100", func(l *load, c *clientv3.Client, i int64) error {
		return drop(c.Get(l.ctx, loadKey(i), clientv3.WithFromKey(), clientv3.WithLimit(100)))
	}},
	{"keep-alive", func(l *load, c *clientv3.Client, i int64) error {
		return drop(c.KeepAliveOnce(l.ctx, l.leases[i%int64(len(l.leases))]))
	}},
}

// run does n operations with so many workers.
func (l *load) run(b *testing.B, n, workers int64, do func(*load, *clientv3.Client, int64) error) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for w := range workers {
		wg.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				if err := do(l, l.clients[w%int64(len(l.clients))], i*7919); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// watch puts n keys while each of a hundred watches sees all of them.
func (l *load) watch(b *testing.B, n int64) {
	const watchers = 100
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i := range watchers {
		w := l.clients[i%len(l.clients)].Watch(ctx, "watched", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		<-w
		wg.Go(func() {
			for seen := int64(0); seen < n; {
				r, ok := <-w
				if !ok || r.Err() != nil {
					b.Error("a watch ended", r.Err())
					return
				}
				seen += int64(len(r.Events))
			}
		})
	}
	b.ResetTimer()
	l.run(b, n, 16, func(l *load, c *clientv3.Client, i int64) error {
		return drop(c.Put(l.ctx, fmt.Sprint("watched", i%100), loadValue))
	})
	wg.Wait()
	b.ReportMetric(float64(n*watchers)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkWorkloads runs the workloads of etcd's own benchmark tool through etcd's client,
// one system after the other, all in this process, with fsync; clients share ten connections
// and are spread over the members: `go test -run '^$' -bench . -benchtime 2s`.
func BenchmarkWorkloads(b *testing.B) {
	for _, system := range systems {
		b.Run(system.name, func(b *testing.B) {
			at := system.start(b)
			l := &load{ctx: context.Background()}
			for i := range 10 {
				l.clients = append(l.clients, client(b, at[i%len(at)]))
			}
			for range 100 {
				l.leases = append(l.leases, need(l.clients[0].Grant(l.ctx, 3600))(b).ID)
			}
			l.run(b, 10_000, 64, workloads[0].do)
			for _, w := range workloads {
				for _, workers := range []int64{1, 100} {
					b.Run(fmt.Sprintf("%s/clients=%d", w.name, workers), func(b *testing.B) {
						l.run(b, int64(b.N), workers, w.do)
						b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
					})
				}
			}
			b.Run("watch/watches=100", func(b *testing.B) { l.watch(b, int64(b.N)) })
		})
	}
}

func drop[T any](_ T, err error) error { return err }
