package consensustest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// Recorder is an Applier that keeps what it was given and panics when the log
// breaks its promises.
type Recorder struct {
	busy atomic.Int32

	mu       sync.Mutex
	released sync.Cond
	held     bool
	applied  []Applied
	index    uint64
	batches  []int
	restores []uint64
	failSave error
	saving   func() // called in the middle of Save
}

// Applied is one entry as it was applied.
type Applied struct {
	Index   uint64
	Payload string
}

// NewRecorder returns an empty Recorder.
func NewRecorder() *Recorder {
	r := &Recorder{}
	r.released.L = &r.mu
	return r
}

// Hold makes Apply wait until Release. It is for logs that apply on a goroutine
// of their own.
func (r *Recorder) Hold() { r.mu.Lock(); r.held = true; r.mu.Unlock() }

// Release ends Hold.
func (r *Recorder) Release() { r.mu.Lock(); r.held = false; r.mu.Unlock(); r.released.Broadcast() }

func (r *Recorder) exclusive(what string) func() {
	if !r.busy.CompareAndSwap(0, 1) {
		panic("consensustest: " + what + " beside another call")
	}
	return func() { r.busy.Store(0) }
}

// Apply implements consensus.Applier. The result of an entry has its place, from
// 1, as revision.
func (r *Recorder) Apply(entries []consensus.Entry) {
	defer r.exclusive("Apply")()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.held {
		r.released.Wait()
	}
	if len(entries) == 0 {
		panic("consensustest: an empty batch")
	}
	r.batches = append(r.batches, len(entries))
	for i := range entries {
		e := &entries[i]
		if e.Index <= r.index {
			panic(fmt.Sprintf("consensustest: index %d after %d", e.Index, r.index))
		}
		if e.Results != nil {
			panic("consensustest: results from before")
		}
		r.index = e.Index
		r.applied = append(r.applied, Applied{e.Index, string(e.Payload)})
		e.Results = []*messages.Result{{Revision: uint64(len(r.applied))}}
	}
}

// Freeze implements consensus.Applier.
func (r *Recorder) Freeze() consensus.Frozen {
	defer r.exclusive("Freeze")()
	r.mu.Lock()
	defer r.mu.Unlock()
	return &frozen{applied: slices.Clip(r.applied), fail: r.failSave, saving: r.saving}
}

// Restore implements consensus.Applier.
func (r *Recorder) Restore(index uint64, in io.Reader) error {
	defer r.exclusive("Restore")()
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = nil
	for len(data) > 0 {
		n := 12 + int(binary.BigEndian.Uint32(data[8:]))
		r.applied = append(r.applied, Applied{binary.BigEndian.Uint64(data), string(data[12:n])})
		data = data[n:]
	}
	last := uint64(0)
	if len(r.applied) > 0 {
		last = r.applied[len(r.applied)-1].Index
	}
	if last != index {
		return fmt.Errorf("told index %d, the state is of %d", index, last)
	}
	r.index = index
	r.restores = append(r.restores, index)
	return nil
}

// All returns what was applied, restored entries included.
func (r *Recorder) All() []Applied { r.mu.Lock(); defer r.mu.Unlock(); return slices.Clone(r.applied) }

// Has says whether payload was applied.
func (r *Recorder) Has(payload string) bool {
	return slices.ContainsFunc(r.All(), func(a Applied) bool { return a.Payload == payload })
}

func (r *Recorder) snapshotsRestored() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.restores)
}

func (r *Recorder) largestBatch() int { r.mu.Lock(); defer r.mu.Unlock(); return slices.Max(r.batches) }

func (r *Recorder) onSave(fail error, saving func()) {
	r.mu.Lock()
	r.failSave, r.saving = fail, saving
	r.mu.Unlock()
}

type frozen struct {
	applied []Applied
	fail    error
	saving  func()
}

var errSave = errors.New("the disk is full")

func (f *frozen) Save(w io.Writer, _ <-chan struct{}) error {
	if f.saving != nil {
		f.saving()
	}
	if f.fail != nil {
		return f.fail
	}
	for _, a := range f.applied {
		b := binary.BigEndian.AppendUint64(nil, a.Index)
		b = binary.BigEndian.AppendUint32(b, uint32(len(a.Payload)))
		if _, err := w.Write(append(b, a.Payload...)); err != nil {
			return err
		}
	}
	return nil
}

// answer is the end of one call.
type answer struct {
	t       *testing.T
	payload string

	mu      sync.Mutex
	times   int
	results []*messages.Result
	failure error
}

func (a *answer) end(results []*messages.Result, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times++
	a.results, a.failure = results, err
	if a.times > 1 {
		a.t.Errorf("%s was answered %d times", a.payload, a.times)
	}
}

func (a *answer) ended() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.times > 0 }

func (a *answer) err() error { a.mu.Lock(); defer a.mu.Unlock(); return a.failure }

// place returns where the entry was applied, as its result says.
func (a *answer) place() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int(a.results[0].Revision) - 1
}

// listener keeps what it was told and panics when it is told two things at once.
type listener struct {
	busy atomic.Int32

	mu   sync.Mutex
	told [][2]uint64
}

func (l *listener) LeaderChanged(leaderID, term uint64) {
	if !l.busy.CompareAndSwap(0, 1) {
		panic("consensustest: the listener was called beside another call")
	}
	defer l.busy.Store(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, [2]uint64{leaderID, term})
}

func (l *listener) all() [][2]uint64 { l.mu.Lock(); defer l.mu.Unlock(); return slices.Clone(l.told) }
