package state_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

func formatResult(r *messages.Result, extra string, args ...any) string {
	var b strings.Builder
	if r.Error != nil {
		b.WriteString(formatError(r.Error))
	} else {
		fmt.Fprintf(&b, "rev %d", r.Revision)
		if extra != "" {
			fmt.Fprintf(&b, " "+extra, args...)
		}
	}
	if r.Replayed {
		b.WriteString(" replayed")
	}
	return b.String()
}

func formatError(e *messages.ErrorDetail) string {
	var b strings.Builder
	fmt.Fprintf(&b, "error %s", messages.CodeName(e.Code))
	if e.Outcome != messages.Outcome_OUTCOME_NOT_APPLIED {
		fmt.Fprintf(&b, " outcome=%s", messages.OutcomeName(e.Outcome))
	}
	if e.OpIndex != nil {
		fmt.Fprintf(&b, " op=%d", *e.OpIndex)
	}
	if e.Field != "" {
		fmt.Fprintf(&b, " field=%s", e.Field)
	}
	for _, n := range []struct {
		name  string
		value uint64
	}{{"compacted", e.CompactRevision}, {"current", e.CurrentRevision}, {"lease", e.LeaseId}, {"limit", e.Limit}} {
		if n.value != 0 {
			fmt.Fprintf(&b, " %s=%d", n.name, n.value)
		}
	}
	return b.String()
}

func formatRecord(r *messages.Record) string {
	if r == nil {
		return "none"
	}
	if r.Version == 0 {
		if r.ModRevision == 0 {
			return text(r.Key) + " none"
		}
		return fmt.Sprintf("%s gone @%d", text(r.Key), r.ModRevision)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s=%s @%d v%d", text(r.Key), text(r.Value), r.ModRevision, r.Version)
	if r.CreateRevision != r.ModRevision {
		fmt.Fprintf(&b, " created=%d", r.CreateRevision)
	}
	if r.LeaseId != 0 {
		fmt.Fprintf(&b, " lease=%d", r.LeaseId)
	}
	if r.RemainingTtlMs != nil {
		fmt.Fprintf(&b, " ttl=%s", millis(*r.RemainingTtlMs))
	}
	if r.ContentType != "" {
		fmt.Fprintf(&b, " type=%s", strings.TrimPrefix(r.ContentType, "application/"))
	}
	for i, m := range r.Metadata {
		b.WriteString([]string{" meta=", ","}[min(i, 1)] + m.Name + ":" + string(m.Value))
	}
	return b.String()
}

func formatRecords(list []*messages.Record) string {
	if len(list) == 0 {
		return "nothing"
	}
	var parts []string
	for _, r := range list {
		parts = append(parts, formatRecord(r))
	}
	return strings.Join(parts, "; ")
}

func formatEvent(e *messages.Event) string {
	cause := strings.ToLower(strings.TrimPrefix(e.Cause.String(), "EVENT_CAUSE_"))
	var what string
	if e.Type == messages.EventType_EVENT_TYPE_DELETE {
		what = text(e.Record.Key)
	} else {
		what = fmt.Sprintf("%s=%s v%d", text(e.Record.Key), text(e.Record.Value), e.Record.Version)
	}
	s := fmt.Sprintf("%d.%d %s %s", e.Revision, e.OpIndex, cause, what)
	if e.Prev != nil {
		s += " was " + text(e.Prev.Value)
	}
	return s
}

func formatEventList(list []*messages.Event) string {
	if len(list) == 0 {
		return "nothing"
	}
	const most = 12
	if len(list) > most {
		return fmt.Sprintf("%d events", len(list))
	}
	var parts []string
	for _, e := range list {
		parts = append(parts, formatEvent(e))
	}
	return strings.Join(parts, "; ")
}

func formatEvents(e *state.Effects) string {
	var list []*messages.Event
	for _, one := range e.Events {
		list = append(list, one.Proto(false, true))
	}
	return formatEventList(list)
}

func formatLease(l *messages.LeaseInfo) string {
	s := fmt.Sprintf("lease %d ttl %s left %s granted_at %d keys %d", l.Id, millis(l.TtlMs), millis(l.RemainingTtlMs), l.GrantedAt, l.KeyCount)
	for i, k := range l.Keys {
		s += []string{" ", ","}[min(i, 1)] + text(k)
	}
	if l.Renewals != 0 {
		s += fmt.Sprintf(" renewals %d", l.Renewals)
	}
	if l.Anonymous {
		s += " anonymous"
	}
	if l.Alias != 0 {
		s += fmt.Sprintf(" alias %d", l.Alias)
	}
	if l.SessionId != 0 {
		s += fmt.Sprintf(" session %d", l.SessionId)
	}
	for i, m := range l.Metadata {
		s += []string{" meta=", ","}[min(i, 1)] + m.Name + ":" + string(m.Value)
	}
	return s
}

func formatIndex(i *messages.IndexInfo) string {
	stage := "ready"
	if i.Building {
		stage = fmt.Sprintf("building at %q", i.Cursor)
	}
	return fmt.Sprintf("index %s %s entries %d", i.Definition.Name, stage, i.Entries)
}

func formatCursor(c *messages.CursorInfo) string {
	s := fmt.Sprintf("cursor %s lease %d after %d", c.Name, c.LeaseId, c.AfterRevision)
	if !c.Counted {
		s += " not counted"
	}
	return s
}

// text shows bytes: long ones by their number, odd ones as \xNN.
func text(b []byte) string {
	const most = 40
	if len(b) > most {
		return fmt.Sprintf("@%d", len(b))
	}
	var s strings.Builder
	for _, c := range b {
		if c < ' ' || c >= 0x7F {
			fmt.Fprintf(&s, `\x%02x`, c)
		} else {
			s.WriteByte(c)
		}
	}
	return s.String()
}

func millis(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
