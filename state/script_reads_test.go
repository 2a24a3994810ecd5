package state_test

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

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
