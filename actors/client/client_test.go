package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test in virtual time against one fake node and checks, by the bubble's
// own rules, that every goroutine has ended.
func bubble(t *testing.T, f func(t *testing.T, net fakeNet)) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		f(t, fakeNet{"n1": newFakeNode(c)})
		time.Sleep(time.Minute) // virtual: what the test left behind sees that it is over
	})
}

func TestPutAndGet(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		for i := range 5 {
			r, err := c.Put(context.Background(), "k", nil, PutOptions{})
			if err != nil || r.Revision != uint64(101+i) {
				t.Fatal(r, err)
			}
		}
		g, err := c.Get(context.Background(), "k", GetOptions{})
		if err != nil || g.Record == nil || g.Revision != 105 {
			t.Fatal(g, err)
		}
	})
}

// What waits travels together, and never more than a frame may hold.
func TestCallsTravelTogether(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		n := net["n1"]
		open := make(chan struct{})
		c := newTestClient(t, net, func(cfg *Config) { cfg.Dialer = gate{net, open} })
		defer c.Close()
		const calls = 3000
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				if _, err := c.Get(context.Background(), "k", GetOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(open)
		wg.Wait()
		for _, f := range n.took()[:calls/messages.FrameOperationsMax] {
			if len(f.Operations) != messages.FrameOperationsMax {
				t.Fatalf("a frame of %d", len(f.Operations))
			}
		}
		if frames := len(n.took()); frames != calls/messages.FrameOperationsMax+1 {
			t.Fatalf("%d frames", frames)
		}
	})
}

// gate is a dialer that waits until it is opened.
type gate struct {
	net  fakeNet
	open chan struct{}
}

func (g gate) Dial(ctx context.Context, endpoint string) (transport.ClientStream, error) {
	<-g.open
	return g.net.Dial(ctx, endpoint)
}

func loseAll(*messages.Operation) (fate, messages.Code) { return loseRequest, 0 }

// A node that hangs is left for another one, and what was in flight is done there once.
func TestHungNode(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		net["n1"].setSilent(true)
		net["n2"] = newFakeNode(net["n1"].cluster)
		c := newTestClient(t, net, func(cfg *Config) { cfg.Timeout = 20 * time.Second })
		defer c.Close()
		put := func(key string, within time.Duration) {
			t.Helper()
			began := time.Now()
			if _, err := c.Put(context.Background(), key, nil, PutOptions{}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > within {
				t.Fatalf("took %v", took)
			}
			if n := net["n1"].cluster.count(key); n != 1 {
				t.Fatalf("applied %d times", n)
			}
		}
		put("not greeted", 2100*time.Millisecond)
		net["n1"].setSilent(false)
		net["n2"].setSilent(true)
		put("greeted", 6*time.Second)
	})
}

// Every call returns within the default time though nobody answers and its context has
// no deadline, and says that nothing was applied.
func TestNobodyAnswers(t *testing.T) {
	calls := map[string]func(ctx context.Context, c *Client) error{
		"put": func(ctx context.Context, c *Client) error { _, err := c.Put(ctx, "k", nil, PutOptions{}); return err },
		"get": func(ctx context.Context, c *Client) error { _, err := c.Get(ctx, "k", GetOptions{}); return err },
		"grant": func(ctx context.Context, c *Client) error {
			_, err := c.Grant(ctx, time.Second, GrantOptions{})
			return err
		},
		"keep":   func(ctx context.Context, c *Client) error { _, err := c.KeepAlive(ctx, 7, 0); return err },
		"status": func(ctx context.Context, c *Client) error { _, err := c.Status(ctx); return err },
		"watch": func(ctx context.Context, c *Client) error {
			_, err := c.Watch(ctx, PrefixSelector(""), WatchOptions{})
			return err
		},
		"resolve": func(ctx context.Context, c *Client) error {
			_, err := c.Resolve(ctx, "k", ResolveOptions{})
			return err
		},
	}
	for name, call := range calls {
		for _, where := range []string{"refused", "silent"} {
			t.Run(name+" "+where, func(t *testing.T) {
				bubble(t, func(t *testing.T, net fakeNet) {
					net["n1"].setSilent(true)
					if where == "refused" {
						delete(net, "n1")
					}
					c := newTestClient(t, net, nil)
					defer c.Close()
					began := time.Now()
					err := call(oddContext{Context: context.Background()}, c)
					if messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE || messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
						t.Fatal(err)
					}
					if took := time.Since(began); took != 5*time.Second {
						t.Fatalf("took %v", took)
					}
				})
			})
		}
	}
}

// oddContext is a context that cannot be hashed or compared.
type oddContext struct {
	context.Context
	_ []int
}

func TestContext(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		over, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := c.Put(over, "k", nil, PutOptions{}); messages.CodeOf(err) != messages.Code_CODE_CANCELLED || messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
			t.Fatal(err)
		}
		net["n1"].setDecide(func(op *messages.Operation) (fate, messages.Code) {
			if op.GetWrite().GetOpenSession() != nil {
				return serve, 0
			}
			return loseRequest, 0
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.Put(ctx, "k", nil, PutOptions{})
		if messages.CodeOf(err) != messages.Code_CODE_TIMEOUT || messages.OutcomeOf(err) != messages.Outcome_OUTCOME_UNKNOWN || time.Since(began) != time.Second {
			t.Fatal(err, time.Since(began))
		}
	})
}

// Close ends everything, from every side at once, and tells why.
func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		if _, err := c.Put(context.Background(), "k", nil, PutOptions{}); err != nil {
			t.Fatal(err)
		}
		w, err := c.Watch(context.Background(), PrefixSelector(""), WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lost := make(chan error, 1)
		c.Keepalives().Keep(99, 9*time.Second, c.Clock().Now(), observerFunc{lost: func(err error) { lost <- err }})
		net["n1"].setDecide(loseAll)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Put(context.Background(), "l", nil, PutOptions{}); messages.CodeOf(err) != messages.Code_CODE_CANCELLED || messages.OutcomeOf(err) != messages.Outcome_OUTCOME_UNKNOWN {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := w.Next(context.Background()); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 10 {
			wg.Go(func() { _ = c.Close() })
		}
		wg.Wait()
		if err := <-lost; messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
			t.Error(err)
		}
		for range 3 {
			if _, err := w.Next(context.Background()); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
				t.Error(err)
			}
		}
		if _, err := c.Get(context.Background(), "k", GetOptions{}); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
			t.Error(err)
		}
		c.Keepalives().Keep(1, time.Second, 0, observerFunc{lost: func(err error) { lost <- err }})
		if err := <-lost; messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
			t.Error(err)
		}
	})
}

type observerFunc struct {
	confirmed func(sentAt, ttl time.Duration)
	lost      func(error)
}

func (o observerFunc) Confirmed(sentAt, ttl time.Duration) {
	if o.confirmed != nil {
		o.confirmed(sentAt, ttl)
	}
}

func (o observerFunc) Lost(err error) {
	if o.lost != nil {
		o.lost(err)
	}
}

// A closed client has closed its session.
func TestCloseClosesTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		if _, err := c.Put(context.Background(), "k", nil, PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if n := net["n1"].cluster.sessionCount(); n != 1 {
			t.Fatalf("%d sessions", n)
		}
		_ = c.Close()
		if n := net["n1"].cluster.sessionCount(); n != 0 {
			t.Fatalf("%d sessions", n)
		}
	})
}

func TestOneShot(t *testing.T) {
	oneShot := func(cfg *Config) { cfg.OneShot, cfg.Settle, cfg.Timeout = true, 2*time.Second, time.Second }
	onResolve := func(first fate) func(*messages.Operation) (fate, messages.Code) {
		return func(op *messages.Operation) (fate, messages.Code) {
			if op.GetWrite().GetResolveIdempotency() != nil {
				return serve, 0
			}
			return first, messages.Code_CODE_TIMEOUT
		}
	}
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, oneShot)
		defer c.Close()
		if _, err := c.Put(context.Background(), "plain", nil, PutOptions{}); err != nil || net["n1"].cluster.sessionCount() != 0 {
			t.Fatal(err, net["n1"].cluster.sessionCount())
		}
		// The reply is lost for good, but the write can be looked up.
		net["n1"].setDecide(onResolve(loseReply))
		if r, err := c.Put(context.Background(), "a", nil, PutOptions{}); err != nil || r.Revision != 102 {
			t.Fatal(r, err)
		}
		// It never arrived: it is fenced off, so the outcome is known.
		net["n1"].setDecide(onResolve(answerNever))
		if _, err := c.Put(context.Background(), "b", nil, PutOptions{}); messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
			t.Fatal(err)
		}
		// Nobody can be asked.
		net["n1"].setDecide(loseAll)
		if _, err := c.Put(context.Background(), "c", nil, PutOptions{}); messages.OutcomeOf(err) != messages.Outcome_OUTCOME_UNKNOWN {
			t.Fatal(err)
		}
		for key, want := range map[string]int{"plain": 1, "a": 1, "b": 0, "c": 0} {
			if got := net["n1"].cluster.count(key); got != want {
				t.Errorf("%s was applied %d times", key, got)
			}
		}
	})
}

// What is invalid never leaves the client, and names the field.
func TestInvalid(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		ctx := context.Background()
		_, put := c.Put(ctx, "", nil, PutOptions{})
		_, both := c.Put(ctx, "k", nil, PutOptions{LeaseID: 1, TTL: time.Second})
		_, keep := c.KeepAlive(ctx, 0, 0)
		_, get := c.Get(ctx, "k", GetOptions{Revision: 1 << 63})
		_, watch := c.Watch(ctx, nil, WatchOptions{})
		for field, err := range map[string]error{"key": put, "ttl_ms": both, "lease_id": keep, "revision": get, "selector": watch} {
			var e *messages.Error
			if !errors.As(err, &e) || e.Code() != messages.Code_CODE_INVALID_ARGUMENT || e.Outcome() != messages.Outcome_OUTCOME_NOT_APPLIED {
				t.Errorf("%s: %v", field, err)
			} else if e.Detail.Field != field {
				t.Errorf("field %q, want %q", e.Detail.Field, field)
			}
		}
		if len(net["n1"].took()) != 0 {
			t.Error("something was sent")
		}
	})
}

// Nodes that a node tells of are tried too.
func TestDiscover(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		net["n1"].hello = &messages.ServerHello{Protocol: 1, ClusterId: []byte("c"), Incarnation: 1, HeartbeatMs: 1000, ValueBytesMax: 1 << 20, Endpoints: []string{"n1", "other"}}
		net["other"] = newFakeNode(net["n1"].cluster)
		c := newTestClient(t, net, func(cfg *Config) { cfg.Discover = true })
		defer c.Close()
		if _, err := c.Put(context.Background(), "a", nil, PutOptions{}); err != nil {
			t.Fatal(err)
		}
		net["n1"].setSilent(true)
		net["n1"].cut()
		if _, err := c.Put(context.Background(), "b", nil, PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if len(net["other"].took()) == 0 {
			t.Fatal("the other node was not asked")
		}
	})
}

// A client of several endpoints goes on when a node says that it is no leader or stops,
// and what it had asked there is done once elsewhere.
func TestNodeThatCannotServe(t *testing.T) {
	for _, code := range []messages.Code{messages.Code_CODE_NOT_LEADER, messages.Code_CODE_NO_LEADER, messages.Code_CODE_NOT_READY, messages.Code_CODE_NODE_STOPPING} {
		t.Run(messages.CodeName(code), func(t *testing.T) {
			bubble(t, func(t *testing.T, net fakeNet) {
				net["n2"] = newFakeNode(net["n1"].cluster)
				for _, n := range []string{"n1", "n2"} {
					first := net[n] == net["n1"]
					net[n].setDecide(func(*messages.Operation) (fate, messages.Code) {
						if first {
							return refuseBefore, code
						}
						return serve, 0
					})
				}
				c := newTestClient(t, net, nil)
				defer c.Close()
				for i := range 3 {
					key := string(rune('a' + i))
					if _, err := c.Put(context.Background(), key, nil, PutOptions{}); err != nil {
						t.Fatal(err)
					}
					if n := net["n1"].cluster.count(key); n != 1 {
						t.Fatalf("applied %d times", n)
					}
				}
			})
		})
	}
}
