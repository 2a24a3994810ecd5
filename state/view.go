package state

import (
	"github.com/tidwall/btree"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
	"github.com/concord-kv/concord/state/index"
	"github.com/concord-kv/concord/state/store"
)

// View is every table of a Machine at one log index. It is immutable and may be read
// by any number of goroutines; it keeps its own compact revision and data, whatever
// the machine does later. What its methods return must not be changed.
type View struct {
	applied   uint64
	supported uint32
	digest    uint64
	global    global
	clock     clock
	config    *messages.ClusterConfig
	kv        *store.View
	leases    leaseView
	sessions  *btree.BTreeG[sessionRow]
	once      []*idempotencyEntry
	order     uint64
	cursors   *btree.BTreeG[cursor]
	reports   *btree.BTreeG[report]
	samples   []sample
	indexes   *index.View
	auth      *auth.Table
	audit     []*messages.AuditRecord
	auditID   uint64 // of the next record
}

// View returns the state as it is now. It costs O(1), and nothing when the state has
// not changed since the last call; later changes then copy what they touch, so ask
// only when somebody reads.
func (m *Machine) View() *View {
	if m.view == nil {
		m.view = &View{
			applied:   m.applied,
			supported: m.supported,
			digest:    m.Digest(),
			global:    m.global,
			clock:     m.clock,
			config:    m.config,
			kv:        m.kv.View(),
			leases:    m.leases.view(),
			sessions:  m.sessions.view(),
			once:      m.once.queue,
			order:     m.once.order,
			cursors:   m.cursors.named.freeze(),
			reports:   m.cursors.reports.freeze(),
			samples:   m.samples.list,
			indexes:   m.indexes.View(),
			auth:      m.auth,
			audit:     m.audit.list,
			auditID:   m.audit.next,
		}
	}
	return m.view
}

// Applied returns the index of the last entry that the view has seen.
func (v *View) Applied() uint64 { return v.applied }

// Revision returns the current revision.
func (v *View) Revision() uint64 { return v.kv.Revision() }

// CompactRevision returns the compact revision C.
func (v *View) CompactRevision() uint64 { return v.kv.Compacted() }

// ClockMs returns the lease clock.
func (v *View) ClockMs() int64 { return v.clock.ms }

// Config returns the replicated configuration.
func (v *View) Config() *messages.ClusterConfig { return v.config }

// ApplyVersion returns the version of the rules that the log has settled on, 0 before
// bootstrap, and the highest that the machine knows.
func (v *View) ApplyVersion() (current, supported uint32) {
	return v.global.applyVersion, v.supported
}

// Digest returns the machine's Digest.
func (v *View) Digest() uint64 { return v.digest }

// ClusterID returns the cluster's id and incarnation; nil and 0 before bootstrap.
func (v *View) ClusterID() (id []byte, incarnation uint64) {
	return v.global.clusterID, v.global.incarnation
}

// Selected returns the keys that a selector names as lo <= key < hi; hi "" is the
// end of the key space.
func (v *View) Selected(s *messages.Selector) (lo, hi string) { return store.Bounds(s) }

// Changes visits every event after a position, in order, until fn returns false. It
// refuses with CODE_COMPACTED when some of them are gone. A position after the
// current revision has no events.
func (v *View) Changes(after *messages.Position, fn func(store.Event) bool) error {
	if !v.kv.Changes(after.GetRevision(), after.GetOpIndex(), fn) {
		return compacted("after", after.GetRevision(), v.kv.Compacted())
	}
	return nil
}

// Lease returns what clients see of a lease, and whether it exists. clockMs is an
// estimate of the lease clock, 0 for none.
func (v *View) Lease(id uint64, clockMs int64) (*messages.LeaseInfo, bool) {
	row, ok := v.leases.find(id)
	if !ok {
		return nil, false
	}
	return row.info(max(clockMs, v.clock.ms)), true
}

// Leases returns how many leases there are.
func (v *View) Leases() int { return v.leases.len() }
