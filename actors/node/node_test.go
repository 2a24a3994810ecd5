package node_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// start starts a node; leases may be as short as 100 ms.
func start(t *testing.T, cfg node.Config) *node.Node {
	t.Helper()
	if cfg.Bootstrap == nil {
		cfg.Bootstrap = messages.DefaultClusterConfig()
		cfg.Bootstrap.LeaseTtlMinMs = 100
	}
	cfg.ExpiryTick = 100 * time.Millisecond
	n, err := node.Start(cfg)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { stop(t, n) })
	return n
}

func stop(t *testing.T, n *node.Node) {
	t.Helper()
	if err := n.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestMain(m *testing.M) {
	consensus.InstallLogger(slog.New(slog.DiscardHandler))
	// The throttle of the actor library's dead letters waits for 100 ms.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/asynkron/protoactor-go/actor.NewThrottle.func1.1"))
}

// TestPutGetLeaseExpire is a put, from end to end, and what the store is for: a
// lease that runs out takes its keys with it, and a watch tells.
func TestPutGetLeaseExpire(t *testing.T) {
	n := start(t, node.Config{Dir: t.TempDir()})
	c, w := connect(t, n), connect(t, n)
	if rev := c.put("/a", "1", 0); rev != 1 {
		t.Errorf("the first put is at revision %d", rev)
	}
	if r := c.get("/a"); string(r.GetValue()) != "1" || r.GetModRevision() != 1 || r.GetVersion() != 1 {
		t.Errorf("read back %v", r)
	}
	w.watch("/e/")
	lease := c.grant(300 * time.Millisecond)
	c.put("/e/k", "v", lease)
	if got, want := w.event(), "EVENT_TYPE_PUT /e/k 2 EVENT_CAUSE_WRITTEN"; got != want {
		t.Errorf("watched %q, want %q", got, want)
	}
	if got, want := w.event(), "EVENT_TYPE_DELETE /e/k 3 EVENT_CAUSE_EXPIRED"; got != want {
		t.Errorf("watched %q, want %q", got, want)
	}
	if r := c.get("/e/k"); r != nil {
		t.Errorf("the key outlived its lease: %v", r)
	}
	s, err := n.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if s.GetRevision() != 3 || s.GetKeys() != 1 || s.GetLeases() > 1 || s.GetLeaderId() != 1 || s.GetClockEpoch() != 1 || s.GetClients() != 2 || s.GetWatchers() != 1 {
		t.Errorf("status %v", s)
	}
}

// TestRestart: what was acknowledged is there after a restart, from the log and from
// a snapshot, and so are leases; the lease clock has a new owner.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	for life := range 4 {
		n := start(t, node.Config{Dir: dir})
		c := connect(t, n)
		if life == 0 {
			c.put("/kept", "v", c.grant(time.Hour))
		}
		if rev := c.put("/lives", "v", 0); rev != uint64(life+2) {
			t.Errorf("life %d: a put at revision %d", life, rev)
		}
		s, err := n.Status(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if s.GetClockEpoch() != uint64(life+1) {
			t.Errorf("life %d: clock epoch %d", life, s.GetClockEpoch())
		}
		if r := c.get("/kept"); string(r.GetValue()) != "v" || r.GetModRevision() != 1 || r.GetRemainingTtlMs() == 0 {
			t.Fatalf("life %d: %v", life, r)
		}
		if life == 1 {
			if err := n.Snapshot(answerWithin); err != nil {
				t.Fatal(err)
			}
		}
		stop(t, n)
	}
}

// TestReadsAreNotLogged: linearizable reads cost the log nothing, however many.
func TestReadsAreNotLogged(t *testing.T) {
	n := start(t, node.Config{Dir: t.TempDir(), ExpiryTick: time.Minute})
	c := connect(t, n)
	rev := c.put("/k", "v", 0)
	applied := func() uint64 {
		s, err := n.Status(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return s.GetAppliedIndex()
	}
	before := applied()
	for range 300 {
		if r := c.get("/k"); r.GetModRevision() != rev {
			t.Fatalf("read %v", r)
		}
	}
	// The clock may tick once on a machine that is slow enough.
	if after := applied(); after > before+2 {
		t.Errorf("%d entries were applied while nobody wrote", after-before)
	}
}

// TestTwoNodesInOneProcess share nothing.
func TestTwoNodesInOneProcess(t *testing.T) {
	a := start(t, node.Config{Dir: t.TempDir(), ClientAddress: "127.0.0.1:0", AdminAddress: "127.0.0.1:0"})
	b := start(t, node.Config{Dir: t.TempDir(), ClientAddress: "127.0.0.1:0", AdminAddress: "127.0.0.1:0"})
	ca := connectBy(t, transport.NewGRPCDialer(transport.DialerOptions{}), a.Addr())
	cb := connectBy(t, transport.NewGRPCDialer(transport.DialerOptions{}), b.Addr())
	ca.put("/k", "of a", 0)
	cb.put("/k", "of b", 0)
	if got := string(ca.get("/k").GetValue()); got != "of a" {
		t.Errorf("a has %q", got)
	}
	if got := string(connect(t, b).get("/k").GetValue()); got != "of b" {
		t.Errorf("b has %q", got)
	}
}

func TestAdmin(t *testing.T) {
	n := start(t, node.Config{Dir: t.TempDir(), AdminAddress: "127.0.0.1:0", AdminPprof: true})
	c := connect(t, n)
	c.put("/k", "v", 0)
	c.get("/k") // a batch is counted after it was answered, and before anything reads
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	get := func(path string) (int, string) {
		t.Helper()
		r, err := (&http.Client{Transport: transport, Timeout: answerWithin}).Get("http://" + n.AdminAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	if code, body := get("/healthz"); code != 200 || !strings.Contains(body, `"status":"ready"`) || !strings.Contains(body, `"leader_id":1`) {
		t.Errorf("healthz: %d %s", code, body)
	}
	_, body := get("/metrics")
	for _, want := range []string{
		`concord_kv_revision 1`, `concord_kv_revisions_total{command="put"} 1`, `concord_kv_current_size 1`,
		`concord_replica_leader 1`, `concord_apply_commands_total{command="bootstrap"} 1`, "dragonboat_raftnode_has_leader",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
	if code, body := get("/debug/pprof/goroutine?debug=1"); code != 200 || !strings.Contains(body, "goroutine profile") {
		t.Errorf("pprof: %d", code)
	}
}

// TestCloseWhileBusy: clients write as fast as they can while the node closes. Every
// write is answered or its stream ends; nothing of the node runs on (see TestMain).
func TestCloseWhileBusy(t *testing.T) {
	n := start(t, node.Config{Dir: t.TempDir()})
	var clients sync.WaitGroup
	started := make(chan struct{}, 8)
	for range cap(started) {
		c := connect(t, n)
		clients.Go(func() {
			defer func() { _ = c.stream.Close() }()
			for i := uint64(1); ; i++ {
				ops := make([]*messages.Operation, 16)
				for k := range ops {
					ops[k] = &messages.Operation{Operation: &messages.Operation_Write{Write: &messages.Write{
						Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("/k"), Value: []byte("v")}},
					}}}
				}
				if c.stream.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{
					ClientEpoch: c.epoch, FirstCall: 16*i + 1, TimeoutMs: 5_000, Operations: ops,
				}}}) != nil {
					return
				}
				for got := 0; got < 16; {
					m, err := c.stream.Recv()
					if err != nil || m.GetGoodbye() != nil {
						return
					}
					got += len(m.GetReplies().GetReplies())
				}
				if i == 3 {
					started <- struct{}{}
				}
			}
		})
	}
	for range cap(started) {
		<-started
	}
	stop(t, n)
	clients.Wait()
	if _, err := n.Status(context.Background()); err == nil {
		t.Error("a closed node answers")
	}
}

func TestStartRefuses(t *testing.T) {
	dir := t.TempDir()
	n := start(t, node.Config{Dir: dir, ClientAddress: "127.0.0.1:0"})
	for name, cfg := range map[string]node.Config{
		"no directory":        {},
		"a taken directory":   {Dir: dir},
		"a taken address":     {Dir: filepath.Join(t.TempDir(), "x"), ClientAddress: n.Addr()},
		"members, no address": {Dir: t.TempDir(), InitialMembers: map[uint64]string{1: "localhost:1", 2: "localhost:2"}},
		"a tick of a day":     {Dir: t.TempDir(), ExpiryTick: 24 * time.Hour},
	} {
		m, err := node.Start(cfg)
		if err == nil {
			stop(t, m)
		}
		if e := (*messages.Error)(nil); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
