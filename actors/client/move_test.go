package client

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/concord-kv/concord/messages"
)

// led makes n2 and n3 and has all three say where the leader is.
func (f fakeNet) led(leader string) {
	for _, name := range []string{"n1", "n2", "n3"} {
		if f[name] == nil {
			f[name] = newFakeNode(f["n1"].cluster)
		}
		f[name].hello = &messages.ServerHello{
			Protocol: 1, ClusterId: []byte("c"), Incarnation: 1, HeartbeatMs: 1000, ValueBytesMax: 1 << 20, LeaderEndpoint: leader,
		}
	}
}

// say has every node tell its clients that another one leads.
func (f fakeNet) say(leader string) {
	f.led(leader)
	for _, n := range f {
		n.mu.Lock()
		for _, s := range n.streams {
			_ = s.Send(&messages.ServerMessage{Message: &messages.ServerMessage_LeaderHint{LeaderHint: &messages.LeaderHint{LeaderId: 1, Endpoint: leader}}})
		}
		n.mu.Unlock()
	}
}

// frames is how many frames each node has taken.
func (f fakeNet) frames() map[string]int {
	took := map[string]int{}
	for name, n := range f {
		took[name] = len(n.took())
	}
	return took
}

// at puts a key and returns the node that took it.
func (f fakeNet) at(t *testing.T, c *Client, key string) string {
	t.Helper()
	before := f.frames()
	if _, err := c.Put(context.Background(), key, nil, PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, n := range f.frames() {
		if n > before[name] {
			return name
		}
	}
	return ""
}

// A client that prefers the leader is there soon after it has connected, and goes after it
// when another one leads: with calls in flight and a watch open, of which none fails,
// none is applied twice, and no event is missed.
func TestGoesToTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		ctx := t.Context()
		net.led("n2")
		c := newTestClient(t, net, func(cfg *Config) { cfg.Prefer = LeaderNode })
		defer c.Close()
		net.at(t, c, "first")
		synctest.Wait()
		if at := net.at(t, c, "second"); at != "n2" {
			t.Fatalf("n2 leads, and the client is at %s", at)
		}
		w, err := c.Watch(ctx, PrefixSelector("w/"), WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for round, leader := range []string{"n3", "n1", "n3"} {
			stop := make(chan struct{})
			var writers sync.WaitGroup
			var mu sync.Mutex
			wrote := 0
			for i := range 4 {
				writers.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
						}
						key := fmt.Sprintf("w/%d/%d/%d", round, i, n)
						if _, err := c.Put(ctx, key, nil, PutOptions{}); err != nil {
							t.Errorf("%s: %v", key, err)
							return
						}
						if got := net["n1"].cluster.count(key); got != 1 {
							t.Errorf("%s was applied %d times", key, got)
						}
						mu.Lock()
						wrote++
						mu.Unlock()
						time.Sleep(5 * time.Millisecond) // in virtual time
					}
				})
			}
			net.say(leader)
			time.Sleep(moveSettle + quitMaxForTests)
			close(stop)
			writers.Wait()
			if at := net.at(t, c, fmt.Sprintf("after/%d", round)); at != leader {
				t.Errorf("%s leads, and the client is at %s", leader, at)
			}
			for seen := 0; seen < wrote; {
				b, err := w.Next(ctx)
				if err != nil {
					t.Fatalf("after %d of %d events: %v", seen, wrote, err)
				}
				for _, e := range b.Events {
					if prefix := fmt.Sprintf("w/%d/", round); len(e.GetRecord().GetKey()) < 4 || string(e.Record.Key[:4]) != prefix {
						continue // what is not watched: a fake node sends all
					}
					seen++
				}
			}
		}
	})
}

// quitMaxForTests is longer than a connection that is given up waits for its answers.
const quitMaxForTests = 1500 * time.Millisecond

// Where the leader cannot be reached, the client stays at the node that serves, and does
// not knock at the leader's door all the time.
func TestTheLeaderIsOutOfReach(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		net.led("n2")
		net["n2"].refuse(true)
		c := newTestClient(t, net, func(cfg *Config) {
			cfg.Prefer = LeaderNode
			cfg.Endpoints = []string{"n1", "n2", "n3"}
		})
		defer c.Close()
		at := net.at(t, c, "first")
		before := net[at].dials
		for i := range 100 {
			time.Sleep(time.Second)
			if now := net.at(t, c, fmt.Sprint(i)); now != at {
				t.Fatalf("the client went from %s to %s", at, now)
			}
		}
		if dials := net[at].dials; dials != before {
			t.Errorf("%d connections instead of one", dials-before+1)
		}
		// It is there again: the client finds it within the wait.
		net["n2"].refuse(false)
		time.Sleep(moveAgain)
		if now := net.at(t, c, "again"); now != "n2" {
			t.Errorf("n2 leads and can be reached, and the client is at %s", now)
		}
	})
}

// A leader that stays for less than it takes to see so is not followed, nor is one at an
// endpoint that the client does not know; and a client that takes any node stays.
func TestDoesNotFollowEverybody(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		net.led("")
		any := newTestClient(t, net, nil)
		defer any.Close()
		c := newTestClient(t, net, func(cfg *Config) { cfg.Prefer = LeaderNode })
		defer c.Close()
		at, other := net.at(t, c, "a"), net.at(t, any, "b")
		for i := range 20 {
			for _, leader := range []string{"n1", "n2", "n3", "stranger"} {
				net.say(leader)
				time.Sleep(moveSettle / 4)
			}
			net.say(at)
			time.Sleep(moveSettle)
			if now := net.at(t, c, fmt.Sprint(i)); now != at {
				t.Fatalf("the client went from %s to %s", at, now)
			}
			if now := net.at(t, any, fmt.Sprint(i)); now != other {
				t.Fatalf("a client that takes any node went from %s to %s", other, now)
			}
		}
	})
}

// A client is closed at any moment of a move without leaving a connection behind.
func TestClosedWhileItMoves(t *testing.T) {
	for _, after := range []time.Duration{0, moveSettle / 2, moveSettle * 3 / 4, moveSettle} {
		bubble(t, func(t *testing.T, net fakeNet) {
			net.led("n1")
			c := newTestClient(t, net, func(cfg *Config) { cfg.Prefer = LeaderNode })
			net.at(t, c, "a")
			synctest.Wait()
			net.say("n3")
			time.Sleep(after)
			c.Close()
		}) // the bubble fails while anything of the client still runs
	}
}
