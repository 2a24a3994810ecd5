package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/concord-kv/concord/messages"
)

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
