package peers

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/messages"
)

// side is one node's end of the links in a test.
type side struct {
	*Mesh
	forwarded chan forwarded
	heard     chan *messages.PeerHello
	refused   chan *messages.Error
}

type forwarded struct {
	m     *messages.Propose
	reply func(*messages.Proposed)
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// begin starts a mesh; change edits its configuration before.
func begin(t *testing.T, id uint64, l net.Listener, known []*messages.MemberAddress, change func(*Config)) *side {
	t.Helper()
	s := &side{forwarded: make(chan forwarded, 100), heard: make(chan *messages.PeerHello, 10_000), refused: make(chan *messages.Error, 100)}
	cfg := Config{
		Self:     &messages.MemberAddress{ReplicaId: id, Peer: l.Addr().String(), SinceUnixMs: 1},
		Listener: l, Known: known, Version: "test", Logger: slog.New(slog.DiscardHandler),
		Identity: func() ([]byte, uint64) { return []byte("cluster"), 1 },
		Beat:     func() *messages.PeerBeat { return &messages.PeerBeat{} },
		Forwarded: func(m *messages.Propose, reply func(*messages.Proposed)) {
			s.forwarded <- forwarded{m, reply}
		},
		Heard: func(h *messages.PeerHello, _ *messages.PeerBeat) {
			select {
			case s.heard <- h:
			default:
			}
		},
		Learned: func([]*messages.MemberAddress) {},
		Refused: func(e *messages.Error) {
			select {
			case s.refused <- e:
			default:
			}
		},
	}
	if change != nil {
		change(&cfg)
	}
	s.Mesh = Start(cfg)
	t.Cleanup(s.Close)
	return s
}

func at(id uint64, l net.Listener) *messages.MemberAddress {
	return &messages.MemberAddress{ReplicaId: id, Peer: l.Addr().String()}
}

const patience = 20 * time.Second

func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}

func put(key string) *messages.Command {
	return &messages.Command{Op: &messages.Command_Put{Put: &messages.Put{Key: []byte(key)}}}
}

// answers collects what becomes of a forwarded proposal.
type answers struct {
	results chan *messages.Result
	failed  chan *messages.ErrorDetail
}

func (s *side) send(t *testing.T, to uint64, commands ...*messages.Command) *answers {
	t.Helper()
	a := &answers{results: make(chan *messages.Result, len(commands)), failed: make(chan *messages.ErrorDetail, 1)}
	f := Forward{
		Commands: commands, TimeoutMs: 5_000,
		Results: func(_ uint32, results []*messages.Result) {
			for _, r := range results {
				a.results <- r
			}
		},
		Failed: func(d *messages.ErrorDetail) { a.failed <- d },
	}
	end := time.Now().Add(patience)
	for {
		err := s.Forward(to, f)
		if err == nil {
			return a
		}
		if messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
			t.Fatalf("what was not sent: %v", err)
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the link opens on its own; there is nothing to wait on
	}
}

func result(revision uint64) *messages.Result { return &messages.Result{Revision: revision} }

func TestForward(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("", func(t *testing.T) {
		la, lb := listener(t), listener(t)
		a := begin(t, 1, la, []*messages.MemberAddress{at(2, lb)}, nil)
		b := begin(t, 2, lb, nil, nil) // it learns of the other by its hello
		one := a.send(t, 2, put("x"), put("y"))
		f := receive(t, b.forwarded, "proposal")
		if len(f.m.Commands) != 2 || string(f.m.Commands[1].GetPut().GetKey()) != "y" || f.m.TimeoutMs != 5_000 {
			t.Fatalf("%v", f.m)
		}
		// Answers may come one by one.
		f.reply(&messages.Proposed{First: 1, Results: []*messages.Result{result(8)}})
		f.reply(&messages.Proposed{First: 0, Results: []*messages.Result{result(7)}})
		if r := receive(t, one.results, "result"); r.Revision != 8 {
			t.Errorf("%v", r)
		}
		receive(t, one.results, "result")
		// And the other way, over the link that b made when it heard of a.
		two := b.send(t, 1, put("z"))
		g := receive(t, a.forwarded, "proposal")
		g.reply(&messages.Proposed{Results: []*messages.Result{result(9)}})
		receive(t, two.results, "result")
	})
}

// TestLostLink: what was handed to the link has an unknown outcome once the link is
// lost; later proposals are not sent, and the link comes back.
func TestLostLink(t *testing.T) {
	la, lb := listener(t), listener(t)
	a := begin(t, 1, la, []*messages.MemberAddress{at(2, lb)}, nil)
	b := begin(t, 2, lb, nil, nil)
	lost := a.send(t, 2, put("x"), put("y"))
	f := receive(t, b.forwarded, "proposal")
	f.reply(&messages.Proposed{First: 0, Results: []*messages.Result{result(1)}})
	receive(t, lost.results, "the first result")
	b.Close()
	d := receive(t, lost.failed, "failure")
	if d.Outcome != messages.Outcome_OUTCOME_UNKNOWN {
		t.Errorf("%v", d)
	}
	err := a.Forward(2, Forward{Commands: []*messages.Command{put("z")}})
	if messages.CodeOf(err) != messages.Code_CODE_NO_LEADER || messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
		t.Errorf("after the link was lost: %v", err)
	}
	again, err := net.Listen("tcp", lb.Addr().String())
	if err != nil {
		t.Skipf("the port is taken: %v", err)
	}
	c := begin(t, 2, again, nil, nil)
	a.send(t, 2, put("w"))
	receive(t, c.forwarded, "proposal after the restart")
}

// TestRefused: a node that does not belong is told why.
func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		says   string
	}{
		{"another cluster", func(c *Config) {
			c.Identity = func() ([]byte, uint64) { return []byte("other"), 1 }
		}, "belongs to cluster"},
		{"another incarnation", func(c *Config) {
			c.Identity = func() ([]byte, uint64) { return []byte("cluster"), 2 }
		}, "only one of them was restored"},
		{"the same id", func(c *Config) { c.Self.ReplicaId = 2 }, "two nodes have the replica id 2"},
		{"meant for somebody else", func(c *Config) {
			c.Known = []*messages.MemberAddress{{ReplicaId: 3, Peer: c.Known[0].Peer}}
		}, "not replica 3's"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			la, lb := listener(t), listener(t)
			begin(t, 2, lb, nil, nil)
			known := []*messages.MemberAddress{at(2, lb)}
			if tc.name == "the same id" {
				known = []*messages.MemberAddress{{ReplicaId: 9, Peer: lb.Addr().String()}}
			}
			a := begin(t, 1, la, known, tc.change)
			e := receive(t, a.refused, "refusal")
			if !strings.Contains(e.Error(), tc.says) {
				t.Errorf("%v", e)
			}
		})
	}
}

// TestTwin: a second node of one id is refused while the first one lives, and does not
// take its place in anybody's addresses.
func TestTwin(t *testing.T) {
	la, lb, lc := listener(t), listener(t), listener(t)
	a := begin(t, 1, la, []*messages.MemberAddress{at(2, lb)}, nil)
	b := begin(t, 2, lb, []*messages.MemberAddress{at(1, la)}, nil)
	a.send(t, 2, put("x"))
	receive(t, b.forwarded, "proposal")
	twin := begin(t, 2, lc, []*messages.MemberAddress{at(1, la)}, func(c *Config) { c.Self.SinceUnixMs = 9 })
	if e := receive(t, twin.refused, "refusal"); !strings.Contains(e.Error(), "two nodes have the replica id 2") {
		t.Errorf("%v", e)
	}
	a.send(t, 2, put("y"))
	receive(t, b.forwarded, "proposal to the one that is there")
}

// TestForget: a node that was removed is told so, on the link that it has, and does not
// get another.
func TestForget(t *testing.T) {
	la, lb := listener(t), listener(t)
	a := begin(t, 1, la, []*messages.MemberAddress{at(2, lb)}, nil)
	b := begin(t, 2, lb, []*messages.MemberAddress{at(1, la)}, nil)
	a.send(t, 2, put("x"))
	receive(t, b.forwarded, "proposal")
	b.send(t, 1, put("x"))
	a.Forget([]uint64{2})
	if e := receive(t, b.refused, "word of the removal"); e.Code() != messages.Code_CODE_PERMISSION_DENIED {
		t.Errorf("%v", e)
	}
	for _, m := range a.Members() {
		if m.ReplicaId == 2 {
			t.Error("it is still known")
		}
	}
	if err := a.Forward(2, Forward{Commands: []*messages.Command{put("z")}}); err == nil {
		t.Error("a proposal to a node that was removed")
	}
}

// TestContacts: a node that knows one address learns of all members from there.
func TestContacts(t *testing.T) {
	la, lb, lc := listener(t), listener(t), listener(t)
	begin(t, 1, la, []*messages.MemberAddress{at(2, lb)}, nil)
	begin(t, 2, lb, []*messages.MemberAddress{at(1, la)}, nil)
	var mu sync.Mutex
	learned := make(chan struct{}, 100)
	known := map[uint64]bool{}
	begin(t, 3, lc, nil, func(c *Config) {
		c.Contacts = []string{la.Addr().String()}
		c.Learned = func(all []*messages.MemberAddress) {
			mu.Lock()
			for _, m := range all {
				known[m.ReplicaId] = true
			}
			mu.Unlock()
			learned <- struct{}{}
		}
	})
	for {
		receive(t, learned, "word of members")
		mu.Lock()
		all := known[1] && known[2]
		mu.Unlock()
		if all {
			return
		}
	}
}

// TestLeadersOwnAreRefused: nobody makes a node propose what only a leader proposes, or
// what it does not know.
func TestLeadersOwnAreRefused(t *testing.T) {
	la, lb := listener(t), listener(t)
	a := begin(t, 1, la, []*messages.MemberAddress{at(2, lb)}, nil)
	begin(t, 2, lb, nil, nil)
	for _, tc := range []struct {
		cmd  *messages.Command
		code messages.Code
	}{
		{&messages.Command{Op: &messages.Command_ClaimClock{ClaimClock: &messages.ClaimClock{}}}, messages.Code_CODE_NOT_LEADER},
		{&messages.Command{Op: &messages.Command_Tick{Tick: &messages.Tick{}}}, messages.Code_CODE_NOT_LEADER},
		{&messages.Command{}, messages.Code_CODE_UNSUPPORTED},
	} {
		x := a.send(t, 2, tc.cmd)
		if r := receive(t, x.results, "refusal"); r.GetError().GetCode() != tc.code || r.GetError().GetOutcome() != messages.Outcome_OUTCOME_NOT_APPLIED {
			t.Errorf("%v: %v", tc.cmd, r)
		}
	}
}

// TestLargeAnswersAreCut: results that together pass a message's size come in several.
func TestLargeAnswersAreCut(t *testing.T) {
	la, lb := listener(t), listener(t)
	a := begin(t, 1, la, []*messages.MemberAddress{at(2, lb)}, nil)
	b := begin(t, 2, lb, nil, nil)
	const n = 20
	var commands []*messages.Command
	var results []*messages.Result
	for range n {
		commands = append(commands, put("x"))
		results = append(results, &messages.Result{Answer: &messages.Result_Put{Put: &messages.PutResult{
			Prev: &messages.Record{Value: make([]byte, 400<<10)},
		}}})
	}
	x := a.send(t, 2, commands...)
	f := receive(t, b.forwarded, "proposal")
	f.reply(&messages.Proposed{Results: results})
	for range n {
		if r := receive(t, x.results, "result"); len(r.GetPut().GetPrev().GetValue()) != 400<<10 {
			t.Fatalf("%v", r.GetError())
		}
	}
}

// TestTLS: with TLS a node without a certificate of the authority gets no link.
func TestTLS(t *testing.T) {
	authority, err := certs.NewAuthority("nodes")
	if err != nil {
		t.Fatal(err)
	}
	other, err := certs.NewAuthority("others")
	if err != nil {
		t.Fatal(err)
	}
	pair := func(a *certs.Authority) tls.Certificate {
		p, err := a.Issue(certs.Request{Name: "n", Hosts: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.TLS()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	with := func(cert tls.Certificate) func(*Config) {
		return func(c *Config) {
			c.ServerTLS, c.ClientTLS = certs.ServerTLS(cert, authority.Pool()), func() *tls.Config { return certs.ClientTLS(authority.Pool(), &cert) }
		}
	}
	la, lb, lc, ld := listener(t), listener(t), listener(t), listener(t)
	b := begin(t, 2, lb, nil, with(pair(authority)))
	a := begin(t, 1, la, []*messages.MemberAddress{at(2, lb)}, with(pair(authority)))
	a.send(t, 2, put("x"))
	receive(t, b.forwarded, "proposal")
	stranger := begin(t, 3, lc, nil, with(pair(other)))
	plain := begin(t, 4, ld, nil, nil)
	for _, s := range []*side{stranger, plain} {
		if _, err := s.ask(lb.Addr().String()); err == nil {
			t.Error("a node without a certificate of the authority got an answer")
		} else if e := (*messages.Error)(nil); errors.As(err, &e) {
			t.Errorf("it got as far as a hello: %v", err)
		}
	}
}
