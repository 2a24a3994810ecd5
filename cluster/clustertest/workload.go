package clustertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// Workload is clients that read and write a few keys while faults happen, each on a
// member of its own to begin with.
type Workload struct {
	t       testing.TB
	History *History
	cancel  context.CancelFunc
	group   sync.WaitGroup

	// Errors are the calls that failed, by code: the SDK hides what it can.
	mu     sync.Mutex
	Errors map[string]int
	Writes atomic.Int64
}

// workloadKeys is how many registers there are: few, so that operations meet.
const workloadKeys = 12

// workloadPace is between two operations of a client: the checker must keep up.
const workloadPace = 10 * time.Millisecond

// StartWorkload starts clients and lets them work until Stop.
func StartWorkload(c *Cluster, seed uint64, clients int) *Workload {
	ctx, cancel := context.WithCancel(c.t.Context())
	w := &Workload{t: c.t, History: NewHistory(), cancel: cancel, Errors: map[string]int{}}
	for i := range clients {
		s := c.Client()
		w.group.Go(func() { w.run(ctx, s, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	c.t.Cleanup(func() {
		cancel()
		w.group.Wait()
	})
	return w
}

// Stop ends the clients, each after its operation.
func (w *Workload) Stop() {
	w.cancel()
	w.group.Wait()
}

func (w *Workload) run(stop context.Context, s *client.Client, id int, r *rand.Rand) {
	seen := map[string]string{}
	for n := 0; stop.Err() == nil; n++ {
		// An operation outlives the end of the workload: its outcome is of interest.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(stop), 30*time.Second)
		w.one(ctx, s, id, n, r, seen)
		cancel()
		pause(stop, workloadPace)
	}
}

func (w *Workload) one(ctx context.Context, s *client.Client, id, n int, r *rand.Rand, seen map[string]string) {
	in := input{key: fmt.Sprintf("/reg/%02d", r.IntN(workloadKeys)), value: fmt.Sprintf("%d.%d", id, n)}
	began := w.History.Began()
	var (
		out      output
		revision uint64
		err      error
	)
	switch p := r.IntN(100); {
	case p < 45:
		in.verb = verbGet
		var g client.GetResult
		if g, err = s.Get(ctx, in.key, client.GetOptions{}); err == nil && g.Record != nil {
			out.value = string(g.Record.GetValue())
		}
		if err == nil {
			seen[in.key] = out.value
		}
	case p < 80:
		in.verb = verbPut
		var p client.PutResult
		p, err = s.Put(ctx, in.key, []byte(in.value), client.PutOptions{})
		revision = p.Revision
	case p < 86:
		in.verb, in.value = verbDelete, ""
		var d client.DeleteResult
		if d, err = s.Delete(ctx, client.KeySelector(in.key), client.DeleteOptions{}); err == nil && d.Deleted > 0 {
			revision = d.Revision
		}
	default:
		in.verb, in.old = verbCAS, seen[in.key]
		condition := client.Value(in.key, client.Equal, []byte(in.old))
		if in.old == "" {
			condition = client.Exists(in.key, false)
		}
		var x client.ConditionalResult
		x, err = s.PutIf(ctx, condition, in.key, []byte(in.value), client.PutOptions{})
		out.done, revision = x.Done, x.Revision
	}
	w.History.ended(id, began, in, out, err, revision)
	if err != nil {
		w.mu.Lock()
		var e *messages.Error
		name := err.Error()
		if errors.As(err, &e) {
			name = messages.CodeName(e.Code()) + "/" + messages.OutcomeName(e.Outcome())
		}
		w.Errors[name]++
		w.mu.Unlock()
	} else if in.verb != verbGet {
		w.Writes.Add(1)
	}
}

// WaitWrites waits until that many more writes were acknowledged.
func (w *Workload) WaitWrites(n int64) {
	w.t.Helper()
	ctx := Deadline(w.t, 2*time.Minute)
	for until := w.Writes.Load() + n; w.Writes.Load() < until; {
		if ctx.Err() != nil {
			w.t.Fatalf("only %d writes, not %d: the cluster does not take them", w.Writes.Load(), until)
		}
		pause(ctx, 5*time.Millisecond)
	}
}
