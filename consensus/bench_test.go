package consensus

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/config"

	"github.com/concord-kv/concord/messages"
)

// nothing is an applier that does nothing.
type nothing struct{ words }

func (*nothing) Apply([]Entry) {}

// BenchmarkPropose proposes entries of 256 bytes on one replica with real files and
// fsync, keeping a number of them outstanding, with Tan as it is and behind the
// wrapper. The completion is ours: right after Apply.
func BenchmarkPropose(b *testing.B) {
	for _, logs := range []struct {
		name  string
		maker config.LogDBFactory
	}{{"plain", logMaker{}}, {"quiet", quietTan{}}} {
		for _, outstanding := range []int{1, 256, 1024} {
			b.Run(fmt.Sprintf("%s/outstanding=%d", logs.name, outstanding), func(b *testing.B) {
				log, err := OpenDragonboat(DragonboatConfig{
					Dir: b.TempDir(), ReplicaID: 1, RaftAddress: loopback(b), logDB: logs.maker,
				}, &nothing{}, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer log.Close()
				ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
				defer cancel()
				if err := log.WaitReady(ctx); err != nil {
					b.Fatal(err)
				}
				room := make(chan struct{}, outstanding)
				payload := make([]byte, 256)
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					room <- struct{}{}
					log.Propose(payload, time.Minute, func(_ []*messages.Result, err error) {
						if err != nil {
							b.Error(err)
						}
						<-room
					})
				}
				for range outstanding {
					room <- struct{}{}
				}
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "proposals/s")
			})
		}
	}
}

// BenchmarkReadIndex asks for barriers one by one and many at a time.
func BenchmarkReadIndex(b *testing.B) {
	for _, outstanding := range []int{1, 256} {
		b.Run(fmt.Sprintf("outstanding=%d", outstanding), func(b *testing.B) {
			log, err := OpenDragonboat(DragonboatConfig{Dir: b.TempDir(), ReplicaID: 1, RaftAddress: loopback(b)}, &nothing{}, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer log.Close()
			if err := log.WaitReady(b.Context()); err != nil {
				b.Fatal(err)
			}
			room := make(chan struct{}, outstanding)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				room <- struct{}{}
				log.ReadIndex(time.Minute, func(err error) {
					if err != nil {
						b.Error(err)
					}
					<-room
				})
			}
			for range outstanding {
				room <- struct{}{}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "barriers/s")
		})
	}
}
