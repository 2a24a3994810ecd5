package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

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

// wrote returns the revision that an acknowledged write made.
func (op *Op) wrote() (revision uint64, wrote bool) {
	if op.err != nil || !op.over {
		return 0, false
	}
	r := op.reply.GetResult()
	switch op.Kind {
	case OpPut, OpPair:
		return r.GetRevision(), true
	case OpSwap:
		return r.GetRevision(), r.GetTxn().GetSucceeded()
	case OpDelete:
		return r.GetRevision(), r.GetDelete().GetDeleted() > 0
	}
	return 0, false
}

// answer is the transcript's form of an answer.
func (op *Op) answer() string {
	switch {
	case !op.over:
		return "no answer"
	case op.err != nil:
		return fmt.Sprintf("%s, %s", messages.CodeName(messages.CodeOf(op.err)), messages.OutcomeName(messages.OutcomeOf(op.err)))
	}
	if op.reply.GetAdmin() != nil {
		return "done"
	}
	if q := op.reply.GetQuery(); q != nil {
		if x := q.GetIndexLookup(); x != nil {
			var keys []string
			for _, r := range x.Records {
				keys = append(keys, string(r.Key))
			}
			return fmt.Sprintf("[%s]", strings.Join(keys, " "))
		}
		if g := q.GetGet(); g != nil {
			if g.Record == nil {
				return "absent"
			}
			return fmt.Sprintf("%s at %d", g.Record.Value, g.Record.ModRevision)
		}
		if l := q.GetLeaseInfo(); l != nil {
			return fmt.Sprintf("ttl %dms, %d keys", l.Lease.GetTtlMs(), l.Lease.GetKeyCount())
		}
		if l := q.GetLeaseList(); l != nil {
			return fmt.Sprintf("%d leases", len(l.Leases))
		}
		if c := q.GetChanges(); c != nil {
			var b strings.Builder
			for _, e := range c.Events {
				b.WriteString(eventLine(e) + "; ")
			}
			fmt.Fprintf(&b, "next %d.%d", c.Next.GetRevision(), c.Next.GetOpIndex())
			return b.String()
		}
		if l := q.GetList(); l != nil {
			var keys []string
			for _, r := range l.Records {
				keys = append(keys, fmt.Sprintf("%s=%s", r.Key, r.Value))
			}
			return fmt.Sprintf("[%s]", strings.Join(keys, " "))
		}
		return fmt.Sprintf("revision %d", q.Revision)
	}
	r := op.reply.GetResult()
	switch {
	case r.GetGrantLease() != nil:
		return fmt.Sprintf("granted for %dms", r.GetGrantLease().TtlMs)
	case r.GetKeepAliveLease() != nil:
		return fmt.Sprintf("kept for %dms", r.GetKeepAliveLease().RemainingTtlMs)
	case r.GetRevokeLease() != nil:
		return fmt.Sprintf("revoked, %d keys", r.GetRevokeLease().KeysDeleted)
	case r.GetDelete() != nil:
		return fmt.Sprintf("deleted %d at %d", r.GetDelete().Deleted, r.Revision)
	case r.GetTxn() != nil:
		return fmt.Sprintf("succeeded=%v at %d", r.GetTxn().Succeeded, r.Revision)
	case r.GetCompact() != nil:
		return fmt.Sprintf("compacted to %d", r.GetCompact().CompactRevision)
	}
	return fmt.Sprintf("ok at %d", r.GetRevision())
}

type opOutput struct {
	unknown  bool
	value    string
	present  bool
	mod      uint64
	revision uint64
	ok       bool // a swap succeeded, a delete deleted
}

// Linearizable looks for an order of the recorded operations that explains them (I7).
// Leases end keys at moments that no client knows, and the model has no general
// transactions: keys that met either do not count.
func (w *World) Linearizable(patience time.Duration) {
	w.history.mu.Lock()
	defer w.history.mu.Unlock()
	var ops []porcupine.Operation
	number := map[string]int{}
	for _, c := range w.clients {
		number[c.name] = len(number)
	}
	last := int64(w.steps + 2)
	for _, op := range w.history.ops {
		if op.Kind == OpOther || w.history.apart[op.Key] {
			continue
		}
		o := opOutput{}
		returned := int64(op.returned)
		switch {
		case op.over && op.err == nil:
			o = op.output()
		case op.over && messages.OutcomeOf(op.err) == messages.Outcome_OUTCOME_NOT_APPLIED, op.Kind == OpGet:
			continue
		default:
			o.unknown, returned = true, last
		}
		ops = append(ops, porcupine.Operation{ClientId: number[op.client], Input: op, Call: int64(op.called), Output: o, Return: returned})
	}
	for _, part := range byKey(ops) {
		if porcupine.CheckOperationsTimeout(keyModel, part, patience) == porcupine.Illegal {
			w.failf("I7", "the history of %s is not linearizable:\n%s", part[0].Input.(*Op).Key, describe(part))
			return
		}
	}
}

// byKey splits a history by key. A pair counts at both of its keys: each alone must be
// explained.
func byKey(ops []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, o := range ops {
		op := o.Input.(*Op)
		parts[op.Key] = append(parts[op.Key], o)
		if op.Kind == OpPair {
			second := *op
			second.Key, second.Value = op.Key2, op.Value2
			o.Input = &second
			parts[op.Key2] = append(parts[op.Key2], o)
		}
	}
	var keys []string
	for k := range parts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var list [][]porcupine.Operation
	for _, k := range keys {
		list = append(list, parts[k])
	}
	return list
}

func (op *Op) output() opOutput {
	if q := op.reply.GetQuery(); q != nil {
		r := q.GetGet().GetRecord()
		return opOutput{value: string(r.GetValue()), present: r != nil, mod: r.GetModRevision(), revision: q.Revision}
	}
	r := op.reply.GetResult()
	o := opOutput{revision: r.GetRevision(), ok: true}
	switch op.Kind {
	case OpSwap:
		o.ok = r.GetTxn().GetSucceeded()
	case OpDelete:
		o.ok = r.GetDelete().GetDeleted() > 0
	}
	return o
}

// keyState is one key: its value, the revision that wrote it, and the highest revision
// that is known to have passed.
type keyState struct {
	value string
	mod   uint64 // 0: written by an operation that nobody knows the revision of
	rev   uint64
}

var keyModel = (&porcupine.NondeterministicModel{
	Init:  func() []any { return []any{keyState{}} },
	Step:  func(state, input, output any) []any { return keyStep(state.(keyState), input.(*Op), output.(opOutput)) },
	Equal: func(a, b any) bool { return a == b },
}).ToModel()

// keyStep returns the states that an operation with this answer may leave; none if it
// cannot have had it.
func keyStep(s keyState, op *Op, o opOutput) []any {
	exists := s.value != ""
	if !o.unknown && o.revision < s.rev {
		return nil
	}
	switch op.Kind {
	case OpGet:
		if o.present != exists || o.value != s.value || exists && s.mod != 0 && o.mod != s.mod {
			return nil
		}
		return []any{keyState{s.value, o.mod, max(s.rev, o.revision)}}
	case OpPut, OpPair:
		return []any{written(s, op.Value, o)}
	case OpDelete:
		if !o.unknown && o.ok != exists {
			return nil
		}
		if !exists {
			return []any{keyState{"", 0, max(s.rev, o.revision)}}
		}
		return []any{written(s, "", o)}
	case OpSwap:
		may, mayNot := true, true
		switch {
		case !exists:
			may, mayNot = op.ModWas == 0, op.ModWas != 0
		case s.mod != 0:
			may, mayNot = op.ModWas == s.mod, op.ModWas != s.mod
		}
		var next []any
		if may && (o.unknown || o.ok) {
			next = append(next, written(s, op.Value, o))
		}
		if mayNot && (o.unknown || !o.ok) {
			next = append(next, keyState{s.value, s.mod, max(s.rev, o.revision)})
		}
		return next
	}
	return nil
}

func written(s keyState, value string, o opOutput) keyState {
	if o.unknown {
		return keyState{value, 0, s.rev}
	}
	return keyState{value, o.revision, max(s.rev, o.revision)}
}

func describe(ops []porcupine.Operation) string {
	var b strings.Builder
	for _, o := range ops {
		op := o.Input.(*Op)
		fmt.Fprintf(&b, "  [%d, %d] %s %s: %s\n", op.called, op.returned, op.client, op.name, op.answer())
	}
	return b.String()
}
