package node_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/actors/replica"
	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// faulty is a log that a test can make fail.
type faulty struct {
	consensus.Log
	mu sync.Mutex
	// fault decides about an entry; nil lets it pass.
	fault func(*messages.Entry) fault
}

type fault int

const (
	none      fault = iota
	lost            // never committed, and nobody knows
	committed       // committed, and the answer is lost
	dropped         // not applied, and known to be
)

func (f *faulty) set(fn func(*messages.Entry) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fn
}

func (f *faulty) Propose(payload []byte, timeout time.Duration, done func([]*messages.Result, error)) {
	e := &messages.Entry{}
	if err := proto.Unmarshal(payload, e); err != nil {
		panic(err)
	}
	what := none
	f.mu.Lock()
	if f.fault != nil {
		what = f.fault(e)
	}
	f.mu.Unlock()
	switch what {
	case lost:
		done(nil, messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "lost"))
	case committed:
		f.Log.Propose(payload, timeout, func([]*messages.Result, error) {
			done(nil, messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "answer lost"))
		})
	case dropped:
		done(nil, messages.NewError(messages.Code_CODE_NO_LEADER, "dropped"))
	default:
		f.Log.Propose(payload, timeout, done)
	}
}

func startFaulty(t *testing.T, cfg node.Config) (*node.Node, *faulty) {
	t.Helper()
	f := &faulty{}
	cfg.Dir = t.TempDir()
	return start(t, node.WithLog(cfg, func(l consensus.Log) consensus.Log {
		f.Log = l
		return f
	})), f
}

func expires(e *messages.Entry) bool {
	for _, c := range e.GetCommands() {
		if c.GetExpireLeases() != nil {
			return true
		}
	}
	return false
}

// TestFailedExpiryIsRetried: the first expiry proposals fail, in each way there is.
// The lease ends all the same, and its key is deleted once.
func TestFailedExpiryIsRetried(t *testing.T) {
	for name, what := range map[string]fault{"lost": lost, "committed": committed, "dropped": dropped} {
		t.Run(name, func(t *testing.T) {
			n, f := startFaulty(t, node.Config{})
			c, w := connect(t, n), connect(t, n)
			w.watch("/e/")
			var failures atomic.Int64
			f.set(func(e *messages.Entry) fault {
				if expires(e) && failures.Add(1) <= 3 {
					return what
				}
				return none
			})
			c.put("/e/k", "v", c.grant(100*time.Millisecond))
			w.event()
			if got, want := w.event(), "EVENT_TYPE_DELETE /e/k 2 EVENT_CAUSE_EXPIRED"; got != want {
				t.Errorf("watched %q, want %q", got, want)
			}
			c.put("/e/after", "v", 0)
			if got, want := w.event(), "EVENT_TYPE_PUT /e/after 3 EVENT_CAUSE_WRITTEN"; got != want {
				t.Errorf("then %q, want %q: the delete comes once", got, want)
			}
			if failures.Load() == 0 {
				t.Error("nothing failed")
			}
		})
	}
}

// TestAnotherOwnerOfTheClock: again and again somebody else claims the lease clock
// while clients write. No client notices: what was stamped by the old owner is
// proposed again by the new one, in order.
func TestAnotherOwnerOfTheClock(t *testing.T) {
	n, f := startFaulty(t, node.Config{})
	const writers, writes = 4, 60
	var wg sync.WaitGroup
	for i := range writers {
		c := connect(t, n)
		wg.Go(func() {
			last := uint64(0)
			for k := range writes {
				r := c.do(&messages.Operation{Operation: &messages.Operation_Write{Write: &messages.Write{
					Op: &messages.Write_Put{Put: &messages.Put{Key: fmt.Appendf(nil, "/%d", i), Value: fmt.Append(nil, k)}},
				}}}).GetResult()
				if r.GetError() != nil || r.GetRevision() <= last {
					t.Errorf("write %d of %d: %v after revision %d", k, i, r, last)
					return
				}
				last = r.GetRevision()
			}
		})
	}
	stolen, between := 0, connect(t, n)
	for nonce := uint64(1); stolen < 5; nonce++ {
		v, err := n.View()
		if err != nil {
			t.Fatal(err)
		}
		claim := &messages.Entry{Commands: []*messages.Command{{Op: &messages.Command_ClaimClock{ClaimClock: &messages.ClaimClock{
			ExpectedEpoch: v.Status().GetClockEpoch(), ReplicaId: 2, Nonce: nonce,
		}}}}}
		b, err := proto.Marshal(claim)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan bool, 1)
		f.Log.Propose(b, answerWithin, func(r []*messages.Result, err error) { done <- err == nil && r[0].GetError() == nil })
		if <-done {
			stolen++
			between.put("/between", "v", 0) // the node has it back
		}
	}
	wg.Wait()
	v, err := n.View()
	if err != nil {
		t.Fatal(err)
	}
	if epoch := v.Status().GetClockEpoch(); epoch < 11 {
		t.Errorf("epoch %d after five thefts", epoch)
	}
	if v.Revision() != writers*writes+5 {
		t.Errorf("revision %d: each write takes one", v.Revision())
	}
}

// TestExpiryUnderOverload: clients keep the queue full and are refused; leases still
// end in time and the clock still ticks.
func TestExpiryUnderOverload(t *testing.T) {
	n := start(t, node.Config{Dir: t.TempDir(), Replica: replica.Limits{WaitingCommandsMax: 64, EntryCommandsMax: 16}})
	w := connect(t, n)
	w.watch("/e/")
	var overloaded, stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 8 {
		c := connect(t, n)
		c.epoch = uint64(100 + i)
		wg.Go(func() {
			for call := uint64(1); !stop.Load(); call += 64 {
				ops := make([]*messages.Operation, 64)
				for k := range ops {
					ops[k] = &messages.Operation{Operation: &messages.Operation_Write{Write: &messages.Write{
						Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("/load"), Value: []byte("v")}},
					}}}
				}
				if c.stream.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{
					ClientEpoch: 7, FirstCall: call, TimeoutMs: 5_000, Operations: ops,
				}}}) != nil {
					return
				}
				for got := 0; got < 64; {
					m, err := c.stream.Recv()
					if err != nil {
						t.Error(err)
						return
					}
					for _, r := range m.GetReplies().GetReplies() {
						got++
						e := r.GetError()
						if e == nil {
							e = r.GetResult().GetError()
						}
						if e.GetCode() == messages.Code_CODE_OVERLOADED && e.GetRetryAfterMs() > 0 && e.GetOutcome() == messages.Outcome_OUTCOME_NOT_APPLIED {
							overloaded.Store(true)
						} else if e != nil {
							t.Errorf("refused: %v", e)
						}
					}
				}
			}
		})
	}
	c := connect(t, n)
	for round := range 5 {
		lease := uint64(0)
		for lease == 0 { // refused like anybody's write, and tried again
			lease = c.do(&messages.Operation{Operation: &messages.Operation_Write{Write: &messages.Write{
				Op: &messages.Write_GrantLease{GrantLease: &messages.GrantLease{TtlMs: 200}},
			}}}).GetResult().GetGrantLease().GetLeaseId()
		}
		r := &messages.Result{Error: &messages.ErrorDetail{}}
		for r == nil || r.GetError() != nil && r.GetError().GetCode() != messages.Code_CODE_UNKNOWN_LEASE {
			r = c.do(&messages.Operation{Operation: &messages.Operation_Write{Write: &messages.Write{
				Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("/e/k"), Value: []byte("v"), LeaseId: lease}},
			}}}).GetResult()
		}
		if r.GetError() != nil {
			continue // it took longer than the lease
		}
		w.event()
		if got := w.event(); !strings.HasPrefix(got, "EVENT_TYPE_DELETE /e/k") {
			t.Errorf("round %d: %q", round, got)
		}
	}
	stop.Store(true)
	wg.Wait()
	if !overloaded.Load() {
		t.Error("no client was refused: this test tests nothing")
	}
}

// TestFailStop: an actor that must not fail has failed. The node says so once, answers
// nothing any more, and can still be closed.
func TestFailStop(t *testing.T) {
	for _, name := range []string{"apply", "replica", "expiry", "watch", "node"} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan string, 8)
			n := start(t, node.Config{
				Dir: t.TempDir(), CloseTimeout: 200 * time.Millisecond,
				Fail: func(reason any, stack []byte) { failed <- fmt.Sprintf("%v\n%s", reason, stack) },
			})
			c := connect(t, n)
			c.put("/k", "v", 0)
			n.Break(name)
			select {
			case got := <-failed:
				if !strings.Contains(got, "unexpected message string") || !strings.Contains(got, "Receive(") {
					t.Errorf("told %s", got)
				}
			case <-time.After(answerWithin):
				t.Fatal("it goes on")
			}
			<-n.Failed()
			if _, err := n.View(); err == nil {
				t.Error("a failed node answers")
			}
			_ = n.Close() // in time or not, it ends
			if len(failed) > 0 {
				t.Error("it failed twice")
			}
		})
	}
}

// TestCompactionWaitsForWatches: what a watch of this node has not delivered stays in
// the change log, because the node reports how far its watches have come.
func TestCompactionWaitsForWatches(t *testing.T) {
	n := start(t, node.Config{Dir: t.TempDir()})
	w, c := connect(t, n), connect(t, n)
	r := w.do(&messages.Operation{Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{
		WatchId: 1, CreditEvents: 1, Selector: &messages.Selector{By: &messages.Selector_Prefix{}},
	}}})
	if r.GetWatch() == nil {
		t.Fatalf("watch: %v", r)
	}
	for range 20 {
		c.put("/k", "v", 0)
	}
	// The report goes out within a second or so; until then it is not held back by it.
	deadline := time.Now().Add(answerWithin)
	for {
		v, err := n.View()
		if err != nil {
			t.Fatal(err)
		}
		if v.Leases() > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the node took no lease for its report")
		}
		c.put("/k", "v", 0)
	}
	c.put("/k", "v", 0) // behind the report in the log, which followed the grant at once
	got := c.write(&messages.Write{Op: &messages.Write_Compact{Compact: &messages.Compact{Revision: 15}}}).GetCompact().GetCompactRevision()
	if got > 2 {
		t.Errorf("compacted to %d, and the watch has credit for one event", got)
	}
}
