package statetest

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
)

func (t *Twin) operate(c *messages.Command) (*messages.Result, *messages.Error) {
	switch op := c.Op.(type) {
	case *messages.Command_Put:
		prev, err := t.put(op.Put)
		if err != nil {
			return nil, err
		}
		return &messages.Result{Answer: &messages.Result_Put{Put: putResult(op.Put, prev)}}, nil
	case *messages.Command_PutMany:
		return t.putMany(op.PutMany)
	case *messages.Command_Delete:
		d, err := t.delete(op.Delete, &budget{})
		return &messages.Result{Answer: &messages.Result_Delete{Delete: d}}, err
	case *messages.Command_Touch:
		left, err := t.touch(op.Touch)
		return &messages.Result{Answer: &messages.Result_Touch{Touch: &messages.TouchResult{RemainingTtlMs: left}}}, err
	case *messages.Command_Txn:
		return t.txn(op.Txn)
	case *messages.Command_GrantLease:
		return t.grant(op.GrantLease)
	case *messages.Command_KeepAliveLease:
		return t.keepAlive(op.KeepAliveLease)
	case *messages.Command_RevokeLease:
		l := t.Leases[op.RevokeLease.LeaseId]
		if l == nil || l.Anonymous {
			return nil, t.named(messages.NewError(messages.Code_CODE_LEASE_NOT_FOUND, "").WithLease(op.RevokeLease.LeaseId), "lease_id")
		}
		n := t.end(l, messages.EventCause_EVENT_CAUSE_REVOKED)
		return &messages.Result{Answer: &messages.Result_RevokeLease{RevokeLease: &messages.RevokeLeaseResult{KeysDeleted: n}}}, nil
	case *messages.Command_ExpireLeases:
		return t.expire(op.ExpireLeases)
	case *messages.Command_OpenSession:
		return t.openSession(op.OpenSession)
	case *messages.Command_CloseSession:
		s := t.Sessions[op.CloseSession.SessionId]
		if s == nil {
			return nil, messages.NewError(messages.Code_CODE_SESSION_EXPIRED, "").WithField("session_id")
		}
		n := t.end(t.Leases[s.Lease], messages.EventCause_EVENT_CAUSE_REVOKED)
		return &messages.Result{Answer: &messages.Result_CloseSession{CloseSession: &messages.CloseSessionResult{KeysDeleted: n}}}, nil
	case *messages.Command_ResolveIdempotency:
		return t.resolve(op.ResolveIdempotency), nil
	case *messages.Command_CreateIndex, *messages.Command_DropIndex, *messages.Command_StepIndex:
		return t.index(c)
	case *messages.Command_OpenCursor:
		return t.openCursor(op.OpenCursor)
	case *messages.Command_CheckpointCursor:
		return t.checkpoint(op.CheckpointCursor)
	case *messages.Command_CloseCursor:
		k, err := t.cursor(op.CloseCursor.Name)
		if err != nil {
			return nil, err
		}
		delete(t.Cursors, op.CloseCursor.Name)
		return t.cursorResult(op.CloseCursor.Name, k), nil
	case *messages.Command_ReportConsumers:
		return nil, t.report(op.ReportConsumers)
	case *messages.Command_Compact:
		if op.Compact.Revision > t.Revision {
			return nil, t.future("revision")
		}
		t.compact(op.Compact.Revision)
		return &messages.Result{Answer: &messages.Result_Compact{Compact: &messages.CompactResult{CompactRevision: t.Compacted}}}, nil
	case *messages.Command_SetConfig:
		return t.setConfig(op.SetConfig)
	case *messages.Command_Tick:
		t.tick()
		return nil, nil
	case *messages.Command_RaiseApplyVersion:
		if op.RaiseApplyVersion.Version < t.ApplyVersion {
			return nil, messages.InvalidField("version", "")
		}
		t.ApplyVersion = op.RaiseApplyVersion.Version
		return &messages.Result{Answer: &messages.Result_Config{Config: &messages.ConfigResult{Config: t.Config}}}, nil
	}
	panic(fmt.Sprintf("%T", c.Op))
}

// named names the field at fault, which version 1 did not do.
func (t *Twin) named(e *messages.Error, field string) *messages.Error {
	if t.ApplyVersion > 1 {
		e = e.WithField(field)
	}
	return e
}

func (t *Twin) putMany(p *messages.PutMany) (*messages.Result, *messages.Error) {
	out := &messages.PutManyResult{}
	b := &budget{}
	for i, one := range p.Puts {
		prev, err := t.put(one)
		if err == nil && one.PrevKv {
			err = b.must(prev)
		}
		if err != nil {
			return nil, under(err, "puts", i)
		}
		out.Puts = append(out.Puts, putResult(one, prev))
	}
	return &messages.Result{Answer: &messages.Result_PutMany{PutMany: out}}, nil
}

func putResult(p *messages.Put, prev *messages.Record) *messages.PutResult {
	if !p.PrevKv {
		prev = nil
	}
	return &messages.PutResult{Prev: prev}
}

func (t *Twin) put(p *messages.Put) (*messages.Record, *messages.Error) {
	key := string(p.Key) //nolint:staticcheck // used again below
	prev := t.Keys[key]
	if prev == nil && (p.IgnoreValue || p.IgnoreLease) {
		return nil, messages.NewError(messages.Code_CODE_KEY_NOT_FOUND, "").WithField("key")
	}
	var held *Lease
	if prev != nil && prev.LeaseId != 0 {
		held = t.Leases[prev.LeaseId]
	}
	r := &messages.Record{
		Key: p.Key, Value: p.Value, CreateRevision: t.Revision + 1, ModRevision: t.Revision + 1, Version: 1,
		ContentType: p.ContentType, Metadata: p.Metadata,
	}
	if prev != nil {
		r.CreateRevision, r.Version = prev.CreateRevision, prev.Version+1
	}
	if p.IgnoreValue {
		r.Value = prev.Value
		if p.ContentType == "" {
			r.ContentType = prev.ContentType
		}
		if len(p.Metadata) == 0 {
			r.Metadata = prev.Metadata
		}
	}
	switch {
	case p.IgnoreLease && held != nil:
		if t.dead(held) {
			return nil, unknownLease(held.ID)
		}
		r.LeaseId = held.ID
	case p.LeaseId != 0:
		l := t.usable(p.LeaseId)
		if l == nil {
			return nil, unknownLease(p.LeaseId)
		}
		if held != nil && held != l && !held.Anonymous {
			return nil, conflict(held.ID, "lease_id")
		}
		if held != l && uint64(len(t.keysOf(l.ID))) >= t.Config.LeaseKeysMax {
			return nil, messages.NewError(messages.Code_CODE_LEASE_KEY_LIMIT, "").WithField("lease_id").WithLease(l.ID).WithLimit(t.Config.LeaseKeysMax)
		}
		r.LeaseId = l.ID
	case p.TtlMs != 0:
		if held != nil && !held.Anonymous {
			return nil, conflict(held.ID, "ttl_ms")
		}
		n := len(t.Leases)
		if held != nil {
			n--
		}
		if uint64(n) >= t.Config.LeasesMax {
			return nil, t.leaseLimit()
		}
		r.LeaseId = t.NextLease
	}
	if err := t.room(r); err != nil {
		return nil, err
	}
	if held != nil && held.Anonymous && r.LeaseId != held.ID {
		delete(t.Leases, held.ID)
	}
	if p.TtlMs != 0 {
		t.newLease(&Lease{TTL: p.TtlMs, Anonymous: true})
	}
	t.write(r, messages.EventCause_EVENT_CAUSE_WRITTEN)
	return prev, nil
}

// room is the quota on bytes: a put counts its record, and 64 for the event.
func (t *Twin) room(r *messages.Record) *messages.Error {
	// What a staged record replaces counts once it is stored.
	staged, total := t.batch, uint64(0)
	for _, e := range staged {
		total += size(e.Record) + 64
	}
	stored := *t
	stored.batch = nil
	stored.Keys = t.before()
	if stored.bytes()+total+size(r)+64 > t.Config.QuotaBytes {
		return messages.NewError(messages.Code_CODE_NO_SPACE, "").WithLimit(t.Config.QuotaBytes)
	}
	return nil
}

// before returns the live keys as they were before the command.
func (t *Twin) before() map[string]*messages.Record {
	keys := map[string]*messages.Record{}
	for _, e := range t.Log {
		if e.Record.Version == 0 {
			delete(keys, string(e.Record.Key))
		} else {
			keys[string(e.Record.Key)] = e.Record
		}
	}
	return keys
}

func (t *Twin) delete(d *messages.Delete, b *budget) (*messages.DeleteResult, *messages.Error) {
	keys := t.selected(d.Selector)
	out := &messages.DeleteResult{Deleted: uint64(len(keys))}
	for _, k := range keys {
		r := t.Keys[k]
		if d.PrevKv {
			if err := b.must(r); err != nil {
				return nil, err
			}
			out.Prev = append(out.Prev, r)
		}
	}
	for _, k := range keys {
		if l := t.Leases[t.Keys[k].LeaseId]; l != nil && l.Anonymous {
			delete(t.Leases, l.ID)
		}
		t.remove(k, messages.EventCause_EVENT_CAUSE_DELETED)
	}
	return out, nil
}

func (t *Twin) touch(p *messages.Touch) (int64, *messages.Error) {
	prev := t.Keys[string(p.Key)]
	if prev == nil {
		return 0, messages.NewError(messages.Code_CODE_KEY_NOT_FOUND, "").WithField("key")
	}
	if l := t.Leases[prev.LeaseId]; l != nil {
		switch {
		case t.dead(l):
			return 0, unknownLease(l.ID)
		case !l.Anonymous:
			return 0, conflict(l.ID, "lease_id")
		}
		return t.renew(l, p.TtlMs), nil
	}
	if uint64(len(t.Leases)) >= t.Config.LeasesMax {
		return 0, t.leaseLimit()
	}
	r := proto.Clone(prev).(*messages.Record)
	r.ModRevision, r.Version, r.LeaseId = t.Revision+1, prev.Version+1, t.NextLease
	if err := t.room(r); err != nil {
		return 0, err
	}
	t.newLease(&Lease{TTL: p.TtlMs, Anonymous: true})
	t.write(r, messages.EventCause_EVENT_CAUSE_WRITTEN)
	return p.TtlMs, nil
}

func (t *Twin) newLease(l *Lease) *Lease {
	l.ID, l.Deadline, l.GrantedAt = t.NextLease, t.Clock+l.TTL, t.Revision
	t.NextLease++
	t.Leases[l.ID] = l
	return l
}

func (t *Twin) renew(l *Lease, ttl int64) (left int64) {
	l.TTL, l.Deadline = ttl, max(l.Deadline, t.Clock+ttl)
	l.Renewals++
	return l.Deadline - t.Clock
}

func (t *Twin) leaseLimit() *messages.Error {
	return t.named(messages.NewError(messages.Code_CODE_LEASE_LIMIT, "").WithLimit(t.Config.LeasesMax), "ttl_ms")
}

func (t *Twin) grant(g *messages.GrantLease) (*messages.Result, *messages.Error) {
	if uint64(len(t.Leases)) >= t.Config.LeasesMax {
		return nil, t.leaseLimit()
	}
	for _, l := range t.Leases {
		if g.Alias != 0 && l.Alias == g.Alias && !t.dead(l) {
			return nil, messages.NewError(messages.Code_CODE_ALIAS_EXISTS, "").WithField("alias").WithLease(l.ID)
		}
	}
	l := t.newLease(&Lease{TTL: g.TtlMs, Alias: g.Alias, Metadata: g.Metadata})
	return &messages.Result{Answer: &messages.Result_GrantLease{GrantLease: &messages.GrantLeaseResult{LeaseId: l.ID, TtlMs: l.TTL}}}, nil
}

func (t *Twin) keepAlive(k *messages.KeepAliveLease) (*messages.Result, *messages.Error) {
	l := t.usable(k.LeaseId)
	if l == nil {
		return nil, t.named(messages.NewError(messages.Code_CODE_LEASE_NOT_FOUND, "").WithLease(k.LeaseId), "lease_id")
	}
	ttl := l.TTL
	if k.NewTtlMs != 0 {
		ttl = k.NewTtlMs
	}
	left := t.renew(l, ttl)
	return &messages.Result{Answer: &messages.Result_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLeaseResult{
		LeaseId: l.ID, TtlMs: ttl, RemainingTtlMs: left,
	}}}, nil
}

// end deletes a lease's keys and forgets it and all that hangs on it.
func (t *Twin) end(l *Lease, cause messages.EventCause) (deleted uint64) {
	for _, k := range t.keysOf(l.ID) {
		t.remove(k, cause)
		deleted++
	}
	for name, c := range t.Cursors {
		if c.Lease == l.ID {
			delete(t.Cursors, name)
		}
	}
	for replica, c := range t.Reports {
		if c.Lease == l.ID {
			delete(t.Reports, replica)
		}
	}
	delete(t.Sessions, l.Session)
	delete(t.Leases, l.ID)
	return deleted
}

func (t *Twin) expire(e *messages.ExpireLeases) (*messages.Result, *messages.Error) {
	out := &messages.ExpireLeasesResult{}
	if len(e.Pairs) > messages.ExpireLeasesMax {
		return nil, messages.InvalidField("pairs", "").WithLimit(messages.ExpireLeasesMax)
	}
	for _, p := range e.Pairs {
		l := t.Leases[p.LeaseId]
		if l == nil || l.Renewals != p.Renewals || !t.dead(l) {
			continue
		}
		if out.KeysDeleted+uint64(len(t.keysOf(l.ID))) > messages.CommandKeysMax {
			break
		}
		out.KeysDeleted += t.end(l, messages.EventCause_EVENT_CAUSE_EXPIRED)
		out.Expired++
	}
	out.Skipped = uint32(len(e.Pairs)) - out.Expired
	return &messages.Result{Answer: &messages.Result_ExpireLeases{ExpireLeases: out}}, nil
}

func (t *Twin) openSession(o *messages.OpenSession) (*messages.Result, *messages.Error) {
	if uint64(len(t.Sessions)) >= t.Config.SessionsMax {
		return nil, t.named(messages.NewError(messages.Code_CODE_SESSION_LIMIT, "").WithLimit(t.Config.SessionsMax), "open_session")
	}
	if uint64(len(t.Leases)) >= t.Config.LeasesMax {
		return nil, t.leaseLimit()
	}
	id := t.NextSession
	t.NextSession++
	l := t.newLease(&Lease{TTL: o.TtlMs, Session: id})
	t.Sessions[id] = &Session{Lease: l.ID, Answers: map[uint64]*messages.Result{}}
	return &messages.Result{Answer: &messages.Result_OpenSession{OpenSession: &messages.OpenSessionResult{
		SessionId: id, LeaseId: l.ID, TtlMs: o.TtlMs,
	}}}, nil
}

func (t *Twin) resolve(q *messages.ResolveIdempotency) *messages.Result {
	a := &messages.ResolveIdempotencyResult{State: messages.ResolveIdempotencyResult_STATE_NOT_FOUND}
	switch o := t.findOnce(q.Key); {
	case o != nil && o.Fenced:
		a.State = messages.ResolveIdempotencyResult_STATE_FENCED
	case o != nil:
		a.State, a.Result = messages.ResolveIdempotencyResult_STATE_RECORDED, o.Result
	case q.Fence:
		t.remember(&Once{Key: q.Key, Fenced: true, At: t.Clock})
		a.State = messages.ResolveIdempotencyResult_STATE_FENCED
	}
	return &messages.Result{Answer: &messages.Result_ResolveIdempotency{ResolveIdempotency: a}}
}

func (t *Twin) index(c *messages.Command) (*messages.Result, *messages.Error) {
	var info *messages.IndexInfo
	missing := func(name string) *messages.Error {
		return t.named(messages.NewError(messages.Code_CODE_INDEX_NOT_FOUND, ""), "name")
	}
	switch op := c.Op.(type) {
	case *messages.Command_CreateIndex:
		d := op.CreateIndex.Definition
		if uint64(len(t.Indexes)) >= t.Config.IndexesMax {
			return nil, t.named(messages.NewError(messages.Code_CODE_INDEX_LIMIT, "").WithLimit(t.Config.IndexesMax), "definition")
		}
		if t.Indexes[d.Name] != nil {
			return nil, t.named(messages.NewError(messages.Code_CODE_INDEX_EXISTS, ""), "definition.name")
		}
		info = &messages.IndexInfo{Definition: d, Building: true, EntriesPerKeyMax: t.Config.IndexEntriesPerKeyMax, Engine: field.Engine}
		t.Indexes[d.Name] = info
	case *messages.Command_DropIndex:
		if info = t.Indexes[op.DropIndex.Name]; info == nil {
			return nil, missing(op.DropIndex.Name)
		}
		delete(t.Indexes, op.DropIndex.Name)
	case *messages.Command_StepIndex:
		if info = t.Indexes[op.StepIndex.Name]; info == nil {
			return nil, missing(op.StepIndex.Name)
		}
		if info.Building && string(info.Cursor) == string(op.StepIndex.ExpectedCursor) {
			info = proto.Clone(info).(*messages.IndexInfo)
			info.Building, info.Cursor = false, nil // never more keys than one step does
			t.Indexes[op.StepIndex.Name] = info
		}
	}
	return &messages.Result{Answer: &messages.Result_Index{Index: &messages.IndexResult{Index: t.indexInfo(info)}}}, nil
}

// indexInfo adds the number of entries.
func (t *Twin) indexInfo(info *messages.IndexInfo) *messages.IndexInfo {
	info = proto.Clone(info).(*messages.IndexInfo)
	info.Entries = uint64(len(t.entries(info)))
	return info
}

type entry struct {
	value field.Value
	key   string
}

// entries are all (value, key) pairs of an index, in order.
func (t *Twin) entries(info *messages.IndexInfo) (out []entry) {
	if info.Building {
		return nil
	}
	seen := map[entry]bool{}
	for _, k := range t.selected(&messages.Selector{By: &messages.Selector_Prefix{Prefix: info.Definition.Prefix}}) {
		r := t.Keys[k]
		field.ExtractEach(info.Definition.Extractor, r.ContentType, string(r.Value), int(info.EntriesPerKeyMax), func(v field.Value) {
			if e := (entry{v, k}); !seen[e] {
				seen[e] = true
				out = append(out, e)
			}
		})
	}
	slices.SortFunc(out, func(a, b entry) int {
		if c := field.Compare(a.value, b.value); c != 0 {
			return c
		}
		if a.key < b.key {
			return -1
		}
		return 1
	})
	return out
}

// budget is the size of an answer: 1 MiB, or one record.
type budget struct {
	n   uint64
	any bool
}

func (b *budget) fits(n uint64) bool {
	if b.any && b.n+n > messages.AnswerBytesMax {
		return false
	}
	b.any, b.n = true, b.n+n
	return true
}

func (b *budget) must(r *messages.Record) *messages.Error {
	if r == nil || b.fits(size(r)) {
		return nil
	}
	return messages.NewError(messages.Code_CODE_TOO_LARGE, "").WithField("prev_kv").WithLimit(messages.AnswerBytesMax)
}

func unknownLease(id uint64) *messages.Error {
	return messages.NewError(messages.Code_CODE_UNKNOWN_LEASE, "").WithField("lease_id").WithLease(id)
}

func conflict(id uint64, f string) *messages.Error {
	return messages.NewError(messages.Code_CODE_LEASE_CONFLICT, "").WithField(f).WithLease(id)
}

func under(err *messages.Error, list string, i int) *messages.Error {
	at := fmt.Sprintf("%s[%d]", list, i)
	if f := err.Detail.Field; f != "" {
		at += "." + f
	}
	return err.WithField(at)
}
