package state_test

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

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
