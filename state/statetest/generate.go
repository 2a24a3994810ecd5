package statetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// Source makes the choices of a Generator: a random test, a fuzzer's bytes, or a
// seeded generator.
type Source interface {
	// Choose returns a number from 0 to n-1.
	Choose(n int) int
}

// Generator makes log entries that reach every rule, good and bad ones. It looks at
// a Twin that has applied what it made before, to name what exists.
type Generator struct {
	Source Source
	Twin   *Twin
	// Big lets some values be large enough to meet the quota and the size of answers.
	Big bool
	// VersionMax is the highest apply version that the log begins with or is raised to; 0
	// is messages.ApplyVersion.
	VersionMax uint32

	now     int64
	claims  uint64
	sent    []*messages.Command // numbered or keyed writes, to deliver again
	counter int
}

// Begin returns the entries of a cluster's first moments.
func (g *Generator) Begin() []*messages.Entry {
	config := messages.DefaultClusterConfig()
	config.LeaseTtlMinMs = 100
	if g.one(4) {
		config = g.config()
	}
	return []*messages.Entry{
		{Commands: []*messages.Command{{Op: &messages.Command_Bootstrap{Bootstrap: &messages.Bootstrap{
			ClusterId: []byte("cluster"), Incarnation: 1, Config: config, ApplyVersion: g.version(),
		}}}}},
		{Commands: []*messages.Command{g.claim(0)}},
	}
}

func (g *Generator) version() uint32 {
	most := g.VersionMax
	if most == 0 {
		most = messages.ApplyVersion
	}
	return uint32(1 + g.n(int(most)))
}

func (g *Generator) claim(epoch uint64) *messages.Command {
	g.claims++
	return &messages.Command{Op: &messages.Command_ClaimClock{ClaimClock: &messages.ClaimClock{
		ExpectedEpoch: epoch, ReplicaId: 1 + g.claims%3, Nonce: 100 + g.claims,
	}}}
}

// Entry returns the next entry of the log.
func (g *Generator) Entry() *messages.Entry {
	t := g.Twin
	e := &messages.Entry{Epoch: t.Epoch, ReplicaId: t.Replica, Nonce: t.Nonce}
	if g.one(20) {
		g.now = t.Clock
		epoch := t.Epoch
		if g.one(4) {
			epoch--
		}
		e.Commands = append(e.Commands, g.claim(epoch))
		return e
	}
	if g.one(25) { // a leader that was deposed
		e.Epoch, e.Nonce = e.Epoch-1, e.Nonce-1
	}
	for range 1 + g.n(3) {
		// Now and then a stamp behind the clock, as a slow leader's may be.
		g.now = max(0, max(g.now, t.Clock)+[]int64{0, 0, 1, 50, 400, 1000, 3000, -200}[g.n(8)])
		c := g.command()
		c.StampMs = g.now
		e.Commands = append(e.Commands, c)
	}
	return e
}

// command returns a command, perhaps numbered or keyed, perhaps one from before.
func (g *Generator) command() *messages.Command {
	if len(g.sent) > 0 && g.one(6) {
		c := proto.Clone(g.sent[g.n(len(g.sent))]).(*messages.Command)
		if g.one(5) { // another request under the same key
			c.RequestHash = hash(fmt.Sprint("other", g.n(100)))
		}
		return c
	}
	c := g.operation()
	switch c.Op.(type) {
	case *messages.Command_Tick, *messages.Command_ExpireLeases, *messages.Command_StepIndex, *messages.Command_ReportConsumers,
		*messages.Command_KeepAliveLease, *messages.Command_OpenSession, *messages.Command_CloseSession, *messages.Command_ResolveIdempotency:
		return c
	}
	if ids := slices.Sorted(maps.Keys(g.Twin.Sessions)); len(ids) > 0 && g.one(3) {
		c.SessionId = ids[g.n(len(ids))]
		s := g.Twin.Sessions[c.SessionId]
		c.Sequence = s.Last + 1
		if g.one(8) {
			c.Sequence = uint64(g.n(int(s.Last)+3)) + 1
		}
		if g.one(2) {
			c.Acknowledged = min(uint64(g.n(int(s.Last)+1)), c.Sequence-1)
		}
		if g.one(20) {
			c.SessionId += uint64(g.n(3))
		}
	}
	if g.one(6) {
		g.counter++
		c.IdempotencyKey = fmt.Sprintf("request %d", g.counter%12)
		c.RequestHash = hash(fmt.Sprint(g.counter))
	}
	if c.SessionId != 0 || c.IdempotencyKey != "" {
		g.sent = append(g.sent, c)
	}
	return c
}

func hash(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

func (g *Generator) operation() *messages.Command {
	switch g.n(24) {
	case 0, 1, 2, 3, 4, 5:
		return &messages.Command{Op: &messages.Command_Put{Put: g.put()}}
	case 6:
		m := &messages.PutMany{}
		for range 1 + g.n(4) {
			m.Puts = append(m.Puts, g.put())
		}
		return &messages.Command{Op: &messages.Command_PutMany{PutMany: m}}
	case 7, 8:
		return &messages.Command{Op: &messages.Command_Delete{Delete: &messages.Delete{Selector: g.Selector(), PrevKv: g.one(2)}}}
	case 9:
		return &messages.Command{Op: &messages.Command_Touch{Touch: g.touch()}}
	case 10, 11, 12:
		return &messages.Command{Op: &messages.Command_Txn{Txn: g.txn()}}
	case 13:
		return &messages.Command{Op: &messages.Command_GrantLease{GrantLease: &messages.GrantLease{
			TtlMs: g.ttl(), Alias: uint64(g.n(4)), Metadata: g.metadata(),
		}}}
	case 14:
		k := &messages.KeepAliveLease{LeaseId: g.lease()}
		if g.one(3) {
			k.NewTtlMs = g.ttl()
		}
		return &messages.Command{Op: &messages.Command_KeepAliveLease{KeepAliveLease: k}}
	case 15:
		return &messages.Command{Op: &messages.Command_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: g.lease()}}}
	case 16, 17:
		return &messages.Command{Op: &messages.Command_ExpireLeases{ExpireLeases: g.expire()}}
	case 18, 19:
		return &messages.Command{Op: &messages.Command_Tick{Tick: &messages.Tick{}}}
	case 20:
		if g.one(3) {
			return &messages.Command{Op: &messages.Command_CloseSession{CloseSession: &messages.CloseSession{SessionId: 1 + uint64(g.n(int(g.Twin.NextSession)))}}}
		}
		return &messages.Command{Op: &messages.Command_OpenSession{OpenSession: &messages.OpenSession{TtlMs: g.ttl(), Label: "s"}}}
	case 21:
		return &messages.Command{Op: &messages.Command_ResolveIdempotency{ResolveIdempotency: &messages.ResolveIdempotency{
			Key: fmt.Sprintf("request %d", g.n(12)), Fence: g.one(3),
		}}}
	case 22:
		return g.consumers()
	}
	return g.operator()
}

// consumers are cursors and reports.
func (g *Generator) consumers() *messages.Command {
	name := []string{"c1", "c2", "c3"}[g.n(3)]
	switch g.n(5) {
	case 0, 1:
		return &messages.Command{Op: &messages.Command_OpenCursor{OpenCursor: &messages.OpenCursor{Name: name, LeaseId: g.lease(), AfterRevision: g.Revision()}}}
	case 2:
		return &messages.Command{Op: &messages.Command_CheckpointCursor{CheckpointCursor: &messages.CheckpointCursor{Name: name, AfterRevision: g.Revision()}}}
	case 3:
		return &messages.Command{Op: &messages.Command_CloseCursor{CloseCursor: &messages.CloseCursor{Name: name}}}
	}
	return &messages.Command{Op: &messages.Command_ReportConsumers{ReportConsumers: &messages.ReportConsumers{
		ReplicaId: uint64(g.n(3)), LeaseId: g.lease(), AfterRevision: g.Revision(), Active: !g.one(4),
	}}}
}

// operator is what operators and their tools do.
func (g *Generator) operator() *messages.Command {
	name := []string{"i1", "i2"}[g.n(2)]
	switch g.n(9) {
	case 0, 1:
		return &messages.Command{Op: &messages.Command_Compact{Compact: &messages.Compact{Revision: g.Revision()}}}
	case 2, 3:
		s := &messages.SetConfig{Config: g.config()}
		names := []string{
			"protected_prefixes", "protected_prefixes", "leases_max", "lease_keys_max", "retention_revisions", "retention_ms", "consumer_lag_max", "quota_bytes",
			"idempotency_entries_max", "idempotency_age_ms", "sessions_max", "session_answers_max", "cursors_max", "indexes_max",
		}
		for range 1 + g.n(3) {
			s.Fields = append(s.Fields, names[g.n(len(names))])
		}
		return &messages.Command{Op: &messages.Command_SetConfig{SetConfig: s}}
	case 4, 5:
		return &messages.Command{Op: &messages.Command_CreateIndex{CreateIndex: &messages.CreateIndex{Definition: &messages.IndexDefinition{
			Name: name, Prefix: []byte([]string{"", "a", "a/"}[g.n(3)]), Extractor: g.extractor(),
		}}}}
	case 6:
		return &messages.Command{Op: &messages.Command_DropIndex{DropIndex: &messages.DropIndex{Name: name}}}
	case 7:
		return &messages.Command{Op: &messages.Command_RaiseApplyVersion{RaiseApplyVersion: &messages.RaiseApplyVersion{
			Version: g.version(),
		}}}
	}
	return &messages.Command{Op: &messages.Command_StepIndex{StepIndex: &messages.StepIndex{Name: name, ExpectedCursor: g.bytes(10, nil, []byte("a"))}}}
}

// config returns a configuration in which limits are met soon.
func (g *Generator) config() *messages.ClusterConfig {
	c := messages.DefaultClusterConfig()
	c.LeaseTtlMinMs = 100
	c.LeasesMax = uint64(2 + g.n(8))
	c.LeaseKeysMax = uint64(1 + g.n(4))
	c.RetentionRevisions = uint64(1 + g.n(30))
	c.RetentionMs = int64(1000 + g.n(20_000))
	c.ConsumerLagMax = uint64(1 + g.n(20))
	c.QuotaBytes = uint64(1<<20 + g.n(1<<20))
	c.IdempotencyEntriesMax = uint64(1 + g.n(6))
	c.IdempotencyAgeMs = int64(1000 + g.n(10_000))
	c.SessionsMax = uint64(1 + g.n(3))
	c.SessionAnswersMax = uint64(1 + g.n(4))
	c.CursorsMax = uint64(1 + g.n(2))
	c.IndexesMax = uint64(g.n(3))
	for range g.n(3) {
		c.ProtectedPrefixes = append(c.ProtectedPrefixes, &messages.ProtectedPrefix{Prefix: []byte([]string{"a", "a/", "b", "\xff"}[g.n(4)])})
	}
	if g.one(2) { // as Bootstrap leaves them: sorted, each once
		c.ProtectedPrefixes = nil
	}
	return c
}

func (g *Generator) put() *messages.Put {
	p := &messages.Put{Key: g.Key(), Value: g.value(), PrevKv: g.one(2)}
	switch g.n(8) {
	case 0, 1:
		p.LeaseId = g.lease()
	case 2:
		p.TtlMs = g.ttl()
	case 3:
		p.IgnoreLease = true
	}
	if g.one(3) {
		p.ContentType = "application/json"
	}
	if g.one(6) {
		p.Metadata = g.metadata()
	}
	if g.one(10) {
		p.IgnoreValue, p.Value = true, nil
	}
	return p
}

func (g *Generator) touch() *messages.Touch { return &messages.Touch{Key: g.Key(), TtlMs: g.ttl()} }

func (g *Generator) txn() *messages.Txn {
	t := &messages.Txn{}
	for range g.n(3) {
		t.Compares = append(t.Compares, g.compare())
	}
	for range g.n(5) {
		t.Success = append(t.Success, g.txnOp())
	}
	for range g.n(4) {
		t.Failure = append(t.Failure, g.txnOp())
	}
	return t
}

func (g *Generator) txnOp() *messages.TxnOp {
	switch g.n(6) {
	case 0, 1:
		get := &messages.TxnGet{Selector: g.Selector(), Limit: uint32(1 + g.n(4)), KeysOnly: g.one(4), CountOnly: g.one(5), Descending: g.one(3)}
		return &messages.TxnOp{Op: &messages.TxnOp_Get{Get: get}}
	case 2, 3:
		return &messages.TxnOp{Op: &messages.TxnOp_Put{Put: g.put()}}
	case 4:
		return &messages.TxnOp{Op: &messages.TxnOp_Delete{Delete: &messages.Delete{Selector: g.Selector(), PrevKv: g.one(2)}}}
	}
	return &messages.TxnOp{Op: &messages.TxnOp_Touch{Touch: g.touch()}}
}

func (g *Generator) compare() *messages.Compare {
	c := &messages.Compare{Key: g.Key(), Operator: messages.CompareOperator(1 + g.n(6))}
	switch g.n(9) {
	case 0:
		c.Target = &messages.Compare_Exists{Exists: g.one(2)}
	case 1:
		c.Operator = messages.CompareOperator(1 + g.n(2))
		c.Target = &messages.Compare_Value{Value: &messages.Compare_NullableBytes{Null: g.one(3), Value: g.value()}}
	case 2, 3:
		c.Target = &messages.Compare_Field_{Field: &messages.Compare_Field{
			Extractor: g.extractor(), Json: g.bytes(20, []byte("{"), []byte("1"), []byte("1.0"), []byte(`"x"`), []byte("null"), []byte("[1,2]"), []byte("true")),
		}}
	case 4:
		c.Target = &messages.Compare_Version{Version: uint64(g.n(4))}
	case 5:
		c.Target = &messages.Compare_CreateRevision{CreateRevision: g.Revision()}
	case 6:
		c.Target = &messages.Compare_ModRevision{ModRevision: g.Revision()}
	case 7:
		c.Operator = messages.CompareOperator(1 + g.n(2))
		c.Target = &messages.Compare_LeaseId{LeaseId: g.lease()}
	case 8:
		c.Target = &messages.Compare_TtlMs{TtlMs: &messages.Compare_NullableInt64{Null: g.one(3), Value: g.ttl()}}
	}
	return c
}

func (g *Generator) expire() *messages.ExpireLeases {
	e := &messages.ExpireLeases{}
	for _, id := range slices.Sorted(maps.Keys(g.Twin.Leases)) {
		if l := g.Twin.Leases[id]; l.Deadline <= g.Twin.Clock+1000 && !g.one(4) {
			e.Pairs = append(e.Pairs, &messages.ExpireLeases_Pair{LeaseId: id, Renewals: l.Renewals})
		}
	}
	if g.one(3) {
		e.Pairs = append(e.Pairs, &messages.ExpireLeases_Pair{LeaseId: g.lease(), Renewals: uint64(g.n(2))})
	}
	return e
}

// Key returns one of a few keys.
func (g *Generator) Key() []byte {
	keys := []string{"a", "a/1", "a/2", "a/3", "b", "b/1", "a\xff", "\xff", "\xff\xff1", "c"}
	return []byte(keys[g.n(len(keys))])
}

// Selector returns a selector that matches some of them.
func (g *Generator) Selector() *messages.Selector {
	switch g.n(5) {
	case 0, 1:
		return &messages.Selector{By: &messages.Selector_Key{Key: g.Key()}}
	case 2:
		return &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte([]string{"", "a", "a/", "\xff", "b", "x"}[g.n(6)])}}
	case 3:
		lo, hi := g.Key(), g.Key()
		if string(lo) > string(hi) {
			lo, hi = hi, lo
		}
		if string(lo) == string(hi) {
			hi = nil
		}
		return &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: lo, End: hi}}}
	}
	return &messages.Selector{By: &messages.Selector_Prefix{Prefix: g.Key()}}
}

// Revision returns a revision around those that can be read.
func (g *Generator) Revision() uint64 {
	t := g.Twin
	switch g.n(6) {
	case 0:
		return t.Revision
	case 1:
		return t.Compacted
	case 2:
		return uint64(g.n(int(t.Revision) + 3))
	}
	return t.Compacted + uint64(g.n(int(t.Revision-t.Compacted)+1))
}

func (g *Generator) lease() uint64 {
	t := g.Twin
	if ids := slices.Sorted(maps.Keys(t.Leases)); len(ids) > 0 && !g.one(6) {
		return ids[g.n(len(ids))]
	}
	return uint64(g.n(int(t.NextLease) + 2))
}

func (g *Generator) ttl() int64 {
	return []int64{100, 500, 1000, 1000, 2000, 5000, 20_000, 50, 0, messages.LeaseTTLMaxMs + 1}[g.n(g.rarely(7, 10))]
}

func (g *Generator) value() []byte {
	if g.Big && g.one(12) {
		return bytes.Repeat([]byte("x"), 200_000+g.n(300_000))
	}
	return g.bytes(0, []byte("v"), nil, []byte("1"), []byte("1.0"), []byte(`{"f":1,"g":{"h":[1,"x"]}}`), []byte(`{"f":[1,1,2]}`),
		[]byte(`{"f":"x"}`), []byte("[3,null,true]"), []byte(`"x"`), []byte("null"), []byte("{"), []byte("9007199254740993"))
}

func (g *Generator) metadata() []*messages.MetadataEntry {
	m := []*messages.MetadataEntry{{Name: "m", Value: []byte("1")}, {Name: "n"}}
	if g.one(8) {
		m[1].Name = "a" // not sorted
	}
	return m[:1+g.n(2)]
}

func (g *Generator) extractor() *messages.Extractor {
	switch g.n(5) {
	case 0:
		return &messages.Extractor{By: &messages.Extractor_Identity{Identity: true}}
	case 1, 2:
		return &messages.Extractor{By: &messages.Extractor_Field{Field: "f"}}
	case 3:
		return &messages.Extractor{By: &messages.Extractor_Path_{Path: &messages.Extractor_Path{Names: []string{"g", "h"}}}}
	}
	return &messages.Extractor{By: &messages.Extractor_Element{Element: uint32(g.n(3))}}
}

// bytes returns one of the choices; the first with odds of rare to one, if rare is
// not 0.
func (g *Generator) bytes(rare int, choices ...[]byte) []byte {
	if rare > 0 {
		if g.one(rare) {
			return choices[0]
		}
		choices = choices[1:]
	}
	return choices[g.n(len(choices))]
}

func (g *Generator) n(n int) int { return g.Source.Choose(n) }

// one is true once in n.
func (g *Generator) one(n int) bool { return g.n(n) == n-1 }

// rarely returns low, and high once in fifteen.
func (g *Generator) rarely(low, high int) int {
	if g.one(15) {
		return high
	}
	return low
}
