package apply

import (
	"cmp"
	"errors"
	"io"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// Messages of the log's goroutines. Each is answered on its channel, which has
// room for the answer: the actor never waits.
type (
	batch struct {
		entries []consensus.Entry
		done    chan<- struct{}
	}
	freeze struct {
		done chan<- *state.View
	}
	install struct {
		machine *state.Machine
		done    chan<- struct{}
	}
)

// Applier is the consensus.Applier that stands before the actor: it hands over
// what the log brings and waits for the answer. The log calls it from one
// goroutine at a time.
type Applier struct {
	root   *actor.RootContext
	pid    *actor.PID
	halted <-chan struct{}
	done   chan struct{}
	// Restored, unless it is nil, is called when the state has been replaced by the log's
	// snapshot. Set it before the log is opened.
	Restored func()
	// ApplyVersion is the highest version of the rules that a restored state may have; 0
	// is messages.ApplyVersion. Set it before the log is opened.
	ApplyVersion uint32
}

var _ consensus.Applier = (*Applier)(nil)

// NewApplier returns the applier of the actor pid. halted is closed when an actor
// of the node has failed: nothing then answers any more, batches come back without
// results and snapshots are not made.
func NewApplier(system *actor.ActorSystem, pid *actor.PID, halted <-chan struct{}) *Applier {
	return &Applier{root: system.Root, pid: pid, halted: halted, done: make(chan struct{}, 1)}
}

// Apply implements consensus.Applier.
func (a *Applier) Apply(entries []consensus.Entry) {
	a.root.Send(a.pid, &batch{entries: entries, done: a.done})
	select {
	case <-a.done:
	case <-a.halted:
	}
}

// Freeze implements consensus.Applier.
func (a *Applier) Freeze() consensus.Frozen {
	done := make(chan *state.View, 1)
	a.root.Send(a.pid, &freeze{done: done})
	select {
	case v := <-done:
		return frozen{v}
	case <-a.halted:
		return frozen{}
	}
}

// Restore implements consensus.Applier. The machine is loaded on the caller's
// goroutine, and read and decompressed on another: the actor goes on serving the old one.
func (a *Applier) Restore(index uint64, r io.Reader) error {
	m, err := state.LoadAhead(r, cmp.Or(a.ApplyVersion, messages.ApplyVersion), beside)
	if err != nil {
		return err
	}
	if m.Applied() > index {
		return errors.New("apply: the snapshot is newer than its index")
	}
	a.root.Send(a.pid, &install{machine: m, done: a.done})
	select {
	case <-a.done:
		if a.Restored != nil {
			a.Restored()
		}
		return nil
	case <-a.halted:
		return errHalted
	}
}

// beside runs work on a goroutine of its own.
func beside(work func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	return func() { <-done }
}

var errHalted = errors.New("apply: the node has failed")

// frozen is a view that can be saved.
type frozen struct{ view *state.View }

// Save implements consensus.Frozen.
func (f frozen) Save(w io.Writer, stop <-chan struct{}) error {
	if f.view == nil {
		return errHalted
	}
	return f.view.Save(stoppable{w, stop})
}

// stoppable fails its next write once stop is closed.
type stoppable struct {
	w    io.Writer
	stop <-chan struct{}
}

var errStopped = errors.New("apply: the snapshot was stopped")

func (s stoppable) Write(b []byte) (int, error) {
	select {
	case <-s.stop:
		return 0, errStopped
	default:
		return s.w.Write(b)
	}
}
