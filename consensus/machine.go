package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/lni/dragonboat/v4/statemachine"

	"github.com/concord-kv/concord/messages"
)

// frameBytes precede each payload in the log: the nonce of the boot that proposed
// it and the number that boot gave it. They let Update, which sees neither
// proposer nor request, complete a local proposal the moment Apply returned, and
// keep a boot from taking an earlier one's entries for its own.
const frameBytes = 16

func putFrame(frame []byte, nonce, seq uint64, payload []byte) {
	binary.BigEndian.PutUint64(frame, nonce)
	binary.BigEndian.PutUint64(frame[8:], seq)
	copy(frame[frameBytes:], payload)
}

// snapshotMagic opens each snapshot; the index that follows is the highest one
// that Apply had seen. Dragonboat's own index of a snapshot is not told to
// RecoverFromSnapshot and counts entries that Apply never sees.
const snapshotMagic = "concord1"

// machine is the Applier as dragonboat wants it.
type machine struct {
	applier   Applier
	nonce     uint64
	completed func(seq uint64, results []*messages.Result) // a local proposal was applied
	grown     func(bytes int)                              // that many payload bytes were applied
	failed    func(error)                                  // a snapshot was not saved or not restored
	size      func(int64)                                  // a snapshot of so many bytes was saved or restored

	room diskRoom

	entries []Entry // reused
	applied atomic.Uint64
}

var _ statemachine.IConcurrentStateMachine = (*machine)(nil)

// Update never returns an error: dragonboat would panic with it.
func (m *machine) Update(batch []statemachine.Entry) ([]statemachine.Entry, error) {
	m.entries = m.entries[:0]
	bytes := 0
	for i := range batch {
		if len(batch[i].Cmd) < frameBytes {
			panic(fmt.Sprintf("consensus: entry %d has no frame: %d bytes", batch[i].Index, len(batch[i].Cmd)))
		}
		bytes += len(batch[i].Cmd)
		m.entries = append(m.entries, Entry{Index: batch[i].Index, Payload: batch[i].Cmd[frameBytes:]})
	}
	if len(batch) == 0 {
		return batch, nil
	}
	m.applier.Apply(m.entries)
	m.applied.Store(batch[len(batch)-1].Index)
	for i := range batch {
		if binary.BigEndian.Uint64(batch[i].Cmd) == m.nonce {
			m.completed(binary.BigEndian.Uint64(batch[i].Cmd[8:]), m.entries[i].Results)
		}
		m.entries[i] = Entry{}
	}
	m.grown(bytes)
	return batch, nil
}

// Lookup is not used: reads run on views, after a barrier.
func (m *machine) Lookup(any) (any, error) { return nil, errors.New("consensus: no lookups") }

type prepared struct {
	frozen Frozen
	index  uint64
}

func (m *machine) PrepareSnapshot() (any, error) {
	return prepared{frozen: m.applier.Freeze(), index: m.applied.Load()}, nil
}

func (m *machine) SaveSnapshot(ctx any, w io.Writer, _ statemachine.ISnapshotFileCollection, stop <-chan struct{}) error {
	p := ctx.(prepared)
	var header [16]byte
	copy(header[:], snapshotMagic)
	binary.BigEndian.PutUint64(header[8:], p.index)
	out := m.room.writer(w)
	_, err := out.Write(header[:])
	if err == nil {
		err = p.frozen.Save(out, stop)
	}
	if err == nil {
		m.size(out.written)
		return nil
	}
	select {
	case <-stop:
		return statemachine.ErrSnapshotStopped
	default:
		// Any other error would end the process. The log still has everything, so
		// a full disk or the like only means another try later.
		m.failed(err)
		return statemachine.ErrSnapshotAborted
	}
}

func (m *machine) RecoverFromSnapshot(r io.Reader, _ []statemachine.SnapshotFile, _ <-chan struct{}) error {
	in := &calmReader{Reader: r}
	err := m.restore(in)
	if err != nil {
		// Dragonboat ends the process with it: there is nothing to go on from.
		m.failed(err)
		return err
	}
	m.size(in.read.Load())
	return nil
}

// calmReader turns panics of the reader under it into errors: dragonboat's panics when the
// checksum of a block of its own does not hold, on whichever goroutine reads.
type calmReader struct {
	io.Reader
	read atomic.Int64
}

func (c *calmReader) Read(p []byte) (n int, err error) {
	defer func() {
		if r := recover(); r != nil {
			n, err = 0, fmt.Errorf("%v", r)
		}
		c.read.Add(int64(n))
	}()
	return c.Reader.Read(p)
}

func (m *machine) restore(r io.Reader) error {
	var header [16]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return fmt.Errorf("consensus: snapshot header: %w", err)
	}
	if string(header[:8]) != snapshotMagic {
		return fmt.Errorf("consensus: not a snapshot of ours: %q", header[:8])
	}
	index := binary.BigEndian.Uint64(header[8:])
	if err := m.applier.Restore(index, r); err != nil {
		return fmt.Errorf("consensus: snapshot at index %d: %w", index, err)
	}
	m.applied.Store(index)
	return nil
}

func (m *machine) Close() error { return nil }
