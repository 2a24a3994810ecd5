package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// client speaks the session protocol over one stream, one call at a time.
type client struct {
	t      *testing.T
	stream transport.ClientStream
	epoch  uint64
	call   uint64
}

const answerWithin = 20 * time.Second

// connect opens a connection to a node in this process.
func connect(t *testing.T, n *node.Node) *client {
	t.Helper()
	return connectBy(t, n.Dialer(), "local")
}

func connectBy(t *testing.T, d transport.Dialer, endpoint string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	s, err := d.Dial(ctx, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, stream: s, epoch: 7}
	t.Cleanup(func() {
		_ = s.Close()
		for err == nil { // reading to the end releases the connection at once
			_, err = s.Recv()
		}
	})
	c.send(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: &messages.ClientHello{
		Protocol: messages.ProtocolVersion, ClientName: "test", ClientEpoch: c.epoch,
	}}})
	for {
		m := c.recv()
		if m.GetHello() != nil {
			return c
		}
		if m.GetGoodbye() != nil {
			t.Fatalf("refused: %v", m)
		}
	}
}

func (c *client) send(m *messages.ClientMessage) {
	c.t.Helper()
	if err := c.stream.Send(m); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

func (c *client) recv() *messages.ServerMessage {
	c.t.Helper()
	m, err := c.stream.Recv()
	if err != nil {
		c.t.Fatalf("receive: %v", err)
	}
	return m
}

// do sends one operation and waits for its answer.
func (c *client) do(op *messages.Operation) *messages.Reply {
	c.t.Helper()
	c.call++
	c.send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{
		ClientEpoch: c.epoch, FirstCall: c.call, TimeoutMs: uint32(answerWithin / time.Millisecond), Operations: []*messages.Operation{op},
	}}})
	for {
		m := c.recv()
		if g := m.GetGoodbye(); g != nil {
			c.t.Fatalf("goodbye: %v", g)
		}
		for _, r := range m.GetReplies().GetReplies() {
			if r.GetCall() == c.call {
				return r
			}
		}
	}
}

// write applies one write and fails the test if it is refused.
func (c *client) write(w *messages.Write) *messages.Result {
	c.t.Helper()
	r := c.do(&messages.Operation{Operation: &messages.Operation_Write{Write: w}})
	if r.GetResult() == nil || r.GetResult().GetError() != nil {
		c.t.Fatalf("write %v: %v", w, r)
	}
	return r.GetResult()
}

func (c *client) query(q *messages.Query) *messages.QueryReply {
	c.t.Helper()
	r := c.do(&messages.Operation{Operation: &messages.Operation_Query{Query: q}})
	if r.GetQuery() == nil {
		c.t.Fatalf("query %v: %v", q, r)
	}
	return r.GetQuery()
}

func (c *client) put(key, value string, lease uint64) uint64 {
	c.t.Helper()
	return c.write(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{
		Key: []byte(key), Value: []byte(value), LeaseId: lease,
	}}}).GetRevision()
}

// get returns the record, nil for none.
func (c *client) get(key string) *messages.Record {
	c.t.Helper()
	return c.query(&messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte(key)}}}).GetGet().GetRecord()
}

func (c *client) grant(ttl time.Duration) uint64 {
	c.t.Helper()
	return c.write(&messages.Write{Op: &messages.Write_GrantLease{GrantLease: &messages.GrantLease{
		TtlMs: ttl.Milliseconds(),
	}}}).GetGrantLease().GetLeaseId()
}

// watch starts a watch of a prefix from now on.
func (c *client) watch(prefix string) {
	c.t.Helper()
	r := c.do(&messages.Operation{Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{
		WatchId: 1, Selector: &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte(prefix)}},
	}}})
	if r.GetWatch() == nil {
		c.t.Fatalf("watch: %v", r)
	}
}

// event waits for the next event of a watch.
func (c *client) event() string {
	c.t.Helper()
	for {
		m := c.recv()
		if m.GetWatchEnd() != nil || m.GetGoodbye() != nil {
			c.t.Fatalf("the watch ended: %v", m)
		}
		if e := m.GetWatchBatch().GetEvents(); len(e) > 0 {
			return fmt.Sprintf("%s %s %d %s", e[0].GetType(), e[0].GetRecord().GetKey(), e[0].GetRevision(), e[0].GetCause())
		}
	}
}
