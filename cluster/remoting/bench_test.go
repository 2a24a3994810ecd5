package remoting

import (
	"fmt"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// BenchmarkEcho measures frames that a session answers over a remoting stream, by
// operations in a frame and frames outstanding. Both ends share the machine.
func BenchmarkEcho(b *testing.B) {
	for _, ops := range []int{1, 64} {
		for _, outstanding := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("ops=%d/outstanding=%d", ops, outstanding), func(b *testing.B) {
				w := newWorld(b)
				s := w.dial(w.client(nil), w.node(echo, nil).Address())
				mustGreet(b, s)
				f := frame(1, 256)
				for range ops - 1 {
					f.GetFrame().Operations = append(f.GetFrame().Operations, f.GetFrame().Operations[0])
				}
				slots := make(chan struct{}, outstanding)
				failed := make(chan error, 1)
				b.ReportAllocs()
				b.ResetTimer()
				go func() {
					for range b.N {
						slots <- struct{}{}
						if err := s.Send(f); err != nil {
							failed <- err
							return
						}
					}
				}()
				for range b.N {
					m, err := s.Recv()
					if err != nil {
						b.Fatal(err)
					}
					if len(m.GetReplies().GetReplies()) != ops {
						b.Fatal(messages.CodeOf(err), m)
					}
					<-slots
				}
				b.ReportMetric(float64(b.N)*float64(ops)/b.Elapsed().Seconds(), "ops/s")
				b.StopTimer()
				s.Close()
			})
		}
	}
}
