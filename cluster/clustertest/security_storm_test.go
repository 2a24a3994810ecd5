package clustertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// The attackers are a process of their own: this test binary, run again with the name of
// the attack in its environment.
const (
	stormAttack = "CONCORD_STORM_ATTACK"
	stormTarget = "CONCORD_STORM_TARGET"
	stormCount  = "CONCORD_STORM_COUNT"
)

// TestSecurityStorm has hostile clients beside an honest one, each attack for a while, and
// reports what is left of the honest one's puts and what memory the node has. In CI a few
// hundred connections for a moment; with CONCORD_STORM_COUNT=10000 the long form.
func TestSecurityStorm(t *testing.T) {
	count, phase, rssMax := 200, time.Second, 2048
	if n, err := strconv.Atoi(os.Getenv(stormCount)); err == nil {
		count, phase, rssMax = n, 8*time.Second, 2048
	}
	n := NewNode(t)
	n.Start()
	n.WaitReady(n.Client())
	honest, err := client.New(client.Config{Endpoints: []string{n.Listen}, Name: "honest", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer honest.Close()
	before := putRate(t, honest, phase)
	t.Logf("alone: %.0f puts/s, node at %d MiB", before, rssMiB(n.Pid()))
	for _, attack := range []string{"connections", "loris", "frames", "cancels", "unread"} {
		ready, stop := startAttack(t, attack, n.Listen, count)
		select {
		case <-ready:
		case <-time.After(3 * time.Minute):
			t.Fatalf("%s: the attackers did not get ready", attack)
		}
		during := putRate(t, honest, phase)
		rss := rssMiB(n.Pid())
		_, served := honest.Put(Deadline(t, time.Minute), "/honest/served", nil, client.PutOptions{})
		stop()
		if !n.Running() {
			t.Fatalf("%s: the node has ended:\n%s", attack, tail(n.Output(), 4_000))
		}
		t.Logf("%-12s %.0f puts/s (%.0f %%), node at %d MiB", attack, during, 100*during/before, rss)
		if served != nil {
			t.Errorf("%s: the honest client is not served: %v", attack, served)
		}
		if rss > rssMax {
			t.Errorf("%s: the node has %d MiB", attack, rss)
		}
	}
}

// putRate is what 16 callers get done.
func putRate(t *testing.T, c *client.Client, d time.Duration) float64 {
	t.Helper()
	var done atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	began := time.Now()
	for w := range 16 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := c.Put(ctx, fmt.Sprintf("/honest/%d/%d", w, i%100), make([]byte, 256), client.PutOptions{}); err == nil {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// startAttack runs the attackers. ready is closed once they are at it.
func startAttack(t *testing.T, attack, target string, count int) (ready <-chan struct{}, stop func()) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecurityAttacker$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), stormAttack+"="+attack, stormTarget+"="+target, fmt.Sprintf("%s=%d", stormCount, count))
	cmd.ExtraFiles = []*os.File{in}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = out.Read(make([]byte, 1)) // a byte, or the end of the attackers
	}()
	return done, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		out.Close()
	}
}

// TestSecurityAttacker is the attackers' side of TestSecurityStorm; alone it does nothing.
func TestSecurityAttacker(t *testing.T) {
	attack, target := os.Getenv(stormAttack), os.Getenv(stormTarget)
	if attack == "" {
		t.Skip("it is run by TestSecurityStorm")
	}
	count, _ := strconv.Atoi(os.Getenv(stormCount))
	ready := os.NewFile(3, "ready")
	a := &attacker{target: target, count: count, ready: sync.OnceFunc(func() { _, _ = ready.Write([]byte{1}) })}
	map[string]func(){
		"connections": a.connections, "loris": a.loris, "frames": a.frames, "cancels": a.cancels, "unread": a.unread,
	}[attack]()
	select {} // until it is killed
}

type attacker struct {
	target string
	count  int
	ready  func()
}

// session opens a stream and greets.
func (a *attacker) session(epoch uint64) (transport.ClientStream, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := transport.NewGRPCDialer(transport.DialerOptions{}).Dial(ctx, a.target)
	if err != nil {
		return nil, err
	}
	hello := &messages.ClientHello{Protocol: messages.ProtocolVersion, ClientEpoch: epoch, ClientName: "attacker"}
	if err := s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: hello}}); err != nil {
		return nil, err
	}
	_, err = s.Recv()
	return s, err
}

// connections opens as many sessions as it can and keeps them, with heartbeats.
func (a *attacker) connections() {
	var wg sync.WaitGroup
	share := make(chan struct{}, 32)
	for i := range a.count {
		share <- struct{}{}
		wg.Go(func() {
			s, err := a.session(uint64(i + 1))
			<-share
			if err != nil {
				return
			}
			go func() {
				for {
					if _, err := s.Recv(); err != nil {
						return
					}
				}
			}()
			go func() {
				for n := uint64(1); ; n++ {
					if s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Heartbeat{Heartbeat: &messages.Heartbeat{Number: n}}}) != nil {
						return
					}
					<-time.After(2 * time.Second)
				}
			}()
		})
	}
	wg.Wait()
	a.ready()
}

// loris opens connections and says a byte a second.
func (a *attacker) loris() {
	for range a.count {
		go func() {
			for {
				c, err := net.Dial("tcp", a.target)
				if err != nil {
					<-time.After(time.Second)
					continue
				}
				for _, b := range []byte(preface) {
					if _, err := c.Write([]byte{b}); err != nil {
						break
					}
					<-time.After(time.Second)
				}
				c.Close()
			}
		}()
	}
	a.ready()
}

// frames sends one frame of 100 MiB after the other, from a few connections.
func (a *attacker) frames() {
	value := make([]byte, 100<<20)
	for i := range 4 {
		go func() {
			for {
				s, err := a.session(uint64(i + 1))
				if err != nil {
					continue
				}
				_ = s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{
					ClientEpoch: uint64(i + 1), FirstCall: 1, Operations: []*messages.Operation{
						writeOp(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("k"), Value: value}}}),
					},
				}}})
				a.ready()
				for {
					if _, err := s.Recv(); err != nil {
						break
					}
				}
				s.Close()
			}
		}()
	}
}

// cancels begins watches and ends them at once, over and over.
func (a *attacker) cancels() {
	for i := range 16 {
		go func() {
			s, err := a.session(uint64(i + 1))
			if err != nil {
				return
			}
			go func() {
				for {
					if _, err := s.Recv(); err != nil {
						return
					}
				}
			}()
			a.ready()
			for n := uint64(1); ; n++ {
				w := &messages.Operation{Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{WatchId: n, Selector: prefixA, FromRevision: 1}}}
				if s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{ClientEpoch: uint64(i + 1), FirstCall: n, Operations: []*messages.Operation{w}}}}) != nil ||
					s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: n}}}) != nil {
					return
				}
			}
		}()
	}
}

// unread asks for much and reads nothing.
func (a *attacker) unread() {
	for i := range 64 {
		go func() {
			for {
				s, err := a.session(uint64(i + 1))
				if err != nil {
					continue
				}
				list := queryOp(&messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{Selector: &messages.Selector{By: &messages.Selector_Prefix{}}, Limit: 1_000}}})
				for n := uint64(1); ; n++ {
					if s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{ClientEpoch: uint64(i + 1), FirstCall: n, Operations: []*messages.Operation{list}}}}) != nil {
						break
					}
					if n == 4_000 {
						a.ready()
					}
					<-time.After(time.Millisecond)
				}
				a.ready()
				s.Close()
			}
		}()
	}
}
