package state

import "github.com/concord-kv/concord/messages"

// auditTable holds who did what, in the order of their ids. It is kept by retention of
// its own, by number and by age on the lease clock, which is the same on every replica.
type auditTable struct {
	// list only grows at its end and shrinks at its front, so that a view can share it;
	// the records never change.
	list   []*messages.AuditRecord
	next   uint64 // id of the next record
	digest uint64
}

func (t *auditTable) add(r *messages.AuditRecord) {
	t.list = append(t.list, r)
	t.digest += hashAudit(r)
}

func (t *auditTable) dropFirst() {
	t.digest -= hashAudit(t.list[0])
	t.list = t.list[1:]
}

// trim drops the oldest records beyond a number, and those that are too old.
func (t *auditTable) trim(most uint64, nowMs, ageMs int64) {
	for uint64(len(t.list)) > most || len(t.list) > 0 && nowMs-t.list[0].GetClockMs() >= ageMs {
		t.dropFirst()
	}
}

// trimAudit applies the retention of audit records.
func (m *Machine) trimAudit() {
	if len(m.audit.list) == 0 {
		return
	}
	most, ageMs := m.config.GetAuditRecordsMax(), m.config.GetAuditAgeMs()
	if most == 0 {
		most = messages.AuditRecordsDefault
	}
	if ageMs == 0 {
		ageMs = messages.AuditAgeDefaultMs
	}
	m.audit.trim(most, m.clock.ms, ageMs)
}

// recordAudit notes what came of a command that leaves an audit record. A command that
// will be resubmitted, and an answer that was given before, leave none.
func (m *Machine) recordAudit(c *messages.Command, r *messages.Result) {
	code := r.GetError().GetCode()
	if code == messages.Code_CODE_STALE_CLOCK || r.GetReplayed() || !m.Bootstrapped() {
		return
	}
	if a := c.GetRecordAudit(); a != nil {
		code = a.GetCode()
	}
	m.audit.add(&messages.AuditRecord{
		Id: m.audit.next, ClockMs: m.clock.ms, AtUnixMs: c.GetAudit().GetAtUnixMs(),
		Principal: c.GetPrincipal(), Address: c.GetAudit().GetAddress(),
		Action: c.GetAudit().GetAction(), Detail: c.GetAudit().GetDetail(),
		Code: code, Revision: m.kv.Revision(),
	})
	m.audit.next++
	m.trimAudit()
}

// NoteAudit adds an audit record to a state that is not served yet: of a restore.
func (m *Machine) NoteAudit(atUnixMs int64, action, detail string) {
	m.audit.add(&messages.AuditRecord{
		Id: m.audit.next, ClockMs: m.clock.ms, AtUnixMs: atUnixMs, Action: action, Detail: detail, Revision: m.kv.Revision(),
	})
	m.audit.next++
	m.trimAudit()
	m.view = nil
}

func hashAudit(r *messages.AuditRecord) uint64 {
	return newHash(tableAudit).u64(r.GetId()).i64(r.GetClockMs()).i64(r.GetAtUnixMs()).str(r.GetPrincipal()).
		str(r.GetAddress()).str(r.GetAction()).str(r.GetDetail()).u64(uint64(r.GetCode())).u64(r.GetRevision()).sum()
}

// authDigest covers users and audit; 0 where there have been none, as it was before
// there were any.
func (m *Machine) authDigest(authH, audit uint64) uint64 {
	if m.auth.Empty() && m.audit.next == 1 {
		return 0
	}
	return newHash(tableAudit).u64(authH).u64(audit).u64(m.audit.next).sum()
}
