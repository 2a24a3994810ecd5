package pipeline

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/concord-kv/concord/messages"
)

// The traces in testdata drive a pipeline with a scripted node and show every message
// that it sends and every call that it completes. Commands:
//
//	connect [incarnation=N] [calls=N] [operations=N]    disconnect    close
//	put NAME [within=D]     keyed NAME     get NAME     keepalive ID   abandon NAME
//	watch NAME [from=N] [credit=N] [progress]           unwatch NAME   take NAME
//	next                                                sends all there is to send
//	reply CALL ... [ok] [rev=N] [session=N] [replayed] [empty] [code=C] [unknown] [applied] [retry=D]
//	batch NAME rev=N ops=A-B [last] [ready]             progress NAME rev=N
//	end NAME code=C         heartbeat                   goodbye code=C
//	lose-session            tick D
func TestTraces(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		h := newTrace()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			h.out.Reset()
			h.command(t, d)
			if h.out.Len() == 0 {
				return "-"
			}
			return h.out.String()
		})
	})
}

type trace struct {
	p       *Pipeline
	now     time.Duration
	out     strings.Builder
	calls   map[string]*Call
	watches map[string]*Watch
	wires   map[uint64]*messages.Operation
}

func newTrace() *trace {
	h := &trace{now: time.Hour, calls: map[string]*Call{}, watches: map[string]*Watch{}, wires: map[uint64]*messages.Operation{}}
	h.p = New(Config{
		Random: func() uint64 { return 0 }, ClientEpoch: 9, WindowMax: 4, CallsMax: 20, Roam: true,
		OnSession: func(id, lease uint64, ttl, sentAt time.Duration) {
			h.printf("session %d opened, lease %d, ttl %v, asked at %v", id, lease, ttl, sentAt-time.Hour)
		},
		OnSessionOver: func(lease uint64) { h.printf("session of lease %d over", lease) },
	})
	return h
}

func (h *trace) printf(format string, args ...any) { fmt.Fprintf(&h.out, format+"\n", args...) }

func (h *trace) submit(name string, kind Kind, op *messages.Operation, within time.Duration) {
	c := NewCallThen(kind, op, h.now+within, func(c *Call) {
		if c.Err != nil {
			h.printf("%s: %v, %s", name, c.Err, messages.OutcomeName(messages.OutcomeOf(c.Err)))
			return
		}
		replayed := ""
		if c.Reply.GetResult().GetReplayed() {
			replayed = " (replayed)"
		}
		h.printf("%s: ok at %d%s", name, max(c.Reply.GetResult().GetRevision(), c.Reply.GetQuery().GetRevision()), replayed)
	})
	h.calls[name] = c
	if err := h.p.Submit(c, h.now); err != nil {
		h.printf("%s: refused: %v", name, err)
	}
}

func (h *trace) command(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	num := func(key string, def uint64) uint64 {
		d.MaybeScanArgs(t, key, &def)
		return def
	}
	duration := func(s string) time.Duration {
		v, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	within := func() time.Duration {
		s := "5s"
		d.MaybeScanArgs(t, "within", &s)
		return duration(s)
	}
	switch d.Cmd {
	case "connect":
		clear(h.wires)
		err := h.p.Connected(&messages.ServerHello{
			Protocol: 1, Incarnation: num("incarnation", 1), CallsMax: uint32(num("calls", 0)),
			FrameOperationsMax: uint32(num("operations", 0)), ValueBytesMax: 1 << 20,
		}, h.now)
		if err != nil {
			h.printf("refused: %v", err)
		}
		h.p.Advance(h.now)
	case "disconnect":
		h.p.Disconnected(messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, "reset"))
	case "close":
		h.p.Close()
	case "put":
		for _, a := range d.CmdArgs {
			if a.Key != "within" {
				op := writeOperation(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte(a.Key)}}})
				h.submit(a.Key, Numbered, op, within())
			}
		}
	case "big":
		op := writeOperation(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte(arg(0)), Value: make([]byte, num("bytes", 0))}}})
		h.submit(arg(0), Numbered, op, within())
	case "keyed":
		op := writeOperation(&messages.Write{IdempotencyKey: "K", Op: &messages.Write_Put{Put: &messages.Put{Key: []byte(arg(0))}}})
		h.submit(arg(0), Repeatable, op, within())
	case "get":
		op := &messages.Operation{Operation: &messages.Operation_Query{Query: &messages.Query{
			Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte(arg(0))}},
		}}}
		h.submit(arg(0), Read, op, within())
	case "keepalive":
		op := writeOperation(&messages.Write{Op: &messages.Write_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLease{LeaseId: 7}}})
		h.submit(arg(0), Once, op, within())
	case "abandon":
		h.p.Abandon(h.calls[arg(0)], context.Canceled)
	case "next":
		for m := h.p.Next(h.now); m != nil; m = h.p.Next(h.now) {
			h.show(m)
		}
		if err := h.p.Leave(); err != nil {
			h.printf("leave: %v", err)
		}
	case "reply":
		h.reply(t, d, num)
	case "tick":
		h.now += duration(arg(0))
		next := h.p.Advance(h.now)
		if next != Never {
			h.printf("next at +%v", next-h.now)
		}
		if err := h.p.Leave(); err != nil {
			h.printf("leave: %v", err)
		}
	case "heartbeat":
		h.p.Receive(&messages.ServerMessage{Message: &messages.ServerMessage_Heartbeat{Heartbeat: &messages.Heartbeat{}}}, h.now)
	case "goodbye":
		h.p.Receive(&messages.ServerMessage{Message: &messages.ServerMessage_Goodbye{Goodbye: &messages.Goodbye{Reason: h.detail(t, d)}}}, h.now)
	case "lose-session":
		h.p.SessionLost(num("lease", 70))
	case "confirm-session":
		h.p.SessionConfirmed(num("lease", 70), h.now, 15*time.Second)
	default:
		h.watchCommand(t, d, num)
	}
}

func (h *trace) detail(t *testing.T, d *datadriven.TestData) *messages.ErrorDetail {
	var code, retry string
	d.MaybeScanArgs(t, "code", &code)
	if code == "" {
		return nil
	}
	n, ok := messages.Code_value["CODE_"+strings.ToUpper(code)]
	if !ok {
		t.Fatalf("no code %q", code)
	}
	e := &messages.ErrorDetail{Code: messages.Code(n), Outcome: messages.Outcome_OUTCOME_NOT_APPLIED, Message: "says the node"}
	if d.HasArg("unknown") {
		e.Outcome = messages.Outcome_OUTCOME_UNKNOWN
	}
	if d.MaybeScanArgs(t, "retry", &retry); retry != "" {
		v, err := time.ParseDuration(retry)
		if err != nil {
			t.Fatal(err)
		}
		e.RetryAfterMs = uint32(v.Milliseconds())
	}
	return e
}

// reply answers calls of the connection, each as its operation asks.
func (h *trace) reply(t *testing.T, d *datadriven.TestData, num func(string, uint64) uint64) {
	var replies []*messages.Reply
	rev := num("rev", 1)
	for _, a := range d.CmdArgs {
		var call uint64
		if _, err := fmt.Sscanf(a.Key, "%d", &call); err != nil {
			continue
		}
		r := &messages.Reply{Call: call}
		replies = append(replies, r)
		if e := h.detail(t, d); e != nil {
			r.Reply = &messages.Reply_Error{Error: e}
			if d.HasArg("applied") {
				r.Reply = &messages.Reply_Result{Result: &messages.Result{Revision: rev, Error: e}}
			}
			continue
		}
		result := &messages.Result{Revision: rev, Replayed: d.HasArg("replayed")}
		r.Reply = &messages.Reply_Result{Result: result}
		rev++
		op := h.wires[call]
		switch {
		case op.GetQuery() != nil:
			r.Reply = &messages.Reply_Query{Query: &messages.QueryReply{Revision: rev - 1}}
		case op.GetWatch() != nil:
			from := op.GetWatch().FromRevision
			if from == 0 {
				from = rev
			}
			r.Reply = &messages.Reply_Watch{Watch: &messages.WatchStarted{FromRevision: from, CurrentRevision: rev - 1}}
		case op.GetWrite().GetOpenSession() != nil:
			id := num("session", 7)
			result.Answer = &messages.Result_OpenSession{OpenSession: &messages.OpenSessionResult{SessionId: id, LeaseId: id * 10, TtlMs: 15_000}}
		case op.GetWrite().GetTxn() != nil && d.HasArg("empty"):
			result.Answer = &messages.Result_Txn{Txn: &messages.TxnResult{Succeeded: true}}
		default:
			result.Answer = &messages.Result_Put{Put: &messages.PutResult{}}
		}
	}
	h.p.Receive(&messages.ServerMessage{Message: &messages.ServerMessage_Replies{Replies: &messages.Replies{Replies: replies}}}, h.now)
}

func (h *trace) show(m *messages.ClientMessage) {
	switch m := m.Message.(type) {
	case *messages.ClientMessage_Frame:
		h.printf("frame, %d ms:", m.Frame.TimeoutMs)
		for i, op := range m.Frame.Operations {
			call := m.Frame.FirstCall + uint64(i)
			h.wires[call] = op
			h.printf("  %d %s", call, describe(op))
		}
	case *messages.ClientMessage_Heartbeat:
		h.printf("heartbeat %d", m.Heartbeat.Number)
	case *messages.ClientMessage_WatchCredit:
		h.printf("credit for watch %d: %d events, %d bytes", m.WatchCredit.WatchId, m.WatchCredit.Events, m.WatchCredit.Bytes)
	case *messages.ClientMessage_CancelWatch:
		h.printf("cancel watch %d", m.CancelWatch.WatchId)
	}
}

func describe(op *messages.Operation) string {
	if q := op.GetQuery(); q != nil {
		return "get " + string(q.GetGet().Key)
	}
	if w := op.GetWatch(); w != nil {
		where := fmt.Sprintf("from %d", w.FromRevision)
		if w.After != nil {
			where = fmt.Sprintf("after %d.%d", w.After.Revision, int32(w.After.OpIndex))
		}
		return fmt.Sprintf("watch %d %s, credit %d", w.WatchId, where, w.CreditEvents)
	}
	w := op.GetWrite()
	var what string
	switch o := w.Op.(type) {
	case *messages.Write_Put:
		what = "put " + string(o.Put.Key)
	case *messages.Write_Txn:
		what = "empty txn"
	case *messages.Write_OpenSession:
		what = "open session"
	case *messages.Write_KeepAliveLease:
		what = "keep alive"
	}
	if w.SessionId != 0 {
		what += fmt.Sprintf(" s%d/%d ack %d", w.SessionId, w.Sequence, w.Acknowledged)
	}
	if w.IdempotencyKey != "" {
		what += " key " + w.IdempotencyKey
	}
	if w.Incarnation != 1 {
		what += fmt.Sprintf(" incarnation %d", w.Incarnation)
	}
	return what
}

func (h *trace) watchCommand(t *testing.T, d *datadriven.TestData, num func(string, uint64) uint64) {
	name := d.CmdArgs[0].Key
	w := h.watches[name]
	message := func(m *messages.ServerMessage) { h.p.Receive(m, h.now) }
	switch d.Cmd {
	case "watch":
		w, err := h.p.OpenWatch(&messages.WatchRequest{FromRevision: num("from", 0), CreditEvents: uint32(num("credit", 0))}, d.HasArg("progress"))
		if err != nil {
			t.Fatal(err)
		}
		h.watches[name] = w
	case "unwatch":
		h.p.CloseWatch(w, messages.NewError(messages.Code_CODE_CANCELLED, "closed"))
	case "batch":
		rev, first, last := num("rev", 0), 0, 0
		var ops string
		d.ScanArgs(t, "ops", &ops)
		if _, err := fmt.Sscanf(ops, "%d-%d", &first, &last); err != nil {
			t.Fatal(err)
		}
		b := &messages.WatchBatch{
			WatchId: num("id", w.id), Last: d.HasArg("last"), Ready: d.HasArg("ready"),
			To: &messages.Position{Revision: rev, OpIndex: uint32(last)},
		}
		for i := first; i <= last; i++ {
			b.Events = append(b.Events, &messages.Event{Type: messages.EventType_EVENT_TYPE_PUT, Revision: rev, OpIndex: uint32(i), Record: &messages.Record{Key: []byte("k")}})
		}
		if b.Last {
			b.To.OpIndex = messages.PositionOpIndexEnd
		}
		message(&messages.ServerMessage{Message: &messages.ServerMessage_WatchBatch{WatchBatch: b}})
	case "progress":
		message(&messages.ServerMessage{Message: &messages.ServerMessage_WatchBatch{WatchBatch: &messages.WatchBatch{
			WatchId: w.id, To: &messages.Position{Revision: num("rev", 0), OpIndex: messages.PositionOpIndexEnd}, Ready: d.HasArg("ready"),
		}}})
	case "end":
		message(&messages.ServerMessage{Message: &messages.ServerMessage_WatchEnd{WatchEnd: &messages.WatchEnd{WatchId: w.id, Reason: h.detail(t, d)}}})
	case "take":
		for {
			b, ok, err := h.p.Take(w)
			switch {
			case ok:
				h.printf("%s", showBatch(b))
				continue
			case err != nil:
				h.printf("ended: %v", err)
			}
			return
		}
	default:
		t.Fatalf("no command %q", d.Cmd)
	}
}

func showBatch(b Batch) string {
	var s strings.Builder
	for _, e := range b.Events {
		fmt.Fprintf(&s, "%d.%d ", e.Revision, e.OpIndex)
	}
	fmt.Fprintf(&s, "to %d.%d", b.To.Revision, int32(b.To.OpIndex))
	if !b.Last {
		s.WriteString(" part")
	}
	if b.Ready {
		s.WriteString(" ready")
	}
	return s.String()
}
