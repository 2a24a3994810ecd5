package state

import (
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/snapfile"
	"github.com/concord-kv/concord/state/store"
)

// Each table of a view writes its rows in an order of its own, which is the same on
// every replica, until a row is not wanted any more.

// recordRows writes current records, history and change log. They are nearly all of a
// snapshot, so that they are encoded without a message for each.
func (v *View) recordRows(out *snapfile.Writer) (err error) {
	var encoded []byte
	v.kv.EachRow(func(kind store.RowKind, r store.Rec) bool {
		encoded = store.AppendRow(encoded[:0], kind, r)
		err = out.Encoded(snapfile.Table(kind), encoded)
		return err == nil
	})
	return err
}

func (v *View) leaseRows(write emit) {
	v.leases.scan(0, func(row *leaseRow) bool {
		return write(&messages.SnapshotRow{Row: &messages.SnapshotRow_Lease{Lease: leaseToRow(row)}})
	})
}

func (v *View) sessionRows(write emit) {
	v.sessions.Scan(func(s sessionRow) bool { return sessionToRows(s.id, s.session, write) })
}

func (v *View) idempotencyRows(write emit) {
	for _, e := range v.once {
		if !write(&messages.SnapshotRow{Row: &messages.SnapshotRow_Idempotency{Idempotency: idempotencyToRow(e)}}) {
			return
		}
	}
}

func (v *View) cursorRows(write emit) {
	v.cursors.Scan(func(c cursor) bool {
		info := &messages.CursorInfo{Name: c.name, LeaseId: c.leaseID, AfterRevision: c.after}
		return write(&messages.SnapshotRow{Row: &messages.SnapshotRow_Cursor{Cursor: &messages.SnapshotCursor{Cursor: info}}})
	})
}

func (v *View) reportRows(write emit) {
	v.reports.Scan(func(r report) bool {
		return write(&messages.SnapshotRow{Row: &messages.SnapshotRow_Report{Report: &messages.SnapshotReport{
			ReplicaId: r.replica, LeaseId: r.leaseID, AfterRevision: r.after,
		}}})
	})
}

func (v *View) indexRows(write emit) {
	for _, info := range v.indexes.List() {
		if !write(&messages.SnapshotRow{Row: &messages.SnapshotRow_Index{Index: info}}) {
			return
		}
	}
}

func (v *View) sampleRows(write emit) {
	for _, s := range v.samples {
		if !write(&messages.SnapshotRow{Row: &messages.SnapshotRow_Sample{Sample: &messages.RevisionSample{
			Revision: s.revision, ClockMs: s.clockMs,
		}}}) {
			return
		}
	}
}

func (v *View) authRows(write emit) {
	v.auth.EachRow(v.auditID, func(row *messages.SnapshotAuth) bool {
		return write(&messages.SnapshotRow{Row: &messages.SnapshotRow_Auth{Auth: row}})
	})
}

func (v *View) auditRows(write emit) {
	for _, r := range v.audit {
		if !write(&messages.SnapshotRow{Row: &messages.SnapshotRow_Audit{Audit: r}}) {
			return
		}
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

// sessionRowBytes is where a session's answers go on in another row.
const sessionRowBytes = 4 << 20

// sessionToRows writes a session: one row, or, when its answers are large, several of
// the same id, of which the later ones only add answers.
func sessionToRows(id uint64, s *session, write emit) bool {
	row := &messages.SnapshotSession{
		Id: id, LeaseId: s.leaseID, Label: s.label, LastSequence: s.last, Acknowledged: s.acknowledged,
	}
	bytes := 0
	for i, a := range s.answers {
		one := &messages.SnapshotSession_Answer{Sequence: s.number(i), Result: a.message()}
		if bytes += proto.Size(one); bytes > sessionRowBytes && len(row.Answers) > 0 {
			if !write(&messages.SnapshotRow{Row: &messages.SnapshotRow_Session{Session: row}}) {
				return false
			}
			row, bytes = &messages.SnapshotSession{Id: id}, proto.Size(one)
		}
		row.Answers = append(row.Answers, one)
	}
	return write(&messages.SnapshotRow{Row: &messages.SnapshotRow_Session{Session: row}})
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
