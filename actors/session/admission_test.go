package session

import (
	"testing"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// takeAll admits calls for a core until one is refused, and returns how many were.
func takeAll(t *testing.T, c *core, write bool) (n int) {
	t.Helper()
	for ; n < 10_000; n++ {
		err := c.admit(1, write)
		if err == nil {
			continue
		}
		if err.Code() != messages.Code_CODE_OVERLOADED || err.Detail.GetRetryAfterMs() == 0 || err.Outcome() != messages.Outcome_OUTCOME_NOT_APPLIED {
			t.Fatalf("refused with %v", err)
		}
		return n
	}
	t.Fatal("nobody is ever refused")
	return 0
}

// TestClientsShareTheNode: one who is alone leaves room for who comes; two have the
// same; what one gives back is there again.
func TestClientsShareTheNode(t *testing.T) {
	d := newDesk(t, Limits{CallsPerNode: 80, WritesPerNode: 40})
	of := func(host string) *core {
		c := newCore(1, "", d.core.cfg, d.adm, d)
		c.peer = transport.Peer{Kind: transport.KindGRPC, Address: host + ":1"}
		if err := d.adm.share(c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	greedy, greedy2, modest := of("10.0.0.1"), of("10.0.0.1"), of("10.0.0.2")
	if n := takeAll(t, greedy, false); n != 60 {
		t.Fatalf("alone: %d calls, want 60 of 80", n)
	}
	if n := takeAll(t, greedy2, false); n != 0 {
		t.Fatalf("its second connection got %d more", n)
	}
	if n := takeAll(t, modest, false); n == 0 || n > 30 {
		t.Fatalf("the other got %d calls", n)
	}
	modest.stopped()
	greedy.stopped()
	if d.adm.calls.Load() != 0 || d.adm.bytes.Load() != 0 || d.adm.active.Load() != 0 {
		t.Fatalf("left: %d calls, %d bytes, %d clients", d.adm.calls.Load(), d.adm.bytes.Load(), d.adm.active.Load())
	}
	again := of("10.0.0.3")
	if n := takeAll(t, again, true); n != 30 {
		t.Fatalf("alone: %d writes, want 30 of 40", n)
	}
	if n := takeAll(t, again, false); n != 30 {
		t.Fatalf("and %d other calls, want 30", n)
	}
}

// TestConnectionsOfAClient: many of one host are one client, and so are many of one user.
func TestConnectionsOfAClient(t *testing.T) {
	d := newDesk(t, Limits{ConnectionsMax: 100, ConnectionsPerClient: 2})
	open := func(name, address string) *messages.Error {
		c := newCore(1, name, d.core.cfg, d.adm, d)
		c.peer = transport.Peer{Kind: transport.KindGRPC, Name: name, Address: address}
		return d.adm.share(c)
	}
	for i, c := range []struct {
		name, address string
		refused       bool
	}{
		{"", "10.0.0.1:1", false}, {"", "10.0.0.1:2", false}, {"", "10.0.0.1:3", true}, {"", "10.0.0.2:1", false},
		{"ann", "10.0.0.1:4", false}, {"ann", "10.0.0.2:2", false}, {"ann", "10.0.0.3:1", true},
	} {
		if err := open(c.name, c.address); (err != nil) != c.refused {
			t.Errorf("connection %d: %v, want refused %v", i, err, c.refused)
		}
	}
}

// TestCrowdedQueues: where all clients together are far behind, one that does not read
// gets little ahead of itself; the rest of its reads wait.
func TestCrowdedQueues(t *testing.T) {
	for _, c := range []struct {
		queued, behind int64
		want           int
	}{{0, 0, 4}, {100 << 20, 100_000, 1}} {
		d := newDesk(t, Limits{})
		d.adm.queued.Store(c.queued)
		d.adm.behind.Store(c.behind)
		read := func(key string) *messages.Operation {
			return get(key, messages.Consistency_CONSISTENCY_LINEARIZABLE, 0)
		}
		d.ask(read("a"), read("b"), read("c"), read("d"))
		d.read(&page{revision: 1, answer: 200 << 10})
		n := 0
		for _, m := range d.sent {
			n += len(m.GetReplies().GetReplies())
		}
		if n != c.want {
			t.Errorf("%d bytes wait at the node: %d answers were sent ahead, want %d", c.queued, n, c.want)
		}
	}
}
