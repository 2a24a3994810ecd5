// Package watchcheck holds watches to their promises, one named check each, against what
// was written. Any test that has a client can use it: of one node in this process, of
// processes, of a simulation.
package watchcheck

import (
	"fmt"
	"sync"
)

// Change is what one operation did to one key.
type Change struct {
	Key, Value string
	Deleted    bool
}

// Truth is what was acknowledged: for each revision all its changes, in order. It may be
// used by many goroutines.
type Truth struct {
	mu   sync.Mutex
	at   map[uint64][]Change
	last uint64
}

// NewTruth returns a truth in which nothing was written.
func NewTruth() *Truth { return &Truth{at: map[uint64][]Change{}} }

// Wrote notes an acknowledged write. It fails when the revision had been given to
// another one.
func (t *Truth) Wrote(revision uint64, changes ...Change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.at[revision]; ok {
		return fmt.Errorf("revision %d was acknowledged for %v and for %v", revision, old, changes)
	}
	t.at[revision] = changes
	t.last = max(t.last, revision)
	return nil
}

// Last returns the highest revision that was acknowledged.
func (t *Truth) Last() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// known returns the changes of a revision; false when nobody knows who wrote it.
func (t *Truth) known(revision uint64) ([]Change, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.at[revision]
	return c, ok
}
