package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/concord-kv/concord/consensus/memlog"
	"github.com/concord-kv/concord/messages"
)

const awaitMax = 5 * time.Second

// quiet waits until every goroutine is idle.
func (w *World) quiet() {
	w.logIdle = false
	synctest.Wait()
	w.collectResults()
}

func parseRate(s string) float64 {
	if f, err := strconv.ParseFloat(s, 64); err == nil && f > 0.5 && f < 2 {
		return f
	}
	return 1
}

// lastMod is the mod revision under which a client saw a key last; 0 if it never did.
func (w *World) lastMod(client, key string) uint64 {
	for i := len(w.history.ops) - 1; i >= 0; i-- {
		op := w.history.ops[i]
		if op.client != client || !op.over || op.err != nil {
			continue
		}
		if op.Kind == OpGet && op.Key == key {
			return op.reply.GetQuery().GetGet().GetRecord().GetModRevision()
		}
		if rev, wrote := op.wrote(); wrote && op.Kind != OpDelete && (op.Key == key || op.Key2 == key) {
			return rev
		}
	}
	return 0
}

// position reads REVISION[.OP]; without OP it is the end of that revision.
func position(s string) *messages.Position {
	rev, op, split := strings.Cut(s, ".")
	p := &messages.Position{OpIndex: 1<<32 - 1}
	p.Revision, _ = strconv.ParseUint(rev, 10, 64)
	if split {
		n, _ := strconv.ParseUint(op, 10, 32)
		p.OpIndex = uint32(n)
	}
	return p
}

// equal says how nodes that are up differ.
func (w *World) equal() error {
	var first *Node
	for _, n := range w.nodes {
		switch {
		case !n.up || !w.isMember(n):
		case n.view == nil:
			return fmt.Errorf("n%d has applied nothing", n.id)
		case first == nil:
			first = n
		case n.view.Applied() != first.view.Applied():
			return fmt.Errorf("n%d has applied index %d, n%d %d", n.id, n.view.Applied(), first.id, first.view.Applied())
		case n.view.Digest() != first.view.Digest():
			return fmt.Errorf("n%d has digest %016x, n%d %016x", n.id, n.view.Digest(), first.id, first.view.Digest())
		}
	}
	return nil
}

// mend ends every fault.
func (w *World) mend() {
	w.log.Heal()
	w.log.SetNetwork(memlog.Network{})
	clear(w.holes)
	for _, n := range w.nodes {
		n.paused = false
		w.log.Resume(n.id)
		w.log.ResumeDisk(n.id)
		w.log.ReleaseApply(n.id)
		w.log.FreeDisk(n.id)
		n.start()
	}
	for _, c := range w.clients {
		c.paused = c.crashed
		for _, x := range c.watches {
			x.goOn()
		}
	}
	w.quiet()
}

// Finish mends everything, lets the world come to rest and checks what must hold then.
func (w *World) Finish() {
	w.mend()
	calm := w.opts.Calm
	w.opts.Calm = true
	defer func() { w.opts.Calm = calm }()
	w.Advance(12 * time.Second) // longer than any lease of the generator lives unattended
	for range 40 {
		if w.Failure() != nil {
			return
		}
		if w.rest() == "" {
			break
		}
		w.Advance(time.Second)
	}
	if why := w.rest(); why != "" {
		w.failf("rest", "after all was mended: %s", why)
		return
	}
	w.finalReads()
	w.Advance(2 * time.Second)
	w.notApplied()
	w.Linearizable(2 * time.Second)
	for _, c := range w.clients {
		for _, x := range c.watches {
			if c.crashed {
				continue
			}
			x.complete()
		}
	}
	if err := w.equal(); err != nil {
		w.failf("I1", "at the end: %v", err)
	}
}

// rest says what is not at rest yet.
func (w *World) rest() string {
	if w.Leader() == 0 {
		return "no leader"
	}
	w.history.mu.Lock()
	defer w.history.mu.Unlock()
	for _, op := range w.history.ops {
		if c := w.client(op.client); !op.over && !c.crashed {
			return fmt.Sprintf("%s %s has no answer", op.client, op.name)
		}
	}
	if id := w.leases.overdue(3_000); id != 0 {
		return fmt.Sprintf("lease %d is past its deadline and was not expired", id)
	}
	if err := w.equal(); err != nil {
		return err.Error()
	}
	return ""
}

// notApplied holds the refusals against the truth: what was said not to be applied
// must not have been, then or later.
func (w *World) notApplied() {
	for _, op := range w.history.ops {
		if op.Value == "" || !op.over || op.err == nil || messages.OutcomeOf(op.err) != messages.Outcome_OUTCOME_NOT_APPLIED {
			continue
		}
		if at := w.truth.writes[op.Value]; len(at) > 0 {
			w.failf("outcome", "%s of %s was answered %q and was applied at revision %d", op.name, op.client, op.answer(), at[0])
		}
	}
}

// finalReads reads every key that was written: what was acknowledged must be there.
func (w *World) finalReads() {
	at := slices.IndexFunc(w.clients, func(c *Client) bool { return !c.closed && !c.crashed })
	if at < 0 {
		return
	}
	seen := map[string]bool{}
	var keys []string
	for _, op := range w.history.ops {
		if op.Kind != OpOther && !seen[op.Key] {
			seen[op.Key] = true
			keys = append(keys, op.Key)
		}
	}
	for _, k := range keys {
		w.clients[at].start(&Op{name: "get " + k, Kind: OpGet, Key: k}, query(&messages.Query{
			Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte(k)}},
		}), awaitMax)
	}
}

// Close ends the world: clients leave, nodes stop, and nothing is left (I8). Goroutines
// that are left make the bubble fail.
func (w *World) Close() {
	w.mend()
	w.opts.Calm = true
	for _, c := range w.clients {
		c.close()
	}
	for _, c := range w.clients {
		c.clock.end()
	}
	for _, n := range w.nodes {
		n.stop()
	}
	// The actor library counts dead letters on a goroutine that ends by itself.
	time.Sleep(2 * time.Second)
	w.quiet()
}
