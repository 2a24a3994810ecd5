package state_test

import (
	"bytes"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

func (s *script) table() map[string]func(*line) string {
	return map[string]func(*line) string{
		// time and ownership
		"wait":      func(l *line) string { s.nowMs += l.millis(l.word(0)); return "" },
		"at":        func(l *line) string { s.nowMs = l.millis(l.word(0)); return "" },
		"clock":     func(*line) string { return millis(s.machine.ClockMs()) },
		"fresh":     s.fresh,
		"bootstrap": s.bootstrap,
		"versions":  s.versions,
		"claim":     s.claim,
		"stale":     s.runStale,
		"tick":      s.tick,
		// writes
		"put":      s.put,
		"put_many": s.putMany,
		"fill":     s.fill,
		"delete":   s.delete,
		"touch":    s.touch,
		"txn":      s.txn,
		// leases and sessions
		"grant": s.grant, "keep_alive": s.keepAlive, "revoke": s.revoke, "expire": s.expire, "due": s.due, "sweep_leases": s.sweepLeases,
		"open_session": s.openSession, "close_session": s.closeSession, "resolve": s.resolve,
		// operators
		"compact": s.compact, "config": s.config, "show_config": s.showConfig, "raise": s.raise,
		"open_cursor": s.openCursor, "checkpoint": s.checkpoint, "close_cursor": s.closeCursor, "cursors": s.cursors, "report": s.report,
		"create_index": s.createIndex, "drop_index": s.dropIndex, "step_index": s.stepIndex, "lookup": s.lookup, "indexes": s.indexes,
		// reads
		"events": func(*line) string { return s.lastEvents },
		"get":    s.get, "get_many": s.getMany, "list": s.list, "history": s.history, "changes": s.changes,
		"info": s.info, "leases": s.leases, "status": s.status, "revision": s.revision,
		// snapshots
		"reload": s.reload,
	}
}

func (s *script) bootstrap(l *line) string {
	config := messages.DefaultClusterConfig()
	config.LeaseTtlMinMs = 100
	return formatResult(s.apply(l, &messages.Command{Op: &messages.Command_Bootstrap{Bootstrap: &messages.Bootstrap{
		ClusterId: []byte("cluster"), Incarnation: 1, ApplyVersion: uint32(l.number("version", messages.ApplyVersion)), Config: config,
	}}}), "")
}

func (s *script) claim(l *line) string {
	epoch, _, _ := s.machine.ClockOwner()
	s.claims++
	r := s.apply(l, &messages.Command{Op: &messages.Command_ClaimClock{ClaimClock: &messages.ClaimClock{
		ExpectedEpoch: l.number("expected", epoch), ReplicaId: l.number("replica", 1), Nonce: s.claims,
	}}})
	return formatResult(r, "epoch %d clock %s", r.GetClaimClock().GetEpoch(), millis(r.GetClaimClock().GetClockMs()))
}

// runStale runs the rest of the line as a leader that was deposed would.
func (s *script) runStale(l *line) string {
	s.stale = true
	defer func() { s.stale = false }()
	rest := *l
	rest.verb, rest.words = l.word(0), l.words[1:]
	return s.verbs[rest.verb](&rest)
}

func (s *script) tick(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_Tick{Tick: &messages.Tick{}}})
	return formatResult(r, "compacted %d", s.machine.CompactRevision())
}

func (l *line) put() *messages.Put {
	p := &messages.Put{
		Key: []byte(l.word(0)), LeaseId: l.number("lease", 0), TtlMs: l.millis(l.option("ttl", "")), Metadata: l.metadata(),
		PrevKv: l.flags["prev"], IgnoreValue: l.flags["ignore_value"], IgnoreLease: l.flags["ignore_lease"],
	}
	if !p.IgnoreValue {
		p.Value = []byte(l.word(1))
	}
	if t := l.option("type", ""); t != "" {
		p.ContentType = "application/" + t
	}
	return p
}

func prevOf(p *messages.PutResult) string {
	if p.GetPrev() == nil {
		return ""
	}
	return "was " + formatRecord(p.GetPrev())
}

func (s *script) put(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_Put{Put: l.put()}})
	if was := prevOf(r.GetPut()); was != "" {
		return formatResult(r, "%s", was)
	}
	return formatResult(r, "")
}

func (s *script) putMany(l *line) string {
	m := &messages.PutMany{}
	for _, b := range l.body {
		b.words = append([]string{unquote(b.verb)}, b.words...)
		m.Puts = append(m.Puts, b.put())
	}
	r := s.apply(l, &messages.Command{Op: &messages.Command_PutMany{PutMany: m}})
	var was []string
	for i, p := range r.GetPutMany().GetPuts() {
		if w := prevOf(p); w != "" {
			was = append(was, fmt.Sprintf("%d %s", i, w))
		}
	}
	if len(was) > 0 {
		return formatResult(r, "%s", strings.Join(was, "; "))
	}
	return formatResult(r, "")
}

// fill puts count keys prefix00000, prefix00001, ... in as few commands as it takes.
func (s *script) fill(l *line) string {
	count, from := int(l.number("count", 0)), int(l.number("from", 0))
	var r *messages.Result
	for done := 0; done < count; {
		m := &messages.PutMany{}
		for len(m.Puts) < messages.PutManyPutsMax && done < count {
			m.Puts = append(m.Puts, &messages.Put{
				Key: fmt.Appendf(nil, "%s%05d", l.word(0), from+done), Value: []byte(l.option("value", "")), LeaseId: l.number("lease", 0),
			})
			done++
		}
		if r = s.apply(l, &messages.Command{Op: &messages.Command_PutMany{PutMany: m}}); r.Error != nil {
			break
		}
	}
	return formatResult(r, "")
}

func (s *script) delete(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_Delete{Delete: &messages.Delete{Selector: l.selector(0), PrevKv: l.flags["prev"]}}})
	d := r.GetDelete()
	if len(d.GetPrev()) > 0 {
		return formatResult(r, "deleted %d was %s", d.GetDeleted(), formatRecords(d.GetPrev()))
	}
	return formatResult(r, "deleted %d", d.GetDeleted())
}

func (s *script) touch(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_Touch{Touch: &messages.Touch{Key: []byte(l.word(0)), TtlMs: l.millis(l.word(1))}}})
	return formatResult(r, "left %s", millis(r.GetTouch().GetRemainingTtlMs()))
}

func (s *script) txn(l *line) string {
	t := &messages.Txn{}
	for _, b := range l.body {
		switch b.verb {
		case "if":
			t.Compares = append(t.Compares, b.compare())
		case "then":
			t.Success = append(t.Success, b.txnOp())
		case "else":
			t.Failure = append(t.Failure, b.txnOp())
		default:
			l.bad = "if, then or else, not " + b.verb
		}
		if b.bad != "" {
			l.bad = b.bad
		}
	}
	r := s.apply(l, &messages.Command{Op: &messages.Command_Txn{Txn: t}})
	var b strings.Builder
	fmt.Fprintf(&b, "%v", r.GetTxn().GetSucceeded())
	for _, o := range r.GetTxn().GetResponses() {
		b.WriteString("; ")
		switch a := o.Answer.(type) {
		case *messages.TxnOpResult_Get:
			fmt.Fprintf(&b, "got %d of %d: %s", len(a.Get.Records), a.Get.Count, formatRecords(a.Get.Records))
			if a.Get.HasMore {
				b.WriteString(" more")
			}
		case *messages.TxnOpResult_Put:
			b.WriteString(strings.TrimRight("put "+prevOf(a.Put), " "))
		case *messages.TxnOpResult_Delete:
			fmt.Fprintf(&b, "deleted %d", a.Delete.Deleted)
			if len(a.Delete.Prev) > 0 {
				b.WriteString(" was " + formatRecords(a.Delete.Prev))
			}
		case *messages.TxnOpResult_Touch:
			fmt.Fprintf(&b, "left %s", millis(a.Touch.RemainingTtlMs))
		}
	}
	return formatResult(r, "%s", b.String())
}

var operators = map[string]messages.CompareOperator{"==": 1, "!=": 2, "<": 3, "<=": 4, ">": 5, ">=": 6}

// compare reads "if KEY TARGET OPERATOR VALUE".
func (l *line) compare() *messages.Compare {
	c := &messages.Compare{Key: []byte(l.word(0)), Operator: operators[l.word(2)]}
	value := l.word(3)
	number := func() uint64 { return l.parseNumber(value) }
	switch l.word(1) {
	case "exists":
		c.Target = &messages.Compare_Exists{Exists: value == "true"}
	case "value":
		c.Target = &messages.Compare_Value{Value: &messages.Compare_NullableBytes{Null: value == "null", Value: []byte(value)}}
	case "json":
		c.Target = &messages.Compare_Field_{Field: &messages.Compare_Field{Extractor: l.extractor(), Json: []byte(value)}}
	case "version":
		c.Target = &messages.Compare_Version{Version: number()}
	case "created":
		c.Target = &messages.Compare_CreateRevision{CreateRevision: number()}
	case "modified":
		c.Target = &messages.Compare_ModRevision{ModRevision: number()}
	case "lease":
		c.Target = &messages.Compare_LeaseId{LeaseId: number()}
	case "ttl":
		n := &messages.Compare_NullableInt64{Null: value == "null"}
		if !n.Null {
			n.Value = l.millis(value)
		}
		c.Target = &messages.Compare_TtlMs{TtlMs: n}
	}
	return c
}

func (l *line) txnOp() *messages.TxnOp {
	verb := l.word(0)
	l.words = l.words[1:]
	switch verb {
	case "get":
		return &messages.TxnOp{Op: &messages.TxnOp_Get{Get: &messages.TxnGet{
			Selector: l.selector(0), Limit: uint32(l.number("limit", 0)), KeysOnly: l.flags["keys_only"], CountOnly: l.flags["count_only"], Descending: l.flags["descending"],
		}}}
	case "put":
		return &messages.TxnOp{Op: &messages.TxnOp_Put{Put: l.put()}}
	case "delete":
		return &messages.TxnOp{Op: &messages.TxnOp_Delete{Delete: &messages.Delete{Selector: l.selector(0), PrevKv: l.flags["prev"]}}}
	case "touch":
		return &messages.TxnOp{Op: &messages.TxnOp_Touch{Touch: &messages.Touch{Key: []byte(l.word(0)), TtlMs: l.millis(l.word(1))}}}
	}
	l.bad = "no operation " + verb
	return &messages.TxnOp{}
}

func (s *script) grant(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_GrantLease{GrantLease: &messages.GrantLease{
		TtlMs: l.millis(l.word(0)), Alias: l.number("alias", 0), Metadata: l.metadata(),
	}}})
	return formatResult(r, "lease %d ttl %s", r.GetGrantLease().GetLeaseId(), millis(r.GetGrantLease().GetTtlMs()))
}

func (s *script) keepAlive(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLease{
		LeaseId: l.parseNumber(l.word(0)), NewTtlMs: l.millis(l.option("ttl", "")),
	}}})
	k := r.GetKeepAliveLease()
	return formatResult(r, "ttl %s left %s", millis(k.GetTtlMs()), millis(k.GetRemainingTtlMs()))
}

func (s *script) revoke(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: l.parseNumber(l.word(0))}}})
	return formatResult(r, "deleted %d", r.GetRevokeLease().GetKeysDeleted())
}

// expire names pairs: lease:renewals.
func (s *script) expire(l *line) string {
	e := &messages.ExpireLeases{}
	for _, w := range l.words {
		id, renewals, _ := strings.Cut(w, ":")
		e.Pairs = append(e.Pairs, &messages.ExpireLeases_Pair{LeaseId: l.parseNumber(id), Renewals: l.parseNumber(renewals)})
	}
	return formatExpired(s.apply(l, &messages.Command{Op: &messages.Command_ExpireLeases{ExpireLeases: e}}))
}

func formatExpired(r *messages.Result) string {
	x := r.GetExpireLeases()
	return formatResult(r, "expired %d skipped %d deleted %d", x.GetExpired(), x.GetSkipped(), x.GetKeysDeleted())
}

func (s *script) due(l *line) string {
	pairs, next := s.machine.Due(s.nowMs, int(l.number("limit", 50)))
	var parts []string
	for _, p := range pairs {
		parts = append(parts, fmt.Sprintf("%d:%d", p.LeaseId, p.Renewals))
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	return fmt.Sprintf("%s next %s", strings.Join(parts, " "), millis(next))
}

// sweepLeases proposes what is due, as the leader does.
func (s *script) sweepLeases(l *line) string {
	pairs, _ := s.machine.Due(s.nowMs, messages.ExpireLeasesMax)
	return formatExpired(s.apply(l, &messages.Command{Op: &messages.Command_ExpireLeases{ExpireLeases: &messages.ExpireLeases{Pairs: pairs}}}))
}

func (s *script) openSession(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_OpenSession{OpenSession: &messages.OpenSession{TtlMs: l.millis(l.word(0))}}})
	o := r.GetOpenSession()
	return formatResult(r, "session %d lease %d ttl %s", o.GetSessionId(), o.GetLeaseId(), millis(o.GetTtlMs()))
}

func (s *script) closeSession(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_CloseSession{CloseSession: &messages.CloseSession{SessionId: l.parseNumber(l.word(0))}}})
	return formatResult(r, "deleted %d", r.GetCloseSession().GetKeysDeleted())
}

func (s *script) resolve(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_ResolveIdempotency{ResolveIdempotency: &messages.ResolveIdempotency{
		Key: l.word(0), Fence: l.flags["fence"],
	}}})
	a := r.GetResolveIdempotency()
	stage := strings.ToLower(strings.TrimPrefix(a.GetState().String(), "STATE_"))
	if a.GetResult() != nil {
		return formatResult(r, "%s: %s", stage, formatResult(a.Result, ""))
	}
	return formatResult(r, "%s", stage)
}

func (s *script) compact(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_Compact{Compact: &messages.Compact{Revision: l.parseNumber(l.word(0))}}})
	return formatResult(r, "compacted %d", r.GetCompact().GetCompactRevision())
}

// config sets name=value; protected_prefixes takes a list.
func (s *script) config(l *line) string {
	c := &messages.SetConfig{Config: &messages.ClusterConfig{}}
	m := c.Config.ProtoReflect()
	c.Fields = append(c.Fields, l.words...) // names without a value
	for name, value := range l.options {
		if name == "as" {
			continue
		}
		c.Fields = append(c.Fields, name)
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		switch {
		case fd == nil:
		case fd.IsList():
			for p := range strings.SplitSeq(value, ",") {
				c.Config.ProtectedPrefixes = append(c.Config.ProtectedPrefixes, &messages.ProtectedPrefix{Prefix: []byte(p)})
			}
		case fd.Kind() == protoreflect.Int64Kind:
			m.Set(fd, protoreflect.ValueOfInt64(l.millis(value)))
		default:
			m.Set(fd, protoreflect.ValueOfUint64(l.parseNumber(value)))
		}
	}
	return formatResult(s.apply(l, &messages.Command{Op: &messages.Command_SetConfig{SetConfig: c}}), "")
}

func (s *script) showConfig(l *line) string {
	reply, refused := s.query(&messages.Query{Query: &messages.Query_Config{Config: &messages.ConfigRequest{}}})
	if refused != "" {
		return refused
	}
	fd := reply.GetConfig().Config.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(l.word(0)))
	if !fd.IsList() {
		return reply.GetConfig().Config.ProtoReflect().Get(fd).String()
	}
	var parts []string
	for _, p := range reply.GetConfig().Config.ProtectedPrefixes {
		parts = append(parts, fmt.Sprintf("%s from %d", p.Prefix, p.Floor))
	}
	return strings.Join(parts, "; ")
}

// fresh begins with a machine that nothing has happened to.
func (s *script) fresh(*line) string {
	s.machine = state.New()
	return ""
}

func (s *script) versions(*line) string {
	current, supported := s.machine.ApplyVersion()
	return fmt.Sprintf("%d of %d", current, supported)
}

func (s *script) raise(l *line) string {
	return formatResult(s.apply(l, &messages.Command{Op: &messages.Command_RaiseApplyVersion{RaiseApplyVersion: &messages.RaiseApplyVersion{
		Version: uint32(l.parseNumber(l.word(0))),
	}}}), "")
}

func (s *script) openCursor(l *line) string {
	return s.cursorCommand(l, &messages.Command{Op: &messages.Command_OpenCursor{OpenCursor: &messages.OpenCursor{
		Name: l.word(0), LeaseId: l.number("lease", 0), AfterRevision: l.number("after", 0),
	}}})
}

func (s *script) checkpoint(l *line) string {
	return s.cursorCommand(l, &messages.Command{Op: &messages.Command_CheckpointCursor{CheckpointCursor: &messages.CheckpointCursor{
		Name: l.word(0), AfterRevision: l.number("after", 0),
	}}})
}

func (s *script) closeCursor(l *line) string {
	return s.cursorCommand(l, &messages.Command{Op: &messages.Command_CloseCursor{CloseCursor: &messages.CloseCursor{Name: l.word(0)}}})
}

func (s *script) cursorCommand(l *line, c *messages.Command) string {
	r := s.apply(l, c)
	if r.Error != nil {
		return formatResult(r, "")
	}
	return formatResult(r, "%s", formatCursor(r.GetCursor().GetCursor()))
}

func (s *script) cursors(*line) string {
	reply, refused := s.query(&messages.Query{Query: &messages.Query_CursorList{CursorList: &messages.CursorListRequest{}}})
	var parts []string
	for _, c := range reply.GetCursorList().GetCursors() {
		parts = append(parts, formatCursor(c))
	}
	if len(parts) == 0 {
		return "nothing" + refused
	}
	return strings.Join(parts, "; ")
}

func (s *script) report(l *line) string {
	return formatResult(s.apply(l, &messages.Command{Op: &messages.Command_ReportConsumers{ReportConsumers: &messages.ReportConsumers{
		ReplicaId: l.parseNumber(l.word(0)), LeaseId: l.number("lease", 0), AfterRevision: l.number("after", 0), Active: !l.flags["inactive"],
	}}}), "")
}

func (s *script) createIndex(l *line) string {
	return s.indexCommand(l, &messages.Command{Op: &messages.Command_CreateIndex{CreateIndex: &messages.CreateIndex{
		Definition: &messages.IndexDefinition{Name: l.word(0), Prefix: []byte(l.option("prefix", "")), Extractor: l.extractor()},
	}}})
}

func (s *script) dropIndex(l *line) string {
	return s.indexCommand(l, &messages.Command{Op: &messages.Command_DropIndex{DropIndex: &messages.DropIndex{Name: l.word(0)}}})
}

func (s *script) stepIndex(l *line) string {
	return s.indexCommand(l, &messages.Command{Op: &messages.Command_StepIndex{StepIndex: &messages.StepIndex{
		Name: l.word(0), ExpectedCursor: []byte(l.option("cursor", "")),
	}}})
}

func (s *script) indexCommand(l *line, c *messages.Command) string {
	r := s.apply(l, c)
	if r.Error != nil {
		return formatResult(r, "")
	}
	return formatResult(r, "%s", formatIndex(r.GetIndex().GetIndex()))
}

func (s *script) indexes(*line) string {
	reply, _ := s.query(&messages.Query{Query: &messages.Query_IndexList{IndexList: &messages.IndexListRequest{}}})
	var parts []string
	for _, i := range reply.GetIndexList().GetIndexes() {
		parts = append(parts, formatIndex(i))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

func (s *script) lookup(l *line) string {
	q := &messages.IndexLookupRequest{
		Name: l.word(0), EqualJson: []byte(l.option("equal", "")), MinJson: []byte(l.option("min", "")), MaxJson: []byte(l.option("max", "")),
		Limit: uint32(l.number("limit", 0)), KeysOnly: l.flags["keys_only"],
	}
	pages := []string{}
	for {
		reply, refused := s.query(&messages.Query{Query: &messages.Query_IndexLookup{IndexLookup: q}})
		if refused != "" {
			return refused
		}
		pages = append(pages, formatRecords(reply.GetIndexLookup().Records))
		if !reply.GetIndexLookup().HasMore {
			return strings.Join(pages, " | ")
		}
		q.After = reply.GetIndexLookup().After
	}
}

func (s *script) get(l *line) string {
	reply, refused := s.query(&messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte(l.word(0)), Revision: l.number("rev", 0)}}})
	if refused != "" {
		return refused
	}
	return formatRecord(reply.GetGet().Record)
}

func (s *script) getMany(l *line) string {
	q := &messages.GetManyRequest{Revision: l.number("rev", 0)}
	for _, k := range l.words {
		q.Keys = append(q.Keys, []byte(k))
	}
	reply, refused := s.query(&messages.Query{Query: &messages.Query_GetMany{GetMany: q}})
	if refused != "" {
		return refused
	}
	answer := formatRecords(reply.GetGetMany().Records)
	if reply.GetGetMany().HasMore {
		answer += " more"
	}
	return answer
}

func (s *script) list(l *line) string {
	q := &messages.ListRequest{
		Selector: l.selector(0), Revision: l.number("rev", 0), Limit: uint32(l.number("limit", 0)), AfterKey: []byte(l.option("after", "")),
		KeysOnly: l.flags["keys_only"], CountOnly: l.flags["count_only"], Descending: l.flags["descending"],
		ModRevisionMin: l.number("mod_min", 0), ModRevisionMax: l.number("mod_max", 0),
		CreateRevisionMin: l.number("create_min", 0), CreateRevisionMax: l.number("create_max", 0),
	}
	reply, refused := s.query(&messages.Query{Query: &messages.Query_List{List: q}})
	if refused != "" {
		return refused
	}
	a := reply.GetList()
	if q.CountOnly {
		return fmt.Sprintf("count %d at %d", a.Count, a.Revision)
	}
	answer := formatRecords(a.Records)
	if l.flags["keys_only"] || len(a.Records) > 8 {
		answer = fmt.Sprintf("%d keys", len(a.Records))
		if n := len(a.Records); n > 0 {
			answer += fmt.Sprintf(" %s to %s", text(a.Records[0].Key), text(a.Records[n-1].Key))
		}
	}
	if a.HasMore {
		answer += fmt.Sprintf(" more after %s at %d", text(a.LastKey), a.Revision)
	}
	return answer
}

func (s *script) history(l *line) string {
	q := &messages.HistoryRequest{
		Key: []byte(l.word(0)), FromRevision: l.number("from", 0), ToRevision: l.number("to", 0), Limit: uint32(l.number("limit", 0)), NewestFirst: l.flags["newest_first"],
	}
	if after := l.option("after", ""); after != "" {
		revision, op, _ := strings.Cut(after, ".")
		q.After = &messages.Position{Revision: l.parseNumber(revision), OpIndex: uint32(l.parseNumber(op))}
	}
	reply, refused := s.query(&messages.Query{Query: &messages.Query_History{History: q}})
	if refused != "" {
		return refused
	}
	answer := formatEventList(reply.GetHistory().Versions)
	if h := reply.GetHistory(); h.HasMore {
		answer += fmt.Sprintf(" more after %d.%d", h.Next.Revision, h.Next.OpIndex)
	}
	return answer
}

// changes reads after a position R or R.op; R alone is the end of R.
func (s *script) changes(l *line) string {
	revision, op, split := strings.Cut(l.option("after", "0"), ".")
	q := &messages.ChangesRequest{
		Selector: l.selector(0), After: &messages.Position{Revision: l.parseNumber(revision), OpIndex: messages.PositionOpIndexEnd},
		Limit: uint32(l.number("limit", 0)), KeysOnly: l.flags["keys_only"], PrevKv: l.flags["prev"],
	}
	if split {
		q.After.OpIndex = uint32(l.parseNumber(op))
	}
	for kind := range strings.SplitSeq(l.option("types", ""), ",") {
		if n, ok := messages.EventType_value["EVENT_TYPE_"+strings.ToUpper(kind)]; ok {
			q.Types = append(q.Types, messages.EventType(n))
		}
	}
	reply, refused := s.query(&messages.Query{Query: &messages.Query_Changes{Changes: q}})
	if refused != "" {
		return refused
	}
	a := reply.GetChanges()
	answer := formatEventList(a.Events)
	next := fmt.Sprint(a.Next.Revision)
	if a.Next.OpIndex != messages.PositionOpIndexEnd {
		next += fmt.Sprintf(".%d", a.Next.OpIndex)
	}
	answer += " next " + next
	if a.HasMore {
		answer += " more"
	}
	return answer
}

func (s *script) info(l *line) string {
	q := &messages.LeaseInfoRequest{Alias: l.number("alias", 0), Keys: true}
	if q.Alias == 0 {
		q.LeaseId = l.parseNumber(l.word(0))
	}
	reply, refused := s.query(&messages.Query{Query: &messages.Query_LeaseInfo{LeaseInfo: q}})
	if refused != "" {
		return refused
	}
	return formatLease(reply.GetLeaseInfo().Lease)
}

func (s *script) leases(l *line) string {
	reply, refused := s.query(&messages.Query{Query: &messages.Query_LeaseList{LeaseList: &messages.LeaseListRequest{
		IncludeAnonymous: l.flags["anonymous"], Limit: uint32(l.number("limit", 0)), AfterLeaseId: l.number("after", 0),
	}}})
	if refused != "" {
		return refused
	}
	var parts []string
	for _, i := range reply.GetLeaseList().Leases {
		parts = append(parts, formatLease(i))
	}
	answer := strings.Join(parts, "; ")
	if len(parts) == 0 {
		answer = "nothing"
	}
	if reply.GetLeaseList().HasMore {
		answer += " more"
	}
	return answer
}

func (s *script) status(*line) string {
	a := s.machine.View().Status()
	return fmt.Sprintf("rev %d compacted %d clock %s epoch %d keys %d leases %d sessions %d events %d bytes %d",
		a.Revision, a.CompactRevision, millis(a.ClockMs), a.ClockEpoch, a.Keys, a.Leases, a.Sessions, a.HistoryEvents, a.LogicalBytes)
}

func (s *script) revision(*line) string {
	reply, _ := s.query(&messages.Query{Query: &messages.Query_Revision{Revision: &messages.RevisionRequest{}}})
	return fmt.Sprintf("rev %d compacted %d", reply.GetRevisionReply().Revision, reply.GetRevisionReply().CompactRevision)
}

// reload saves the machine and goes on with what is loaded.
func (s *script) reload(*line) string {
	var file bytes.Buffer
	if err := s.machine.View().Save(&file); err != nil {
		return err.Error()
	}
	m, err := state.Load(&file)
	if err != nil {
		return err.Error()
	}
	if m.Digest() != s.machine.Digest() || m.FullDigest() != m.Digest() {
		return "another digest"
	}
	s.machine = m
	return "equal"
}
