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

// newEffects makes room for as much as the last effects had, as batches are often
// alike.
func (m *Machine) newEffects() *Effects {
	e := &Effects{FromRevision: m.kv.Revision(), CompactedFrom: m.kv.Compacted()}
	if last := m.effects; last != nil {
		e.Events = roomLike(last.Events)
		e.Granted, e.Renewed, e.Ended = roomLike(last.Granted), roomLike(last.Renewed), roomLike(last.Ended)
	}
	return e
}

// effectsRoomMax bounds the room that is made before it is needed.
const effectsRoomMax = 1 << 10

func roomLike[T any](last []T) []T {
	if len(last) == 0 {
		return nil
	}
	return make([]T, 0, min(len(last), effectsRoomMax))
}
