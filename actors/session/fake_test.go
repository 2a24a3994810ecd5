package session

import (
	"fmt"
	"log/slog"

	"pgregory.net/rapid"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/auth"
)

// desk is a core on a desk: the test plays its client, replica, apply, hub and
// writer, and sees everything it says.
type desk struct {
	t    rapid.TB
	core *core
	node *fakeNode
	adm  *admission

	proposed []*messages.Propose
	barriers []*messages.ReadBarrier
	views    []*state.GetView
	hub      []any

	passwords []passwordAsked
	sent      []*messages.ServerMessage
	taken     int // how many of sent the client has looked at
	backlog   int64
	written   uint64
	low       int64
	woken     int
	closed    bool
	closing   bool
	held      bool
	reason    *messages.ErrorDetail
	nextCall  uint64
	nowMs     int64
	received  uint64
}

type passwordAsked struct {
	user     *messages.User
	password string
}

type fakeNode struct {
	facts  Facts
	auth   *auth.Table
	wallMs int64
}

func (n *fakeNode) Auth() *auth.Table { return n.auth }

func (n *fakeNode) Facts() Facts   { return n.facts }
func (n *fakeNode) Now() state.Now { return state.Now{ClockMs: 7, WallMs: 8 + n.wallMs} }

// newDesk returns a core that has said hello, unless raw.
func newDesk(t rapid.TB, limits Limits) *desk {
	d := rawDesk(t, limits)
	d.say(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: &messages.ClientHello{Protocol: 1, ClientEpoch: 42}}})
	if h := d.take().GetHello(); h.GetIncarnation() != 3 {
		t.Fatalf("hello: %v", h)
	}
	d.tick(0)
	return d
}

func rawDesk(t rapid.TB, limits Limits) *desk {
	d := &desk{t: t, low: -1, nowMs: 1_000, node: &fakeNode{facts: Facts{
		Ready: true, ClusterID: []byte("cluster"), Incarnation: 3, ReplicaID: 1, LeaderID: 2, LeaderEndpoint: "b:1", Version: "v",
	}}}
	cfg := Config{Node: d.node, Limits: limits}
	cfg.Limits.setDefaults()
	cfg.Telemetry, cfg.Logger = noTelemetry{}, slog.New(slog.DiscardHandler)
	d.adm = newAdmission(cfg.Limits)
	d.core = newCore(9, "alice", &cfg, d.adm, d)
	return d
}

func (d *desk) propose(m *messages.Propose)      { d.proposed = append(d.proposed, m) }
func (d *desk) barrier(m *messages.ReadBarrier)  { d.barriers = append(d.barriers, m) }
func (d *desk) getView(m *state.GetView)         { d.views = append(d.views, m) }
func (d *desk) tellHub(m any)                    { d.hub = append(d.hub, m) }
func (d *desk) askOperator(m *messages.AskAdmin) { d.hub = append(d.hub, m) }
func (d *desk) checkPassword(u *messages.User, password string) {
	d.passwords = append(d.passwords, passwordAsked{u, password})
}
func (d *desk) waiting() (int64, uint64) { return d.backlog, d.written }
func (d *desk) callWhen(low int64)       { d.low = low }
func (d *desk) hold(on bool)             { d.held = on }
func (d *desk) belongs(*client)          {}
func (d *desk) wake()                    { d.woken++ }
func (d *desk) push(m outgoing) int64 {
	if d.closing {
		d.t.Fatalf("sent after the end: %v", m.made())
	}
	d.sent = append(d.sent, m.made())
	d.backlog += m.bytes
	return d.backlog
}
func (d *desk) closeStream(reason *messages.ErrorDetail, now bool) {
	if !d.closing {
		d.closing, d.reason = true, reason
	}
	d.closed = d.closed || now
}

// say is the client's message, and all that follows from it at once.
func (d *desk) say(m *messages.ClientMessage) {
	d.received++
	d.core.received(m)
	d.run()
}

func (d *desk) run() {
	for i := 0; d.woken > 0; i++ {
		if i > 10_000 {
			d.t.Fatal("the session does not come to rest")
		}
		d.woken = 0
		d.core.flush()
	}
}

// ask sends one frame of these operations and returns the number of its first call.
func (d *desk) ask(ops ...*messages.Operation) uint64 {
	first := d.nextCall
	d.nextCall += uint64(len(ops))
	d.say(frame(42, first, ops...))
	return first
}

func frame(epoch, first uint64, ops ...*messages.Operation) *messages.ClientMessage {
	return &messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{
		ClientEpoch: epoch, FirstCall: first, Operations: ops,
	}}}
}

// take returns the next message to the client that is not a heartbeat.
func (d *desk) take() *messages.ServerMessage {
	d.t.Helper()
	for d.taken < len(d.sent) {
		m := d.sent[d.taken]
		d.taken++
		if m.GetHeartbeat() == nil {
			return m
		}
	}
	d.t.Fatal("nothing was sent")
	return nil
}

func (d *desk) quiet() {
	d.t.Helper()
	for ; d.taken < len(d.sent); d.taken++ {
		if m := d.sent[d.taken]; m.GetHeartbeat() == nil {
			d.t.Fatalf("sent %v", m)
		}
	}
}

// replies returns the answers in the next message.
func (d *desk) replies() []*messages.Reply {
	d.t.Helper()
	m := d.take().GetReplies()
	if m == nil || m.ClientEpoch != 42 {
		d.t.Fatalf("not replies: %v", d.sent[d.taken-1])
	}
	return m.Replies
}

// reply returns the only answer in the next message.
func (d *desk) reply(call uint64) *messages.Reply {
	d.t.Helper()
	r := d.replies()
	if len(r) != 1 || r[0].Call != call {
		d.t.Fatalf("want one answer to call %d, got %v", call, r)
	}
	return r[0]
}

// refused expects an error with this code.
func (d *desk) refused(call uint64, code messages.Code, field string) *messages.ErrorDetail {
	d.t.Helper()
	e := d.reply(call).GetError()
	if e.GetCode() != code || e.GetField() != field || e.GetMessage() == "" {
		d.t.Fatalf("call %d: %v, want %s at %q", call, e, messages.CodeName(code), field)
	}
	return e
}

// read expects a barrier, brings it, and the view that is then asked for.
func (d *desk) read(v view) {
	d.t.Helper()
	if len(d.barriers) == 0 {
		d.t.Fatal("no barrier was asked for")
	}
	b := d.barriers[0]
	d.barriers = d.barriers[1:]
	d.core.barrierReached(&messages.BarrierReached{RequestId: b.RequestId})
	d.run()
	d.show(v)
}

func (d *desk) show(v view) {
	d.t.Helper()
	if len(d.views) == 0 {
		d.t.Fatal("no view was asked for")
	}
	g := d.views[0]
	d.views = d.views[1:]
	d.core.gotView(g.RequestID, v)
	d.run()
}

// answer answers every command that was proposed, as apply would.
func (d *desk) answer() {
	for _, p := range d.proposed {
		m := &messages.Proposed{RequestId: p.RequestId}
		for i := range p.Commands {
			m.Results = append(m.Results, &messages.Result{Revision: uint64(i) + 1, Answer: &messages.Result_Put{Put: &messages.PutResult{}}})
		}
		d.core.proposed(m)
	}
	d.proposed = nil
	d.run()
}

func (d *desk) tick(ms int64) {
	for {
		step := min(ms, tickMs)
		d.nowMs += step
		ms -= step
		d.core.tick(d.nowMs, d.received, false)
		d.run()
		if ms <= 0 {
			return
		}
	}
}

// alive is tick with a client that sends heartbeats.
func (d *desk) alive(ms int64) {
	for ; ms > 0; ms -= tickMs {
		d.say(&messages.ClientMessage{Message: &messages.ClientMessage_Heartbeat{Heartbeat: &messages.Heartbeat{}}})
		d.tick(min(ms, tickMs))
	}
}

// hubSays returns the last message to the hub.
func hubSays[M any](d *desk) M {
	d.t.Helper()
	if len(d.hub) == 0 {
		d.t.Fatal("the hub was told nothing")
	}
	m, ok := d.hub[len(d.hub)-1].(M)
	if !ok {
		d.t.Fatalf("the hub was told %T %v", d.hub[len(d.hub)-1], d.hub[len(d.hub)-1])
	}
	return m
}

func (d *desk) deliver(items ...protocol.Item) {
	d.core.deliver(&protocol.Deliver{Items: items})
	d.run()
}

// page is a view whose answers are text.
type page struct {
	revision uint64
	answer   int // bytes of each value
	asked    []*messages.Query
}

func (p *page) Revision() uint64 { return p.revision }
func (p *page) QueryEncoded(r *auth.Rights, q *messages.Query, now state.Now) (*messages.QueryReply, *messages.Error) {
	return p.QueryAs(r, q, now)
}
func (p *page) QueryAs(r *auth.Rights, q *messages.Query, now state.Now) (*messages.QueryReply, *messages.Error) {
	p.asked = append(p.asked, q)
	if err := auth.CheckQuery(r, q); err != nil {
		return nil, err
	}
	if now.WallMs != 8 {
		return nil, messages.NewError(messages.Code_CODE_INTERNAL, "no time")
	}
	reply := &messages.QueryReply{Revision: p.revision}
	switch r := q.Query.(type) {
	case *messages.Query_Get:
		if string(r.Get.Key) == "bad" {
			return nil, messages.NewError(messages.Code_CODE_COMPACTED, "gone")
		}
		reply.Reply = &messages.QueryReply_Get{Get: &messages.GetReply{Record: &messages.Record{
			Key: r.Get.Key, Value: make([]byte, p.answer), ModRevision: p.revision,
		}}}
	case *messages.Query_List:
		reply.Reply = &messages.QueryReply_List{List: &messages.ListReply{Revision: p.revision, Records: []*messages.Record{{Key: []byte("k"), Value: make([]byte, p.answer)}}}}
	case *messages.Query_Status:
		reply.Reply = &messages.QueryReply_Status{Status: &messages.StatusReply{Keys: 5, Revision: p.revision}}
	}
	return reply, nil
}

func put(key string) *messages.Operation {
	return write(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte(key), Value: []byte("v")}}})
}

func write(w *messages.Write) *messages.Operation {
	return &messages.Operation{Operation: &messages.Operation_Write{Write: w}}
}

func get(key string, c messages.Consistency, minRevision uint64) *messages.Operation {
	return &messages.Operation{Operation: &messages.Operation_Query{Query: &messages.Query{
		Consistency: c, MinRevision: minRevision, Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte(key)}},
	}}}
}

func watchOp(r *messages.WatchRequest) *messages.Operation {
	if r.Selector == nil {
		r.Selector = &messages.Selector{By: &messages.Selector_Prefix{}}
	}
	return &messages.Operation{Operation: &messages.Operation_Watch{Watch: r}}
}

const (
	linearizable = messages.Consistency_CONSISTENCY_LINEARIZABLE
	stale        = messages.Consistency_CONSISTENCY_STALE
)

func keys(n int) []*messages.Operation {
	var ops []*messages.Operation
	for i := range n {
		ops = append(ops, put(fmt.Sprintf("k%d", i)))
	}
	return ops
}
