package session

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	watchhub "github.com/concord-kv/concord/actors/watch"
	"github.com/concord-kv/concord/messages"
)

// yes is a replica that says yes at once.
type yes struct{ result *messages.Result }

func (y *yes) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *messages.Propose:
		results := make([]*messages.Result, len(m.Commands))
		for i := range results {
			results[i] = y.result
		}
		ctx.Send(ctx.Sender(), &messages.Proposed{RequestId: m.RequestId, Results: results})
	case *messages.ReadBarrier:
		ctx.Send(ctx.Sender(), &messages.BarrierReached{RequestId: m.RequestId})
	}
}

// BenchmarkFrames sends frames through a session in process and waits for the
// answers; the figure is for one operation.
func BenchmarkFrames(b *testing.B) {
	value := make([]byte, 256)
	for _, kind := range []string{"put", "get"} {
		for _, c := range []struct{ operations, inFlight int }{{1, 1}, {1, 64}, {64, 1}, {64, 16}} {
			b.Run(fmt.Sprintf("%s/%d_a_frame/%d_in_flight", kind, c.operations, c.inFlight), func(b *testing.B) {
				n := newTown(b, Limits{}, watchhub.Limits{})
				replica := n.spawn("yes", actor.PropsFromProducer(func() actor.Actor {
					return &yes{&messages.Result{Revision: 1, Answer: &messages.Result_Put{Put: &messages.PutResult{}}}}
				}))
				n.gateway.cfg.Replica = replica
				ops := make([]*messages.Operation, c.operations)
				for i := range ops {
					key := fmt.Appendf(nil, "tenant/x/%08d", i)
					if kind == "get" {
						ops[i] = get(string(key), linearizable, 0)
						continue
					}
					ops[i] = write(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: key, Value: value}}})
				}
				g := n.visit()
				b.ReportAllocs()
				b.ResetTimer()
				sent, answered := 0, 0
				for answered < b.N {
					for sent < b.N && sent-answered < c.operations*c.inFlight {
						if err := g.stream.Send(frame(42, uint64(sent), ops...)); err != nil {
							b.Fatal(err)
						}
						sent += len(ops)
					}
					m, err := g.stream.Recv()
					if err != nil {
						b.Fatal(err)
					}
					answered += len(m.GetReplies().GetReplies())
				}
				b.StopTimer()
				if err := n.system.Root.StopFuture(replica).Wait(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
