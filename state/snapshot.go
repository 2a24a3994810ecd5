package state

import (
	"errors"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/snapfile"
	"github.com/concord-kv/concord/state/store"
)

// sessionRowBytes is where a session's answers go on in another row.
const sessionRowBytes = 4 << 20

// Save writes the view as a snapshot, format version 2. It may run beside the
// machine: nothing waits for it. An error is the writer's; what was written then is
// torn, and Load refuses it.
func (v *View) Save(w io.Writer) error {
	out, err := snapfile.NewWriter(w)
	if err != nil {
		return err
	}
	if err := v.rows(out); err != nil {
		return errors.Join(err, out.Close())
	}
	return out.Close()
}

// rows writes every row of a snapshot, in the order of the tables.
func (v *View) rows(out *snapfile.Writer) (err error) {
	emit := func(r *messages.SnapshotRow) bool {
		err = out.Row(r)
		return err == nil
	}
	if !emit(&messages.SnapshotRow{Row: &messages.SnapshotRow_Header{Header: v.header()}}) {
		return err
	}
	var encoded []byte
	v.kv.EachRow(func(kind store.RowKind, r store.Rec) bool {
		encoded = store.AppendRow(encoded[:0], kind, r)
		err = out.Encoded(snapfile.Table(kind), encoded)
		return err == nil
	})
	if err != nil {
		return err
	}
	v.leases.scan(0, func(row *leaseRow) bool {
		return emit(&messages.SnapshotRow{Row: &messages.SnapshotRow_Lease{Lease: leaseToRow(row)}})
	})
	if err != nil {
		return err
	}
	v.sessions.Scan(func(s sessionRow) bool { return sessionToRows(s.id, s.session, emit) })
	for _, e := range v.once {
		if err != nil {
			return err
		}
		emit(&messages.SnapshotRow{Row: &messages.SnapshotRow_Idempotency{Idempotency: idempotencyToRow(e)}})
	}
	if err != nil {
		return err
	}
	v.cursors.Scan(func(c cursor) bool {
		info := &messages.CursorInfo{Name: c.name, LeaseId: c.leaseID, AfterRevision: c.after}
		return emit(&messages.SnapshotRow{Row: &messages.SnapshotRow_Cursor{Cursor: &messages.SnapshotCursor{Cursor: info}}})
	})
	if err != nil {
		return err
	}
	v.reports.Scan(func(r report) bool {
		return emit(&messages.SnapshotRow{Row: &messages.SnapshotRow_Report{Report: &messages.SnapshotReport{
			ReplicaId: r.replica, LeaseId: r.leaseID, AfterRevision: r.after,
		}}})
	})
	if err != nil {
		return err
	}
	for _, info := range v.indexes.List() {
		if !emit(&messages.SnapshotRow{Row: &messages.SnapshotRow_Index{Index: info}}) {
			return err
		}
	}
	for _, s := range v.samples {
		if !emit(&messages.SnapshotRow{Row: &messages.SnapshotRow_Sample{Sample: &messages.RevisionSample{
			Revision: s.revision, ClockMs: s.clockMs,
		}}}) {
			return err
		}
	}
	v.auth.EachRow(v.auditID, func(row *messages.SnapshotAuth) bool {
		return emit(&messages.SnapshotRow{Row: &messages.SnapshotRow_Auth{Auth: row}})
	})
	for _, r := range v.audit {
		if err != nil {
			break
		}
		emit(&messages.SnapshotRow{Row: &messages.SnapshotRow_Audit{Audit: r}})
	}
	return err
}

func (v *View) header() *messages.SnapshotHeader {
	return &messages.SnapshotHeader{
		SchemaVersion:   messages.SnapshotVersion,
		ClusterId:       v.global.clusterID,
		Incarnation:     v.global.incarnation,
		AppliedIndex:    v.applied,
		Revision:        v.kv.Revision(),
		CompactRevision: v.kv.Compacted(),
		ClockMs:         v.clock.ms,
		ClockEpoch:      v.clock.epoch,
		ClockReplicaId:  v.clock.replica,
		ClockNonce:      v.clock.nonce,
		NextLeaseId:     v.global.nextLeaseID,
		NextSessionId:   v.global.nextSessionID,
		ApplyVersion:    v.global.applyVersion,
		Config:          v.config,
		Digest:          v.digest,
		CommandCount:    v.global.commandCount,
	}
}

func leaseToRow(row *leaseRow) *messages.SnapshotLease {
	return &messages.SnapshotLease{
		Id:         row.id,
		TtlMs:      row.ttlMs,
		DeadlineMs: row.deadlineMs,
		GrantedAt:  row.body.grantedAt,
		Anonymous:  row.anonymous,
		Metadata:   row.body.metadata,
		OwnerId:    row.body.owner,
		Renewals:   row.renewals,
		Alias:      row.body.alias,
		SessionId:  row.body.sessionID,
	}
}

// sessionToRows emits a session: one row, or, when its answers are large, several of
// the same id, of which the later ones only add answers.
func sessionToRows(id uint64, s *session, emit func(*messages.SnapshotRow) bool) bool {
	row := &messages.SnapshotSession{
		Id: id, LeaseId: s.leaseID, Label: s.label, LastSequence: s.last, Acknowledged: s.acknowledged,
	}
	bytes := 0
	for i, a := range s.answers {
		one := &messages.SnapshotSession_Answer{Sequence: s.number(i), Result: a.message()}
		if bytes += proto.Size(one); bytes > sessionRowBytes && len(row.Answers) > 0 {
			if !emit(&messages.SnapshotRow{Row: &messages.SnapshotRow_Session{Session: row}}) {
				return false
			}
			row, bytes = &messages.SnapshotSession{Id: id}, proto.Size(one)
		}
		row.Answers = append(row.Answers, one)
	}
	return emit(&messages.SnapshotRow{Row: &messages.SnapshotRow_Session{Session: row}})
}

func idempotencyToRow(e *idempotencyEntry) *messages.SnapshotIdempotency {
	row := &messages.SnapshotIdempotency{
		Key: e.key, RequestHash: e.requestHash, Fenced: e.fenced, RecordedAtMs: e.recordedAtMs, Order: e.order,
	}
	if !e.fenced {
		row.Result = e.answer.message()
	}
	return row
}
