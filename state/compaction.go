package state

import (
	"sort"

	"github.com/concord-kv/concord/messages"
)

// sampleTable holds (revision, clock) pairs, one a Tick that saw a new revision, for
// retention by age. Like the idempotency queue it grows at the end and shrinks at
// the front, so that a view can share the slice.
type sampleTable struct {
	list   []sample
	digest uint64
}

type sample struct {
	revision uint64
	clockMs  int64
}

// samplesMax bounds the samples: beyond it every second one goes, and retention by
// age becomes coarser for a while.
const samplesMax = 1 << 17

func (t *sampleTable) add(s sample) {
	if n := len(t.list); n > 0 && t.list[n-1].revision == s.revision {
		return // the earlier time says more
	}
	t.list = append(t.list, s)
	t.digest += hashSample(s)
	if len(t.list) <= samplesMax {
		return
	}
	kept := make([]sample, 0, samplesMax)
	for i, s := range t.list {
		if i%2 == 0 {
			kept = append(kept, s)
		} else {
			t.digest -= hashSample(s)
		}
	}
	t.list = kept
}

// forget drops the samples of revisions up to c: they cannot move C any more.
func (t *sampleTable) forget(c uint64) {
	for len(t.list) > 0 && t.list[0].revision <= c {
		t.digest -= hashSample(t.list[0])
		t.list = t.list[1:]
	}
}

// tick notes which revision is current at this time and lets retention move C.
func (m *Machine) tick() {
	if r := m.kv.Revision(); r > m.kv.Compacted() {
		m.samples.add(sample{revision: r, clockMs: m.clock.ms})
	}
	m.compactTo(m.horizon())
	m.trimAudit()
}

// horizon returns the compact revision that retention asks for: the later of what
// the number of revisions and their age give, because history is kept for whichever
// is less.
func (m *Machine) horizon() uint64 {
	var c uint64
	if r, keep := m.kv.Revision(), m.config.GetRetentionRevisions(); r > keep {
		c = r - keep
	}
	// The last sample that is old enough.
	cutoff := m.clock.ms - m.config.GetRetentionMs()
	n := sort.Search(len(m.samples.list), func(i int) bool { return m.samples.list[i].clockMs > cutoff })
	if n > 0 {
		c = max(c, m.samples.list[n-1].revision)
	}
	return c
}

// compactTo moves C forward to a revision, or as far as the consumers allow.
func (m *Machine) compactTo(revision uint64) {
	revision = min(revision, m.kv.Revision(), m.cursors.floor(m.kv.Revision(), m.kv.Compacted(), m.config.GetConsumerLagMax()))
	if revision > m.kv.Compacted() {
		m.compactNow(revision)
	}
}

// compactNow moves C forward, whoever is behind.
func (m *Machine) compactNow(revision uint64) {
	m.kv.Compact(revision, m.protected())
	m.samples.forget(revision)
}

// compact is an operator's request. It answers with the effective C, which
// consumers may hold back and which never goes back.
func (m *Machine) compact(r *messages.Result, c *messages.Compact) *messages.Error {
	if c.GetRevision() > m.kv.Revision() {
		return futureRevision("revision", c.GetRevision(), m.kv.Revision())
	}
	switch {
	case !c.GetExact():
		m.compactTo(c.GetRevision())
	case c.GetRevision() <= m.kv.Compacted():
		return compacted("revision", c.GetRevision(), m.kv.Compacted())
	default:
		m.compactNow(c.GetRevision())
	}
	r.Answer = &messages.Result_Compact{Compact: &messages.CompactResult{CompactRevision: m.kv.Compacted()}}
	return nil
}

func futureRevision(field string, asked, current uint64) *messages.Error {
	err := messages.NewError(messages.Code_CODE_FUTURE_REVISION, "revision %d is after the current %d", asked, current).WithField(field)
	err.Detail.CurrentRevision = current
	return err
}

func compacted(field string, asked, c uint64) *messages.Error {
	err := messages.NewError(messages.Code_CODE_COMPACTED, "revision %d is before the compact revision %d", asked, c).WithField(field)
	err.Detail.CompactRevision = c
	return err
}
