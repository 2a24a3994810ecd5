package clustertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// TestSecurityAttacker is the attackers' side of TestSecurityStorm; alone it does nothing.
func TestSecurityAttacker(t *testing.T) {
	attack, target := os.Getenv(stormAttack), os.Getenv(stormTarget)
	if target == "" {
		t.Skip("it is run by TestSecurityStorm")
	}
	count, _ := strconv.Atoi(os.Getenv(stormCount))
	pipe := os.NewFile(3, "done")
	a := &attacker{target: target, count: count}
	a.ready = sync.OnceFunc(func() {
		go func() {
			for range time.Tick(20 * time.Millisecond) {
				fmt.Fprintln(pipe, a.done.Load())
			}
		}()
	})
	map[string]func(){
		"connections": a.connections, "hellos": a.hellos, "loris": a.loris, "frames": a.frames,
		"cancels": a.cancels, "unread": a.unread, "stuck": a.stuck, "refused": a.refused,
		"elsewhere": a.elsewhere,
	}[attack]()
	select {} // until it is killed
}

type attacker struct {
	target string
	count  int
	ready  func()       // they are at it
	done   atomic.Int64 // things done to the node
}

// dialFrom connects from a host, by number, that no honest client has.
func dialFrom(ctx context.Context, host byte, address string) (net.Conn, error) {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2+host)}}
	return d.DialContext(ctx, "tcp", address)
}

func dialHostile(ctx context.Context, address string) (net.Conn, error) {
	return dialFrom(ctx, 0, address)
}

// session opens a stream and greets.
func (a *attacker) session(epoch uint64) (transport.ClientStream, error) {
	s, _, err := a.sessionFrom(0, epoch)
	return s, err
}

// sessionFrom also returns how long there may be between two heartbeats.
func (a *attacker) sessionFrom(host byte, epoch uint64) (transport.ClientStream, time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := transport.NewGRPCDialer(transport.DialerOptions{DialContext: func(ctx context.Context, address string) (net.Conn, error) {
		return dialFrom(ctx, host, address)
	}}).Dial(ctx, a.target)
	if err != nil {
		return nil, 0, err
	}
	var heartbeat time.Duration
	hello := &messages.ClientHello{Protocol: messages.ProtocolVersion, ClientEpoch: epoch, ClientName: "attacker"}
	if err = s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: hello}}); err == nil {
		var m *messages.ServerMessage
		m, err = s.Recv()
		heartbeat = time.Duration(m.GetHello().GetHeartbeatMs()) * time.Millisecond
	}
	if err != nil {
		s.Close()
		return nil, 0, err
	}
	return s, heartbeat, nil
}

// each has n attackers do something over and over, each in a session of its own, and gives
// it a number that rises. Where it fails, another session is opened at once.
func (a *attacker) each(n int, do func(s transport.ClientStream, epoch, call uint64) error) {
	for i := range n {
		go func() {
			for {
				s, err := a.session(uint64(i + 1))
				if err != nil {
					continue
				}
				for call := uint64(1); do(s, uint64(i+1), call) == nil; call++ {
					if a.done.Add(1) == int64(n) {
						a.ready()
					}
				}
				s.Close()
				a.ready()
			}
		}()
	}
}

// read takes whatever the node says, until it ends.
func read(s transport.ClientStream) {
	for {
		if _, err := s.Recv(); err != nil {
			return
		}
	}
}

func sendFrame(s transport.ClientStream, epoch, call uint64, ops ...*messages.Operation) error {
	return s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{ClientEpoch: epoch, FirstCall: call, Operations: ops}}})
}

// connections opens as many sessions as it can, from ten hosts, and keeps them, with
// heartbeats.
func (a *attacker) connections() {
	var wg sync.WaitGroup
	share := make(chan struct{}, 32)
	for i := range a.count {
		share <- struct{}{}
		wg.Go(func() {
			s, heartbeat, err := a.sessionFrom(byte(i%10), uint64(i+1))
			<-share
			if err != nil {
				return
			}
			go read(s)
			go func() {
				for n := uint64(1); ; n++ {
					if s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Heartbeat{Heartbeat: &messages.Heartbeat{Number: n}}}) != nil {
						return
					}
					a.done.Add(1)
					<-time.After(max(heartbeat, 100*time.Millisecond)) // a refusal has none
				}
			}()
		})
	}
	wg.Wait()
	a.ready()
}

// hellos opens sessions and ends them, as fast as it can.
func (a *attacker) hellos() {
	for range 16 {
		go func() {
			for n := uint64(1); ; n++ {
				if s, err := a.session(n); err == nil {
					s.Close()
					read(s)
				}
				a.done.Add(1)
				a.ready()
			}
		}()
	}
}

// loris opens connections and says a byte a second.
func (a *attacker) loris() {
	for range a.count {
		go func() {
			for {
				c, err := dialHostile(context.Background(), a.target)
				if err != nil {
					<-time.After(time.Second)
					continue
				}
				for _, b := range []byte(preface) {
					if _, err := c.Write([]byte{b}); err != nil {
						break
					}
					a.done.Add(1)
					<-time.After(time.Second)
				}
				c.Close()
			}
		}()
	}
	a.ready()
}

// frames sends one frame of 100 MiB after the other.
func (a *attacker) frames() {
	put := writeOp(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("k"), Value: make([]byte, 100<<20)}}})
	a.each(4, func(s transport.ClientStream, epoch, call uint64) error {
		if err := sendFrame(s, epoch, call, put); err != nil {
			return err
		}
		a.done.Add(1)
		read(s)
		return net.ErrClosed
	})
}

// cancels begins watches and ends them at once, over and over.
func (a *attacker) cancels() {
	a.each(16, func(s transport.ClientStream, epoch, call uint64) error {
		if call == 1 {
			go read(s)
		}
		w := &messages.Operation{Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{WatchId: call, Selector: prefixA, FromRevision: 1}}}
		if err := sendFrame(s, epoch, call, w); err != nil {
			return err
		}
		return s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: call}}})
	})
}

// unread asks for much and reads nothing.
func (a *attacker) unread() {
	list := queryOp(&messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{Selector: everything, Limit: 1_000}}})
	a.each(a.count, func(s transport.ClientStream, epoch, call uint64) error { return sendFrame(s, epoch, call, list) })
}

var everything = &messages.Selector{By: &messages.Selector_Prefix{}}

// stuck watches all that happens, grants all credit there is, and reads nothing.
func (a *attacker) stuck() {
	watch := &messages.Operation{Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{WatchId: 1, Selector: everything, FromRevision: 1,
		CreditEvents: messages.WatchCreditEventsMax, CreditBytes: messages.WatchCreditBytesMax}}}
	a.each(a.count, func(s transport.ClientStream, epoch, call uint64) error {
		if call == 1 {
			return sendFrame(s, epoch, call, watch)
		}
		<-time.After(time.Second)
		return s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Heartbeat{Heartbeat: &messages.Heartbeat{Number: call}}})
	})
}

// elsewhere burns count hundredths of a core and leaves the node alone.
func (a *attacker) elsewhere() {
	const threads, period = 2, time.Millisecond
	for range threads {
		go func() {
			for {
				began := time.Now()
				burn := time.Duration(a.count) * period / 100 / threads
				for time.Since(began) < burn {
					a.done.Add(1)
				}
				<-time.After(period - burn)
			}
		}()
	}
	a.ready()
}

// refused asks for what makes no sense, a thousand times in a frame, and reads the answers.
func (a *attacker) refused() {
	ops := make([]*messages.Operation, messages.FrameOperationsMax)
	for i := range ops {
		ops[i] = &messages.Operation{}
	}
	a.each(16, func(s transport.ClientStream, epoch, call uint64) error {
		if call == 1 {
			go read(s)
		}
		return sendFrame(s, epoch, call*uint64(len(ops)), ops...)
	})
}
