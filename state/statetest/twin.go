// Package statetest has a second state machine, written from the rules and made to
// be obviously right: maps and slices, whole copies instead of undoing, and the
// complete history, always. It is slow. What it answers to a sequence of commands is
// what state.Machine must answer.
package statetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// Twin is the naive machine. The zero value does not work: use NewTwin.
type Twin struct {
	ClusterID             []byte
	Incarnation           uint64
	ApplyVersion          uint32
	Clock                 int64
	Epoch, Replica, Nonce uint64
	Config                *messages.ClusterConfig

	Revision, Compacted uint64
	NextLease           uint64
	NextSession         uint64
	Keys                map[string]*messages.Record // live
	Log                 []*messages.Event           // all that ever happened, each with what it replaced
	Leases              map[uint64]*Lease
	Sessions            map[uint64]*Session
	Once                []*Once
	Cursors             map[string]*Consumer
	Reports             map[uint64]*Consumer
	Samples             []*messages.RevisionSample
	Indexes             map[string]*messages.IndexInfo

	batch []*messages.Event // of the command that runs
}

// Lease is a lease. Its keys are those whose records name it.
type Lease struct {
	ID, GrantedAt, Alias, Renewals, Session uint64
	TTL, Deadline                           int64
	Anonymous                               bool
	Metadata                                []*messages.MetadataEntry
}

// Session is an exactly-once session.
type Session struct {
	Lease, Last, Acknowledged uint64
	Answers                   map[uint64]*messages.Result
}

// Once is a recorded one-shot write.
type Once struct {
	Key    string
	Hash   []byte
	Fenced bool
	Result *messages.Result
	At     int64
}

// Consumer is a cursor or a report.
type Consumer struct{ Lease, After uint64 }

// NewTwin returns the state before the first command.
func NewTwin() *Twin {
	return &Twin{
		Config: messages.DefaultClusterConfig(), NextLease: 1, NextSession: 1,
		Keys: map[string]*messages.Record{}, Leases: map[uint64]*Lease{}, Sessions: map[uint64]*Session{},
		Cursors: map[string]*Consumer{}, Reports: map[uint64]*Consumer{}, Indexes: map[string]*messages.IndexInfo{},
	}
}

// Apply applies an entry.
func (t *Twin) Apply(e *messages.Entry) []*messages.Result {
	var results []*messages.Result
	for _, c := range e.Commands {
		results = append(results, t.command(e, c))
	}
	return results
}

func (t *Twin) command(e *messages.Entry, c *messages.Command) *messages.Result {
	switch op := c.Op.(type) {
	case *messages.Command_ClaimClock:
		return t.finish(t.claim(op.ClaimClock))
	case *messages.Command_Bootstrap:
		return t.finish(t.bootstrap(op.Bootstrap))
	}
	if t.Epoch == 0 || e.Epoch != t.Epoch || e.ReplicaId != t.Replica || e.Nonce != t.Nonce {
		return t.refuse(messages.NewError(messages.Code_CODE_STALE_CLOCK, ""))
	}
	t.Clock = max(t.Clock, c.StampMs)
	for len(t.Once) > 0 && t.Clock-t.Once[0].At >= t.Config.IdempotencyAgeMs {
		t.Once = t.Once[1:]
	}
	if len(t.ClusterID) == 0 {
		return t.refuse(messages.NewError(messages.Code_CODE_NOT_READY, ""))
	}
	switch c.Op.(type) {
	case *messages.Command_KeepAliveLease, *messages.Command_OpenSession, *messages.Command_CloseSession,
		*messages.Command_ResolveIdempotency:
		return t.atomically(c)
	}
	if c.SessionId != 0 {
		return t.inSession(c)
	}
	return t.once(c)
}

// inSession is the exactly-once rule: each number once and in order.
func (t *Twin) inSession(c *messages.Command) *messages.Result {
	s := t.Sessions[c.SessionId]
	if s == nil {
		return t.refuse(t.named(messages.UnknownOutcome(messages.Code_CODE_SESSION_EXPIRED, ""), "session_id"))
	}
	s.Acknowledged = max(s.Acknowledged, min(c.Acknowledged, s.Last))
	maps.DeleteFunc(s.Answers, func(n uint64, _ *messages.Result) bool { return n <= s.Acknowledged })
	switch {
	case c.Sequence <= s.Acknowledged:
		return t.refuse(t.named(messages.UnknownOutcome(messages.Code_CODE_OUT_OF_ORDER, ""), "sequence"))
	case c.Sequence <= s.Last:
		return replayed(s.Answers[c.Sequence])
	case c.Sequence > s.Last+1:
		return t.refuse(t.named(messages.NewError(messages.Code_CODE_OUT_OF_ORDER, ""), "sequence"))
	case t.dead(t.Leases[s.Lease]):
		return t.refuse(t.named(messages.NewError(messages.Code_CODE_SESSION_EXPIRED, ""), "session_id"))
	case uint64(len(s.Answers)) >= t.Config.SessionAnswersMax:
		return t.refuse(messages.NewError(messages.Code_CODE_OVERLOADED, "").WithField("acknowledged").WithLimit(t.Config.SessionAnswersMax))
	}
	r := t.once(c)
	if t.Sessions[c.SessionId] == s {
		s.Last++
		s.Answers[s.Last] = proto.Clone(r).(*messages.Result)
		s.Answers[s.Last].Replayed = false
	}
	return r
}

// once is the idempotency rule: each key once, as long as it is remembered.
func (t *Twin) once(c *messages.Command) *messages.Result {
	if c.IdempotencyKey == "" {
		return t.atomically(c)
	}
	if o := t.findOnce(c.IdempotencyKey); o != nil {
		switch {
		case o.Fenced:
			return t.refuse(messages.NewError(messages.Code_CODE_IDEMPOTENCY_FENCED, "").WithField("idempotency_key"))
		case !bytes.Equal(o.Hash, c.RequestHash):
			return t.refuse(messages.NewError(messages.Code_CODE_IDEMPOTENCY_CONFLICT, "").WithField("idempotency_key"))
		}
		return replayed(o.Result)
	}
	r := t.atomically(c)
	t.remember(&Once{Key: c.IdempotencyKey, Hash: c.RequestHash, Result: r, At: t.Clock})
	return r
}

func (t *Twin) findOnce(key string) *Once {
	for _, o := range t.Once {
		if o.Key == key {
			return o
		}
	}
	return nil
}

func (t *Twin) remember(o *Once) {
	for uint64(len(t.Once)) >= t.Config.IdempotencyEntriesMax {
		t.Once = t.Once[1:]
	}
	t.Once = append(t.Once, o)
}

func replayed(r *messages.Result) *messages.Result {
	c := proto.Clone(r).(*messages.Result)
	c.Replayed = true
	return c
}

// atomically runs an operation on a copy of the tables that it may change, and keeps
// the copy only if nothing was refused.
func (t *Twin) atomically(c *messages.Command) *messages.Result {
	if err := messages.ValidateOperation(c, t.Config); err != nil {
		return t.refuse(err)
	}
	saved := *t
	t.Keys, t.Cursors, t.Reports, t.Sessions, t.Indexes = maps.Clone(t.Keys), maps.Clone(t.Cursors), maps.Clone(t.Reports),
		maps.Clone(t.Sessions), maps.Clone(t.Indexes)
	t.Leases = map[uint64]*Lease{}
	for id, l := range saved.Leases {
		c := *l
		t.Leases[id] = &c
	}
	t.batch = nil
	answer, err := t.operate(c)
	if err != nil {
		*t = saved
		return t.refuse(err)
	}
	if len(t.batch) > 0 {
		t.Revision++
		t.Log = append(t.Log[:len(t.Log):len(t.Log)], t.batch...)
		t.batch = nil
	}
	return t.finish(answer, nil)
}

func (t *Twin) finish(r *messages.Result, err *messages.Error) *messages.Result {
	if err != nil {
		return t.refuse(err)
	}
	if r == nil {
		r = &messages.Result{}
	}
	r.Revision = t.Revision
	return r
}

func (t *Twin) refuse(err *messages.Error) *messages.Result {
	return &messages.Result{Revision: t.Revision, Error: err.Detail}
}

func (t *Twin) claim(c *messages.ClaimClock) (*messages.Result, *messages.Error) {
	if c.ReplicaId == 0 || c.Nonce == 0 {
		return nil, messages.InvalidField("nonce", "")
	}
	if c.ExpectedEpoch != t.Epoch {
		return nil, messages.NewError(messages.Code_CODE_CLAIM_REFUSED, "")
	}
	t.Epoch, t.Replica, t.Nonce = t.Epoch+1, c.ReplicaId, c.Nonce
	return &messages.Result{Answer: &messages.Result_ClaimClock{ClaimClock: &messages.ClaimClockResult{Epoch: t.Epoch, ClockMs: t.Clock}}}, nil
}

func (t *Twin) bootstrap(b *messages.Bootstrap) (*messages.Result, *messages.Error) {
	if len(t.ClusterID) > 0 {
		return nil, messages.NewError(messages.Code_CODE_ALREADY_BOOTSTRAPPED, "")
	}
	t.ClusterID, t.Incarnation, t.ApplyVersion = b.ClusterId, b.Incarnation, b.ApplyVersion
	if b.Config != nil {
		t.install(proto.Clone(b.Config).(*messages.ClusterConfig))
	}
	return &messages.Result{Answer: &messages.Result_Config{Config: &messages.ConfigResult{Config: t.Config}}}, nil
}

// dead reports that a lease is past its deadline, applied or not.
func (t *Twin) dead(l *Lease) bool { return t.Clock >= l.Deadline }

// usable returns a lease that a client may name now.
func (t *Twin) usable(id uint64) *Lease {
	if l := t.Leases[id]; l != nil && !l.Anonymous && !t.dead(l) {
		return l
	}
	return nil
}

// keysOf returns the keys of a lease, sorted.
func (t *Twin) keysOf(id uint64) (keys []string) {
	for k, r := range t.Keys {
		if r.LeaseId == id {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// selected returns the live keys that a selector names, sorted.
func (t *Twin) selected(s *messages.Selector) (keys []string) {
	for k := range t.Keys {
		if names(s, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// names reports whether a selector names a key.
func names(s *messages.Selector, key string) bool {
	switch by := s.By.(type) {
	case *messages.Selector_Key:
		return key == string(by.Key)
	case *messages.Selector_Prefix:
		return strings.HasPrefix(key, string(by.Prefix))
	case *messages.Selector_Range:
		return key >= string(by.Range.Start) && (len(by.Range.End) == 0 || key < string(by.Range.End))
	}
	panic(fmt.Sprintf("selector %v", s))
}

// write makes a record current, or deletes the key when record has version 0.
func (t *Twin) write(record *messages.Record, cause messages.EventCause) {
	key := string(record.Key)
	e := &messages.Event{
		Revision: t.Revision + 1, OpIndex: uint32(len(t.batch)), Type: messages.EventType_EVENT_TYPE_PUT,
		Cause: cause, Record: record, Prev: t.Keys[key],
	}
	if record.Version == 0 {
		e.Type = messages.EventType_EVENT_TYPE_DELETE
		delete(t.Keys, key)
	} else {
		t.Keys[key] = record
	}
	t.batch = append(t.batch, e)
}

// remove deletes a live key.
func (t *Twin) remove(key string, cause messages.EventCause) {
	t.write(&messages.Record{Key: []byte(key), CreateRevision: t.Keys[key].CreateRevision, ModRevision: t.Revision + 1}, cause)
}

// bytes is what the store holds, as the quota counts it.
func (t *Twin) bytes() (n uint64) {
	for _, r := range t.Keys {
		n += size(r)
	}
	last := map[string]*messages.Record{}
	for _, e := range append(slices.Clone(t.Log), t.batch...) {
		key := string(e.Record.Key)
		before := last[key]
		last[key] = e.Record
		if e.Revision > t.Compacted {
			n += 64
			if e.Record.Version == 0 {
				n += size(e.Record)
			}
			if e.Prev != nil {
				n += size(e.Prev)
			}
			continue
		}
		// What a protected prefix keeps: versions that were replaced after its floor.
		if floor, ok := t.floorOf(key); ok && e.Revision > floor && before != nil && (before.Version > 0 || before.ModRevision > floor) {
			n += size(before)
		}
	}
	return n
}

// floorOf returns the lowest floor of the protected prefixes of a key.
func (t *Twin) floorOf(key string) (floor uint64, ok bool) {
	for _, p := range t.Config.ProtectedPrefixes {
		if strings.HasPrefix(key, string(p.Prefix)) && (!ok || p.Floor < floor) {
			floor, ok = p.Floor, true
		}
	}
	return floor, ok
}

// size is what one record counts.
func size(r *messages.Record) uint64 {
	n := 64 + len(r.Key) + len(r.Value) + len(r.ContentType)
	for _, e := range r.Metadata {
		n += 4 + len(e.Name) + len(e.Value)
	}
	return uint64(n)
}
