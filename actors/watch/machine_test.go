package watch

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// replica is a real state machine that plays apply for a hub.
type replica struct {
	w       *world
	machine *state.Machine
	index   uint64
	clockMs int64
}

func newReplica(w *world) *replica {
	r := &replica{w: w, machine: state.New()}
	w.state = func() ChangeLog { return r.machine.View() }
	r.apply(&messages.Command{Op: &messages.Command_Bootstrap{Bootstrap: &messages.Bootstrap{
		ClusterId: []byte("c"), Incarnation: 1, ApplyVersion: messages.ApplyVersion,
	}}})
	r.apply(&messages.Command{Op: &messages.Command_ClaimClock{ClaimClock: &messages.ClaimClock{ReplicaId: 1, Nonce: 9}}})
	return r
}

// apply applies commands as one batch; the model learns of its events, the hub not
// yet.
func (r *replica) apply(commands ...*messages.Command) []*messages.Result {
	for _, c := range commands {
		c.StampMs = r.clockMs
	}
	r.index++
	results := r.machine.Apply(r.index, &messages.Entry{Epoch: 1, ReplicaId: 1, Nonce: 9, Commands: commands})
	return results
}

// commit tells the hub what was applied since it was last told.
func (r *replica) commit() {
	e := r.learn()
	r.w.hub.Committed(e.Events, e.ToRevision, e.CompactRevision)
	r.w.collect()
}

func (r *replica) learn() *state.Effects {
	e := r.machine.TakeEffects()
	r.w.events = append(r.w.events, e.Events...)
	r.w.revision, r.w.compact = e.ToRevision, e.CompactRevision
	return e
}

// reload replaces the machine by what its snapshot holds, as a node does that
// caught up by one: the hub has not seen the last commits.
func (r *replica) reload(t *rapid.T) {
	r.learn()
	var file bytes.Buffer
	if err := r.machine.View().Save(&file); err != nil {
		t.Fatal(err)
	}
	m, err := state.Load(&file)
	if err != nil {
		t.Fatal(err)
	}
	r.machine = m
	r.w.hub.Installed(m.View())
	r.w.collect()
}

func commandGen(t *rapid.T, r *replica) *messages.Command {
	key := []byte(keyGen.Draw(t, "key"))
	put := &messages.Put{Key: key, Value: []byte(fmt.Sprint(r.index))}
	switch rapid.IntRange(0, 7).Draw(t, "op") {
	case 0:
		return &messages.Command{Op: &messages.Command_Delete{Delete: &messages.Delete{Selector: exact(string(key))}}}
	case 1:
		return &messages.Command{Op: &messages.Command_Delete{Delete: &messages.Delete{Selector: prefix("a")}}}
	case 2: // two events of one key in one revision
		return &messages.Command{Op: &messages.Command_Txn{Txn: &messages.Txn{Success: []*messages.TxnOp{
			{Op: &messages.TxnOp_Delete{Delete: &messages.Delete{Selector: exact(string(key))}}},
			{Op: &messages.TxnOp_Put{Put: put}},
			{Op: &messages.TxnOp_Put{Put: put}},
		}}}}
	case 3: // changes nothing
		return &messages.Command{Op: &messages.Command_Txn{Txn: &messages.Txn{
			Compares: []*messages.Compare{{Key: key, Operator: messages.CompareOperator_COMPARE_OPERATOR_EQUAL, Target: &messages.Compare_Version{Version: 1_000_000}}},
			Success:  []*messages.TxnOp{{Op: &messages.TxnOp_Put{Put: put}}},
		}}}
	case 4:
		put.TtlMs = 5_000
	}
	return &messages.Command{Op: &messages.Command_Put{Put: put}}
}

// TestHubOnTheRealState is TestHubKeepsItsPromises with the state machine itself
// behind the hub: its events, its change log, its compaction, its snapshots.
func TestHubOnTheRealState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Limits{ReplayEventsMax: rapid.SampledFrom([]int{3, 4096}).Draw(t, "replayEvents")})
		r := newReplica(w)
		r.commit()
		m := &machine{w: w}
		t.Repeat(map[string]func(*rapid.T){
			"commit": func(t *rapid.T) {
				for range rapid.IntRange(1, 4).Draw(t, "commands") {
					r.apply(commandGen(t, r))
				}
				r.commit()
			},
			"expire": func(t *rapid.T) {
				r.clockMs += int64(rapid.IntRange(0, 4_000).Draw(t, "ms"))
				pairs, _ := r.machine.Due(r.clockMs, messages.ExpireLeasesMax)
				r.apply(&messages.Command{Op: &messages.Command_ExpireLeases{ExpireLeases: &messages.ExpireLeases{Pairs: pairs}}})
				r.commit()
			},
			"compact": func(t *rapid.T) {
				r.apply(&messages.Command{Op: &messages.Command_Compact{Compact: &messages.Compact{Revision: m.compaction(t)}}})
				if rapid.Bool().Draw(t, "sweep") {
					r.machine.Sweep(rapid.IntRange(1, 100).Draw(t, "budget"))
				}
				r.commit()
			},
			"snapshot": func(t *rapid.T) {
				for range rapid.IntRange(0, 4).Draw(t, "commands") {
					r.apply(commandGen(t, r))
				}
				r.reload(t)
			},
			"watch":  m.watch,
			"grant":  m.grant,
			"drain":  m.drain,
			"cancel": m.cancel,
			"leave":  m.leave,
			"step":   func(*rapid.T) { w.step() },
			"settle": func(*rapid.T) { w.settle() },
			"tick":   func(*rapid.T) { w.tick(500) },
			"":       func(*rapid.T) { w.check() },
		})
		w.finish()
	})
}

// TestChangesAndWatchAgree: what a client pulls is what a watch is sent.
func TestChangesAndWatchAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Limits{})
		r := newReplica(w)
		for range rapid.IntRange(1, 30).Draw(t, "commands") {
			r.apply(commandGen(t, r))
		}
		r.commit()
		request := &messages.WatchRequest{WatchId: 1, Selector: prefix("a"), PrevKv: true, CreditEvents: 10_000}
		c := w.watch(1, request, protocol.EndOf(0))
		w.settle()
		var pulled []string
		for next := (*messages.Position)(nil); ; {
			reply, err := r.machine.View().Query(&messages.Query{Query: &messages.Query_Changes{Changes: &messages.ChangesRequest{
				Selector: prefix("a"), After: next, Limit: uint32(rapid.IntRange(1, 5).Draw(t, "limit")), PrevKv: true,
			}}}, state.Now{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range reply.GetChanges().Events {
				pulled = append(pulled, text(e))
			}
			next = reply.GetChanges().Next
			if !reply.GetChanges().HasMore {
				break
			}
		}
		if got, want := fmt.Sprint(c.texts()), fmt.Sprint(pulled); got != want {
			t.Fatalf("watched %s, pulled %s", got, want)
		}
	})
}
