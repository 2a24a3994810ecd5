package recipetest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
)

// Main runs a package's tests and fails if a goroutine is left behind. A connection
// that was closed may linger for a few seconds.
func Main(m *testing.M) {
	node.InstallLogger(slog.New(slog.DiscardHandler))
	code := EachWay(m)
	throttle := goleak.IgnoreTopFunction("github.com/asynkron/protoactor-go/actor.NewThrottle.func1.1")
	err := goleak.Find(throttle)
	for until := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(until); {
		err = goleak.Find(throttle)
	}
	if code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Town is one node and the clients of a test. All of it ends with the test.
type Town struct {
	t    testing.TB
	Dir  string
	Node *node.Node
	// Clock is the node's.
	Clock *Clock
	// ClusterName for Start, after a restore.
	ClusterName string
	door        *Door
	admin       *client.Client

	serving atomic.Pointer[node.Node] // Node, for the goroutines of clients that dial
}

// New starts a node.
func New(t testing.TB) *Town {
	t.Helper()
	door, err := NewDoor()
	if err != nil {
		t.Fatal(err)
	}
	w := &Town{t: t, Dir: t.TempDir(), Clock: NewClock(), door: door}
	w.Start("127.0.0.1:0")
	t.Cleanup(func() { _ = w.Node.Close() })
	return w
}

// Start starts the node again, on its directory.
func (w *Town) Start(address string) {
	w.t.Helper()
	config := messages.DefaultClusterConfig()
	config.LeaseTtlMinMs = messages.LeaseTTLFloorMs
	cfg := node.Config{
		Dir: w.Dir, ClientAddress: address, Bootstrap: config, ExpiryTick: 50 * time.Millisecond, Clock: w.Clock,
		ClusterName: w.ClusterName,
	}
	if err := w.door.Open(&cfg); err != nil {
		w.t.Fatal(err)
	}
	n, err := node.Start(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Node = n
	w.serving.Store(n)
}

// Resident is one client process: its client, its way to the node and its clock.
type Resident struct {
	*client.Client
	Wire  *Wire
	Clock *Clock
	town  *Town
	done  func()
}

// Close ends the client and its way to the node.
func (r *Resident) Close() error {
	defer r.done()
	return r.Client.Close()
}

// Client makes a client that goes a way of Ways.
func (w *Town) Client(way string) *Resident {
	w.t.Helper()
	r := &Resident{Clock: NewClock(), town: w}
	d, endpoint, done, err := w.door.Dialer(way, w.serving.Load)
	if err != nil {
		w.t.Fatal(err)
	}
	r.done = sync.OnceFunc(done)
	w.t.Cleanup(r.done)
	r.Wire = NewWire(d)
	c, err := client.New(client.Config{
		Endpoints: []string{endpoint}, Dialer: r.Wire, Name: w.t.Name(), Clock: r.Clock, SessionTTL: time.Minute,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	r.Client = c
	w.t.Cleanup(func() { _ = c.Close() })
	return r
}

// Admin is a client that no fault reaches.
func (w *Town) Admin() *client.Client {
	if w.admin == nil {
		w.admin = w.Client("inproc").Client
	}
	return w.admin
}

// Session opens a session; ttl 0 is a minute, so that only jumps of the clock end it.
func (r *Resident) Session(ttl time.Duration) *session.Session {
	r.town.t.Helper()
	if ttl == 0 {
		ttl = time.Minute
	}
	s, err := session.Open(Context(r.town.t), r.Client, session.Options{TTL: ttl})
	if err != nil {
		r.town.t.Fatal(err)
	}
	return s
}

// Pass lets time go by on the client's clock in steps that its connection takes for
// ordinary: between them it hears from the node.
func (r *Resident) Pass(d time.Duration) {
	r.town.t.Helper()
	for ; d > 0; d -= time.Second {
		r.Clock.Jump(min(d, time.Second))
		if _, err := r.Revision(Context(r.town.t)); err != nil {
			r.town.t.Fatal(err)
		}
	}
}

// Context ends with the test, or after half a minute.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Wait waits for a channel, with a deadline.
func Wait[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing came", what)
		panic("unreachable")
	}
}

// Eventually waits until a condition holds, looking often.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: never", what)
		}
	}
}

// Keys lists the keys under a prefix.
func (w *Town) Keys(prefix string) []string {
	w.t.Helper()
	var keys []string
	for r, err := range w.Admin().Records(Context(w.t), client.PrefixSelector(prefix), client.ListOptions{KeysOnly: true}) {
		if err != nil {
			w.t.Fatal(err)
		}
		keys = append(keys, string(r.Key))
	}
	return keys
}

// Delete removes the keys under a prefix: an operator's hand.
func (w *Town) Delete(prefix string) {
	w.t.Helper()
	if _, err := w.Admin().Delete(Context(w.t), client.PrefixSelector(prefix), client.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}
