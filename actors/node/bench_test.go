package node_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
)

// BenchmarkPut writes 256-byte values through sessions in this process to a real
// log on disk; each client has one frame in flight.
func BenchmarkPut(b *testing.B) {
	for _, shape := range []struct{ clients, frame int }{{1, 1}, {16, 1}, {256, 1}, {64, 64}} {
		b.Run(fmt.Sprintf("clients=%d/frame=%d", shape.clients, shape.frame), func(b *testing.B) {
			n, err := node.Start(node.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer n.Close()
			value := make([]byte, 256)
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan error, shape.clients)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range shape.clients {
				s, err := n.Dialer().Dial(context.Background(), "")
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				go func() {
					epoch := uint64(i + 1)
					err := s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: &messages.ClientHello{
						Protocol: messages.ProtocolVersion, ClientEpoch: epoch,
					}}})
					call := uint64(1)
					for err == nil && left.Add(-int64(shape.frame)) > -int64(shape.frame) {
						ops := make([]*messages.Operation, shape.frame)
						for k := range ops {
							ops[k] = &messages.Operation{Operation: &messages.Operation_Write{Write: &messages.Write{
								Op: &messages.Write_Put{Put: &messages.Put{Key: fmt.Appendf(nil, "/bench/%d/%d", i, call%1000), Value: value}},
							}}}
						}
						if err = s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{
							ClientEpoch: epoch, FirstCall: call, Operations: ops,
						}}}); err != nil {
							break
						}
						call += uint64(shape.frame)
						for got := 0; got < shape.frame && err == nil; {
							var m *messages.ServerMessage
							if m, err = s.Recv(); err != nil {
								break
							}
							for _, r := range m.GetReplies().GetReplies() {
								if got++; r.GetResult() == nil || r.GetResult().GetError() != nil {
									err = fmt.Errorf("refused: %v", r)
								}
							}
						}
					}
					done <- err
				}()
			}
			for range shape.clients {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
			if s, err := n.Status(context.Background()); err == nil {
				b.ReportMetric(float64(b.N)/float64(s.GetAppliedIndex()), "puts/entry")
			}
		})
	}
}
