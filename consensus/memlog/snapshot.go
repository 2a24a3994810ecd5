package memlog

import (
	"bytes"
	"errors"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

var errNoSpace = errors.New("no space left on device")

// savingSnapshot is frozen and not yet saved.
type savingSnapshot struct {
	frozen consensus.Frozen
	snap   *snapshot
}

// Snapshot freezes replica id now and saves it in a later step, so that applying
// may go on in between. It does nothing if there is nothing new to save.
func (c *Cluster) Snapshot(id uint64) {
	if n := c.node(id); n.up && !n.removed && n.saving == nil {
		n.saving = n.freeze()
	}
}

func (n *node) freeze() *savingSnapshot {
	if n.applied == 0 || n.mem.snap != nil && n.mem.snap.index >= n.applied || n.applied < n.mem.base {
		return nil
	}
	return &savingSnapshot{
		frozen: n.applier.Freeze(),
		snap:   &snapshot{index: n.applied, term: n.mem.termAt(n.applied), members: n.members, applied: n.appliedByApplier},
	}
}

func (n *node) endSaving() {
	s := n.saving
	n.saving = nil
	_ = n.save(s) // an abandoned snapshot is tried again by whoever wanted it
}

func (n *node) snapshotNow() error {
	if n.saving != nil {
		return messages.NewError(messages.Code_CODE_OVERLOADED, "a snapshot is being saved")
	}
	s := n.freeze()
	if s == nil {
		return nil
	}
	if err := n.save(s); err != nil {
		e := messages.NewError(messages.Code_CODE_UNAVAILABLE, "the snapshot was abandoned")
		e.Err = err
		return e
	}
	return nil
}

// save writes a snapshot and shortens the log. It is durable at once: dragonboat
// records a snapshot only after its file is synced.
func (n *node) save(s *savingSnapshot) error {
	if n.full {
		return errNoSpace
	}
	var b bytes.Buffer
	if err := s.frozen.Save(&b, nil); err != nil {
		return err
	}
	s.snap.data = b.Bytes()
	for _, st := range []*state{&n.mem, &n.disk} {
		if st.snap != nil && st.snap.index >= s.snap.index {
			continue // one was installed meanwhile
		}
		st.snap = s.snap
		st.commit = max(st.commit, s.snap.index)
		if keep := uint64(n.c.cfg.SnapshotKeep); s.snap.index > keep {
			st.compact(s.snap.index - keep)
		}
	}
	return nil
}
