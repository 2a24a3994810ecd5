package statetest

import (
	"bytes"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

func (t *Twin) tick() {
	if n := len(t.Samples); n == 0 || t.Samples[n-1].Revision != t.Revision {
		t.Samples = append(slices.Clone(t.Samples), &messages.RevisionSample{Revision: t.Revision, ClockMs: t.Clock})
	}
	var to uint64
	if t.Revision > t.Config.RetentionRevisions {
		to = t.Revision - t.Config.RetentionRevisions
	}
	for _, s := range t.Samples {
		if t.Clock-s.ClockMs >= t.Config.RetentionMs {
			to = max(to, s.Revision)
		}
	}
	t.compact(to)
}

// compact moves C as far as the consumers let it.
func (t *Twin) compact(to uint64) {
	to = min(to, t.Revision)
	for _, c := range t.Cursors {
		if t.counted(c) {
			to = min(to, c.After)
		}
	}
	for _, c := range t.Reports {
		if t.counted(c) {
			to = min(to, c.After)
		}
	}
	t.Compacted = max(t.Compacted, to)
}

// counted reports whether compaction waits for a consumer.
func (t *Twin) counted(c *Consumer) bool {
	return c.After >= t.Compacted && t.Revision-c.After <= min(t.Config.ConsumerLagMax, math.MaxInt64)
}

func (t *Twin) cursor(name string) (*Consumer, *messages.Error) {
	if c := t.Cursors[name]; c != nil {
		return c, nil
	}
	return nil, messages.NewError(messages.Code_CODE_CURSOR_NOT_FOUND, "").WithField("name")
}

func (t *Twin) openCursor(o *messages.OpenCursor) (*messages.Result, *messages.Error) {
	switch {
	case t.Cursors[o.Name] != nil:
		return nil, messages.NewError(messages.Code_CODE_CURSOR_EXISTS, "").WithField("name")
	case uint64(len(t.Cursors)) >= t.Config.CursorsMax:
		return nil, t.named(messages.NewError(messages.Code_CODE_CURSOR_LIMIT, "").WithLimit(t.Config.CursorsMax), "name")
	case o.AfterRevision < t.Compacted:
		return nil, compacted("after_revision", t.Compacted)
	case o.AfterRevision > t.Revision:
		return nil, t.future("after_revision")
	case t.usable(o.LeaseId) == nil:
		return nil, unknownLease(o.LeaseId)
	}
	c := &Consumer{Lease: o.LeaseId, After: o.AfterRevision}
	t.Cursors[o.Name] = c
	return t.cursorResult(o.Name, c), nil
}

func (t *Twin) checkpoint(p *messages.CheckpointCursor) (*messages.Result, *messages.Error) {
	c, err := t.cursor(p.Name)
	switch {
	case err != nil:
		return nil, err
	case p.AfterRevision <= c.After:
		return t.cursorResult(p.Name, c), nil
	case p.AfterRevision < t.Compacted:
		return nil, compacted("after_revision", t.Compacted)
	case p.AfterRevision > t.Revision:
		return nil, t.future("after_revision")
	}
	c = &Consumer{Lease: c.Lease, After: p.AfterRevision}
	t.Cursors[p.Name] = c
	return t.cursorResult(p.Name, c), nil
}

func (t *Twin) cursorResult(name string, c *Consumer) *messages.Result {
	return &messages.Result{Answer: &messages.Result_Cursor{Cursor: &messages.CursorResult{Cursor: t.cursorInfo(name, c)}}}
}

func (t *Twin) cursorInfo(name string, c *Consumer) *messages.CursorInfo {
	return &messages.CursorInfo{Name: name, LeaseId: c.Lease, AfterRevision: c.After, Counted: t.counted(c)}
}

func (t *Twin) report(p *messages.ReportConsumers) *messages.Error {
	switch {
	case !p.Active:
		delete(t.Reports, p.ReplicaId)
		return nil
	case p.ReplicaId == 0:
		return messages.InvalidField("replica_id", "")
	case p.AfterRevision > t.Revision:
		return t.future("after_revision")
	case t.usable(p.LeaseId) == nil:
		return unknownLease(p.LeaseId)
	}
	t.Reports[p.ReplicaId] = &Consumer{Lease: p.LeaseId, After: p.AfterRevision}
	return nil
}

func (t *Twin) setConfig(s *messages.SetConfig) (*messages.Result, *messages.Error) {
	config := proto.Clone(t.Config).(*messages.ClusterConfig)
	messages.ApplyConfig(config, s)
	config = proto.Clone(config).(*messages.ClusterConfig)
	if err := messages.ValidateConfig(config); err != nil {
		return nil, err
	}
	t.install(config)
	return &messages.Result{Answer: &messages.Result_Config{Config: &messages.ConfigResult{Config: config}}}, nil
}

// install makes a configuration the current one. A prefix that was protected before
// keeps its floor; a new one begins at C.
func (t *Twin) install(config *messages.ClusterConfig) {
	var list []*messages.ProtectedPrefix
	for _, p := range config.ProtectedPrefixes {
		same := func(o *messages.ProtectedPrefix) bool { return bytes.Equal(o.Prefix, p.Prefix) }
		if slices.ContainsFunc(list, same) {
			continue
		}
		p.Floor = t.Compacted
		if i := slices.IndexFunc(t.Config.ProtectedPrefixes, same); i >= 0 {
			p.Floor = t.Config.ProtectedPrefixes[i].Floor
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *messages.ProtectedPrefix) int { return bytes.Compare(a.Prefix, b.Prefix) })
	config.ProtectedPrefixes = list
	t.Config = config
	if n := uint64(len(t.Once)); n > config.IdempotencyEntriesMax {
		t.Once = t.Once[n-config.IdempotencyEntriesMax:]
	}
}

func (t *Twin) future(f string) *messages.Error {
	err := messages.NewError(messages.Code_CODE_FUTURE_REVISION, "").WithField(f)
	err.Detail.CurrentRevision = t.Revision
	return err
}

func compacted(f string, c uint64) *messages.Error {
	err := messages.NewError(messages.Code_CODE_COMPACTED, "").WithField(f)
	err.Detail.CompactRevision = c
	return err
}
