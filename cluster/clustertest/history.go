package clustertest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/concord-kv/concord/messages"
)

// History records what clients asked and what they were told, to be checked for
// linearizability: each key is a register with put, get, delete and compare-and-set.
// Values are unique, so that a read says which write it saw.
type History struct {
	start time.Time

	mu  sync.Mutex
	ops []porcupine.Operation
	// Acked are the writes that were acknowledged with a revision.
	Acked []AckedWrite
}

// AckedWrite is a write that a client was told of.
type AckedWrite struct {
	Key, Value string
	Delete     bool
	Revision   uint64
}

// Verbs of a register.
type verb uint8

const (
	verbGet verb = iota
	verbPut
	verbDelete
	verbCAS
)

type input struct {
	verb       verb
	key        string
	value, old string // "" is no record
}

type output struct {
	unknown bool // it may have been applied, at any time since
	value   string
	done    bool // of a compare-and-set
}

// NewHistory begins an empty history.
func NewHistory() *History { return &History{start: time.Now()} }

// Began returns the time at which an operation begins.
func (h *History) Began() int64 { return time.Since(h.start).Nanoseconds() }

// ended records an operation. One that was not applied has not happened; one with an
// unknown outcome may take effect until the end of the history.
func (h *History) ended(client int, began int64, in input, out output, err error, revision uint64) {
	end := h.Began()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		if in.verb == verbGet || messages.OutcomeOf(err) == messages.Outcome_OUTCOME_NOT_APPLIED {
			return
		}
		out, end = output{unknown: true}, 1<<62
	} else if in.verb != verbGet && revision != 0 && (in.verb != verbCAS || out.done) {
		h.Acked = append(h.Acked, AckedWrite{Key: in.key, Value: in.value, Delete: in.verb == verbDelete, Revision: revision})
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: end})
}

// Len returns how many operations are recorded.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(input).key
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		value, i, o := state.(string), in.(input), out.(output)
		switch i.verb {
		case verbGet:
			return o.value == value, value
		case verbPut:
			return true, i.value
		case verbDelete:
			return true, ""
		}
		if o.unknown {
			if value == i.old {
				return true, i.value
			}
			return true, value
		}
		if o.done != (value == i.old) {
			return false, value
		}
		if o.done {
			return true, i.value
		}
		return true, value
	},
	DescribeOperation: func(in, out any) string {
		i, o := in.(input), out.(output)
		return fmt.Sprintf("%s %s %q old %q -> %q done %v unknown %v", [...]string{"get", "put", "delete", "cas"}[i.verb], i.key, i.value, i.old, o.value, o.done, o.unknown)
	},
}

// Check fails the test if no order of the operations explains what clients saw. A write
// that was acknowledged twice at one revision, or out of order, is found by the watch.
func (h *History) Check(t testing.TB) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	result, info := porcupine.CheckOperationsVerbose(registers, h.ops, 2*time.Minute)
	switch result {
	case porcupine.Illegal:
		path := t.TempDir() + "/history.html"
		_ = porcupine.VisualizePath(registers, info, path) // it is gone with the test; -keep is not worth a flag
		t.Errorf("the history of %d operations is not linearizable (%s)", len(h.ops), path)
	case porcupine.Unknown:
		t.Errorf("the history of %d operations could not be checked in time", len(h.ops))
	}
}
