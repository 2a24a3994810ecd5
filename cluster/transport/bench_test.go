package transport

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/messages"
)

// BenchmarkEcho measures frames that a handler answers: operations a second and
// the median round trip, by operations in a frame and frames outstanding. Client
// and node share the machine.
func BenchmarkEcho(b *testing.B) {
	for _, kind := range []string{KindInProcess, KindGRPC} {
		for _, ops := range []int{1, 64} {
			for _, outstanding := range []int{1, 16, 256} {
				b.Run(fmt.Sprintf("%s/ops=%d/outstanding=%d", kind, ops, outstanding), func(b *testing.B) {
					var c ClientStream
					if kind == KindInProcess {
						c = mustDial(b, NewInProcess(echo), "here")
					} else {
						c = mustDial(b, NewGRPCDialer(DialerOptions{}), serve(b, echo, ServerOptions{}).Addr().String())
					}
					benchEcho(b, c, ops, outstanding)
				})
			}
		}
	}
}

func benchEcho(b *testing.B, c ClientStream, ops, outstanding int) {
	operations := make([]*messages.Operation, ops)
	for i := range operations {
		operations[i] = &messages.Operation{Operation: &messages.Operation_Write{Write: &messages.Write{
			Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("bench/key-0001"), Value: make([]byte, 256)}},
		}}}
	}
	started := make([]time.Time, outstanding)
	took := make([]time.Duration, 0, min(b.N, 1<<20))
	slots := make(chan int, outstanding)
	for i := range outstanding {
		slots <- i
	}
	var wg sync.WaitGroup
	wg.Add(1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		defer wg.Done()
		for range b.N {
			m, err := c.Recv()
			if err != nil {
				b.Error(err)
				return
			}
			slot := int(m.GetReplies().GetClientEpoch())
			if len(took) < cap(took) {
				took = append(took, time.Since(started[slot]))
			}
			slots <- slot
		}
	}()
	for range b.N {
		slot := <-slots
		started[slot] = time.Now()
		// The epoch carries the slot: echo gives it back.
		f := &messages.Frame{ClientEpoch: uint64(slot), FirstCall: 1, Operations: operations}
		if err := c.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: f}}); err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)*float64(ops)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
}

// BenchmarkDial measures one connection: dial, one round trip, close.
func BenchmarkDial(b *testing.B) {
	s := serve(b, echo, ServerOptions{})
	d := NewGRPCDialer(DialerOptions{})
	for b.Loop() {
		c, err := d.Dial(b.Context(), s.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		c.Send(beat(1))
		c.Recv()
		c.Close()
		drain(c)
	}
}
