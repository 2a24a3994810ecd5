package compat

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
)

// services are one server's, etcd's or ours.
type services struct {
	name  string
	kv    pb.KVClient
	lease pb.LeaseClient
	watch pb.WatchClient
}

func TestMain(m *testing.M) {
	node.InstallLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// startNode starts one node of ours with an etcd endpoint on a free port.
func startNode(t testing.TB) *node.Node {
	t.Helper()
	cfg := messages.DefaultClusterConfig()
	cfg.RetentionRevisions = 1 << 40 // etcd forgets nothing by itself
	n, err := node.Start(node.Config{Dir: t.TempDir(), Bootstrap: cfg, Etcd: &node.Etcd{Address: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func dial(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ours(t testing.TB) *services {
	return servicesOf("concord", dial(t, startNode(t).EtcdAddr()))
}

func servicesOf(name string, c *grpc.ClientConn) *services {
	return &services{name, pb.NewKVClient(c), pb.NewLeaseClient(c), pb.NewWatchClient(c)}
}

// theirs starts etcd in this process. Its listeners are sockets in a directory of the
// test's own; it is called without them.
func theirs(t *testing.T) *services {
	t.Helper()
	return servicesOf("etcd", dial(t, startEtcd(t, t.Chdir, true)))
}

// startEtcd returns where it listens.
func startEtcd(t testing.TB, chdir func(string), noFsync bool) string {
	t.Helper()
	dir := t.TempDir()
	chdir(dir)
	cfg := embed.NewConfig()
	cfg.Dir = dir + "/data"
	cfg.LogLevel = "fatal"
	cfg.UnsafeNoFsync = noFsync
	cfg.TickMs, cfg.ElectionMs = 100, 500 // then its least TTL is 1 s, as ours
	peer, client := url.URL{Scheme: "unix", Host: "peer:1"}, url.URL{Scheme: "unix", Host: "client:1"}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd does not start")
	}
	return "unix:client:1"
}

func deadline(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// fromEnv returns a number that the environment may set.
func fromEnv(t testing.TB, name string, otherwise int64) int64 {
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
