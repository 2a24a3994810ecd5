package state

import (
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// Effects is what commands did since effects were last taken: the events for
// watchers, and facts for telemetry. It belongs to whoever took it; the records in
// it are immutable.
type Effects struct {
	// Events are in order of revision and op_index, without gaps.
	Events []store.Event
	// FromRevision was current before the first event, ToRevision is now.
	FromRevision, ToRevision uint64
	// CompactRevision is C now; CompactedFrom is what it was before, equal to it
	// when it did not move.
	CompactRevision, CompactedFrom uint64
	// Applied is the index of the last entry.
	Applied uint64

	// Commands counts commands by kind, refusals included; Refused counts the
	// refusals among them.
	Commands [CommandKinds]uint32
	Refused  [CommandKinds]uint32
	// Advanced counts, by kind, the commands that took a revision.
	Advanced [CommandKinds]uint32
	Replayed uint32

	Granted []LeaseGranted
	Renewed []LeaseRenewed
	Ended   []LeaseEnded

	// Auth are the changes of who may do what, in order.
	Auth []AuthChanged

	// ClockOwner is true when the lease clock has another owner than before.
	ClockOwner bool
}

// LeaseGranted is a new lease.
type LeaseGranted struct {
	LeaseID   uint64
	TTLMs     int64
	Anonymous bool
}

// LeaseRenewed is a keep-alive, or a touch of an anonymous lease.
type LeaseRenewed struct {
	LeaseID     uint64
	RemainingMs int64
}

// LeaseEnded is a lease that went: revoked, expired, or, if it is anonymous, let
// go by its key.
type LeaseEnded struct {
	LeaseID   uint64
	Keys      int
	Anonymous bool
	Cause     messages.EventCause
	// LatenessMs is how long after its deadline an expired lease ended, on the
	// lease clock.
	LatenessMs int64
}

// Empty reports that nothing at all was applied.
func (e *Effects) Empty() bool {
	return len(e.Events) == 0 && e.CompactRevision == e.CompactedFrom && e.Commands == [CommandKinds]uint32{}
}

// CommandKind names an operation in telemetry.
type CommandKind uint8

// Kinds of commands.
const (
	KindPut CommandKind = iota
	KindPutMany
	KindDelete
	KindTouch
	KindTxn
	KindGrantLease
	KindKeepAliveLease
	KindRevokeLease
	KindOpenSession
	KindCloseSession
	KindResolveIdempotency
	KindCreateIndex
	KindDropIndex
	KindOpenCursor
	KindCheckpointCursor
	KindCloseCursor
	KindCompact
	KindSetConfig
	KindClaimClock
	KindTick
	KindExpireLeases
	KindStepIndex
	KindReportConsumers
	KindBootstrap
	KindRaiseApplyVersion
	KindChangeAuth
	KindRecordAudit
	// CommandKinds is their number.
	CommandKinds
)

var kindNames = [CommandKinds]string{
	"put", "put_many", "delete", "touch", "txn", "grant_lease", "keep_alive_lease", "revoke_lease",
	"open_session", "close_session", "resolve_idempotency", "create_index", "drop_index", "open_cursor",
	"checkpoint_cursor", "close_cursor", "compact", "set_config", "claim_clock", "tick", "expire_leases",
	"step_index", "report_consumers", "bootstrap", "raise_apply_version",
	"change_auth", "record_audit",
}

// String returns the name of the command, as metrics have it.
func (k CommandKind) String() string { return kindNames[k] }

// TakeEffects returns what happened since the last call. Call it once a batch, also
// when nobody watches: effects hold records in memory until they are taken.
func (m *Machine) TakeEffects() *Effects {
	e := m.effects
	e.ToRevision = m.kv.Revision()
	e.CompactRevision = m.kv.Compacted()
	e.Applied = m.applied
	m.effects = m.newEffects()
	return e
}

// Recycle gives effects back once nobody reads them any more: later ones use their
// memory. It is for those who want batches to allocate nothing; effects that are not
// given back are the collector's. They, and the slices in them, must not be used after.
func (m *Machine) Recycle(e *Effects) {
	clear(e.Events) // nobody's values stay for it
	if len(m.spare) < effectsSpareMax {
		m.spare = append(m.spare, e)
	}
}

const (
	// effectsSpareMax is how many wait to be used again: readers may be that many
	// batches behind.
	effectsSpareMax = 4
	// effectsRoomMax bounds the room for events that is made, or kept, before it is
	// needed.
	effectsRoomMax = 1 << 10
)

// newEffects returns empty ones, with room for as much as the last had, as batches are
// often alike.
func (m *Machine) newEffects() *Effects {
	var e *Effects
	if n := len(m.spare); n > 0 {
		e, m.spare[n-1] = m.spare[n-1], nil
		m.spare = m.spare[:n-1]
	} else {
		e = &Effects{}
	}
	last := m.effects
	if last == nil {
		last = &Effects{}
	}
	*e = Effects{
		FromRevision: m.kv.Revision(), CompactedFrom: m.kv.Compacted(),
		Events:  roomLike(last.Events, e.Events),
		Granted: roomLike(last.Granted, e.Granted), Renewed: roomLike(last.Renewed, e.Renewed), Ended: roomLike(last.Ended, e.Ended),
	}
	return e
}

// roomLike returns room for as many as last had: that of old, if it will do.
func roomLike[T any](last, old []T) []T {
	n := min(len(last), effectsRoomMax)
	if cap(old) >= n && cap(old) <= 2*effectsRoomMax {
		return old[:0]
	}
	if n == 0 {
		return nil
	}
	return make([]T, 0, n)
}
