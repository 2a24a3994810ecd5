package sim

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/concord-kv/concord/messages"
)

// Op is one operation of the workload on keys, with what was asked and answered.
type Op struct {
	id     int
	client string
	called int // step
	sentAt time.Duration
	name   string // for the transcript

	Kind    OpKind
	Key     string
	Value   string // written
	ModWas  uint64 // of a compare-and-put: the mod revision that it expects
	Key2    string // of a transaction: a second key that is written with Value2
	Value2  string
	LeaseID uint64

	// The answer.
	over     bool
	returned int // step
	reply    *messages.Reply
	err      error
}

// OpKind is what an Op does.
type OpKind uint8

// The kinds of operations.
const (
	OpOther OpKind = iota // not part of the model: grants, compactions
	OpGet
	OpPut
	OpDelete
	OpSwap // put if the mod revision is ModWas
	OpPair // puts two keys at one revision
)

// history is what the clients did, and notes of goroutines that wait for the world.
type history struct {
	mu    sync.Mutex
	ops   []*Op
	fresh []*Op
	notes []lateNote
	lines []string        // a script's transcript
	apart map[string]bool // keys that the model does not cover
}

type lateNote struct {
	who string
	fn  func()
}

func (h *history) add(op *Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	op.id = len(h.ops)
	h.ops = append(h.ops, op)
}

// done notes an answer. It runs on a goroutine of the client.
func (h *history) done(op *Op, r *messages.Reply, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	op.reply, op.err, op.over = r, err, true
	h.fresh = append(h.fresh, op)
}

// setApart takes a key out of the model.
func (h *history) setApart(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.apart == nil {
		h.apart = map[string]bool{}
	}
	h.apart[key] = true
}

// later has fn run by the world, once everything is quiet.
func (h *history) later(who string, fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, lateNote{who, fn})
}

// collectResults looks at what was answered in this step, in an order that does not
// depend on goroutines.
func (w *World) collectResults() {
	h := &w.history
	h.mu.Lock()
	fresh, notes := h.fresh, h.notes
	h.fresh, h.notes = nil, nil
	h.mu.Unlock()
	slices.SortFunc(fresh, func(a, b *Op) int { return a.id - b.id })
	slices.SortStableFunc(notes, func(a, b lateNote) int { return strings.Compare(a.who, b.who) })
	for _, op := range fresh {
		op.returned = w.steps + 1
		w.answered(op)
	}
	for _, n := range notes {
		n.fn()
	}
}

// answered holds an answer against what it promises.
func (w *World) answered(op *Op) {
	w.trace("op %d %s %s: %s", op.id, op.client, op.name, op.answer())
	if op.err != nil {
		if messages.OutcomeOf(op.err) == messages.Outcome_OUTCOME_UNSPECIFIED {
			w.failf("outcome", "%s was answered %v, without an outcome", op.name, op.err)
		}
		return
	}
	if r := op.reply.GetResult(); r != nil {
		if g := r.GetGrantLease(); g != nil {
			w.client(op.client).leases[op.Key] = g.LeaseId
			w.leases.confirmed(g.LeaseId, g.TtlMs, op.sentAt)
		}
		if k := r.GetKeepAliveLease(); k != nil {
			w.leases.confirmed(k.LeaseId, k.TtlMs, op.sentAt)
		}
	}
	// I6: what is acknowledged has been applied, at the revision that was named.
	if rev, wrote := op.wrote(); wrote {
		if rev > w.truth.revision() {
			w.failf("I6", "%s of %s was acknowledged at revision %d; nobody has applied more than %d", op.name, op.client, rev, w.truth.revision())
		} else if at := w.truth.writes[op.Value]; op.Value != "" && !slices.Contains(at, rev) {
			w.failf("I6", "%s of %s was acknowledged at revision %d; its value was written at %v", op.name, op.client, rev, at)
		}
	}
}
