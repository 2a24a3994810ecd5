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

// openMany opens a cluster of n replicas with real files in this process and
// returns its leader.
func openMany(b *testing.B, n int, logs config.LogDBFactory) Log {
	b.Helper()
	members := map[uint64]string{}
	for id := range uint64(n) {
		members[id+1] = loopback(b)
	}
	all := map[uint64]Log{}
	for id, address := range members {
		log, err := OpenDragonboat(DragonboatConfig{
			Dir: b.TempDir(), ReplicaID: id, RaftAddress: address, InitialMembers: members, logDB: logs,
		}, &nothing{}, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { log.Close() })
		all[id] = log
	}
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	for _, log := range all {
		if err := log.WaitReady(ctx); err != nil {
			b.Fatal(err)
		}
	}
	return all[all[1].Status().LeaderID]
}

// BenchmarkPropose proposes entries of 256 bytes at the leader with real files and
// fsync, keeping a number of them outstanding, with Tan as it is and behind the
// wrapper. The completion is ours: right after Apply.
func BenchmarkPropose(b *testing.B) {
	for _, replicas := range []int{1, 3} {
		for _, logs := range []struct {
			name  string
			maker config.LogDBFactory
		}{{"plain", logMaker{}}, {"quiet", quietTan{}}} {
			for _, outstanding := range []int{1, 256, 1024} {
				b.Run(fmt.Sprintf("replicas=%d/%s/outstanding=%d", replicas, logs.name, outstanding), func(b *testing.B) {
					proposeMany(b, openMany(b, replicas, logs.maker), outstanding)
				})
			}
		}
	}
}

func proposeMany(b *testing.B, log Log, outstanding int) {
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
}

// BenchmarkReadIndex asks for barriers one by one and many at a time.
func BenchmarkReadIndex(b *testing.B) {
	for _, outstanding := range []int{1, 256} {
		b.Run(fmt.Sprintf("outstanding=%d", outstanding), func(b *testing.B) {
			log := openMany(b, 1, quietTan{})
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
