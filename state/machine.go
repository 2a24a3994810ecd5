// Package state is the replicated state machine: revisioned records, leases,
// exactly-once sessions and everything else that all replicas agree on.
//
// A Machine is a pure function of the commands it was given: it reads no clock, no
// random number and no file, and starts no goroutine, so that replicas that applied
// the same log are equal (Digest). Time enters with commands as stamps of the lease
// clock. One goroutine owns a Machine; what others may read is a View: every table
// at one log index, frozen, made in O(1) when somebody asks.
//
//	Apply    one log entry -> one result a command
//	Effects  what a batch did: events for watchers, facts for telemetry
//	View     queries, replay of changes, snapshots
//
// A refusal is a result with an error in it. Whatever comes in a command, Apply
// does not panic on it, with two exceptions that must stop a replica rather than
// let it differ from the others: an operation this build does not know, and an
// apply version above the one it supports.
package state

import (
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
	"github.com/concord-kv/concord/state/field"
	"github.com/concord-kv/concord/state/index"
	"github.com/concord-kv/concord/state/store"
)

// Machine is the state of one replica. One goroutine owns it.
type Machine struct {
	applied   uint64
	supported uint32 // the highest apply version that this build knows
	global    global
	clock     clock
	config    *messages.ClusterConfig // replaced, never changed: views share it
	configH   uint64

	kv       *store.Store
	leases   leaseTable
	sessions sessionTable
	once     idempotencyTable
	cursors  cursorTable
	samples  sampleTable
	indexes  *index.Table
	auth     *auth.Table // replaced, never changed: views and sessions share it
	authH    uint64
	guard    *auth.Table // auth while authorization is enabled, else nil
	audit    auditTable

	kind    CommandKind  // of the command that is being applied
	actor   *auth.Rights // of whoever sent it; nil: nobody is asked for rights
	parser  field.Parser
	write   write   // the command that is being applied
	journal journal // how to undo its changes of leases
	effects *Effects
	spare   []*Effects // that Recycle was given
	results resultRoom
	// keepAlives are answers that wait to be used.
	keepAlives []keepAliveAnswer
	view       *View  // of index applied, if anybody asked
	warmth     uint64 // see warm
}

// global is what the whole cluster has one of, beside its clock and its config.
type global struct {
	clusterID     []byte
	incarnation   uint64
	applyVersion  uint32
	nextLeaseID   uint64
	nextSessionID uint64
	commandCount  uint64
}

// New returns the state before the first command: empty, not bootstrapped, with the
// default configuration.
func New() *Machine { return NewAt(messages.ApplyVersion) }

// NewAt is New of a build that knows apply versions up to supported only, for tests
// of clusters that are being upgraded.
func NewAt(supported uint32) *Machine { return newMachine(store.New(), supported) }

func newMachine(kv *store.Store, supported uint32) *Machine {
	m := &Machine{
		supported: supported,

		kv:       kv,
		global:   global{nextLeaseID: 1, nextSessionID: 1},
		leases:   newLeaseTable(),
		sessions: newSessionTable(),
		once:     newIdempotencyTable(),
		cursors:  newCursorTable(),
		indexes:  index.New(),
		audit:    auditTable{next: 1},
	}
	m.setAuth(auth.New())
	m.setConfig(messages.DefaultClusterConfig())
	m.effects = m.newEffects()
	return m
}

// Applied returns the index of the last entry that was applied.
func (m *Machine) Applied() uint64 { return m.applied }

// Revision returns the current revision.
func (m *Machine) Revision() uint64 { return m.kv.Revision() }

// CompactRevision returns the compact revision C: state is readable at C and above.
func (m *Machine) CompactRevision() uint64 { return m.kv.Compacted() }

// ClockMs returns the lease clock.
func (m *Machine) ClockMs() int64 { return m.clock.ms }

// ClockOwner returns who may stamp commands. Epoch 0 is nobody.
func (m *Machine) ClockOwner() (epoch, replica, nonce uint64) {
	return m.clock.epoch, m.clock.replica, m.clock.nonce
}

// Config returns the replicated configuration. The caller must not change it.
func (m *Machine) Config() *messages.ClusterConfig { return m.config }

// Bootstrapped reports whether the cluster's life has begun.
func (m *Machine) Bootstrapped() bool { return len(m.global.clusterID) > 0 }

// ClusterID returns the cluster's id and incarnation; nil and 0 before bootstrap.
func (m *Machine) ClusterID() (id []byte, incarnation uint64) {
	return m.global.clusterID, m.global.incarnation
}

// Sweep frees memory of what compaction has made unreadable: at most budget
// records' worth of work. It reports whether more is left. It changes nothing that
// can be read, and replicas need not agree on it.
func (m *Machine) Sweep(budget int) (more bool) { return m.kv.Sweep(budget) }

// Due returns up to limit leases whose deadline is at or before clockMs, earliest
// first, and the earliest deadline that is not among them, 0 for none.
func (m *Machine) Due(clockMs int64, limit int) (pairs []*messages.ExpireLeases_Pair, nextDeadlineMs int64) {
	nextDeadlineMs = m.leases.byTime.due(clockMs, limit, func(slot int32) {
		row := m.leases.at(slot)
		pairs = append(pairs, &messages.ExpireLeases_Pair{LeaseId: row.id, Renewals: row.renewals})
	})
	return pairs, nextDeadlineMs
}

// EarliestDeadline returns the first deadline of all leases, 0 for none.
func (m *Machine) EarliestDeadline() int64 { return m.leases.byTime.first() }

// IndexSteps returns the back-fill steps to propose next, in order of name.
func (m *Machine) IndexSteps() []*messages.StepIndex { return m.indexes.Steps() }

// Stats are sizes, for gauges.
type Stats struct {
	Keys, HistoryEvents   uint64
	LogicalBytes          uint64
	Leases, LiveSessions  uint64
	Idempotency           uint64
	Cursors, Indexes      uint64
	RevisionSamples       uint64
	Applied, CommandCount uint64
}

// Stats returns the sizes of the tables.
func (m *Machine) Stats() Stats {
	return Stats{
		Keys:            uint64(m.kv.Keys()),
		HistoryEvents:   uint64(m.kv.Events()),
		LogicalBytes:    m.kv.LogicalBytes(),
		Leases:          uint64(m.leases.len()),
		LiveSessions:    uint64(m.sessions.len()),
		Idempotency:     uint64(m.once.len()),
		Cursors:         uint64(m.cursors.named.len()),
		Indexes:         uint64(m.indexes.Len()),
		RevisionSamples: uint64(len(m.samples.list)),
		Applied:         m.applied,
		CommandCount:    m.global.commandCount,
	}
}
