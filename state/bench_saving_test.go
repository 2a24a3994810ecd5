package state

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/concord-kv/concord/messages"
)

// threadTime is the processor time of this thread: what the wall clock would show if
// the thread had a processor for itself.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// TestPutLatencyWhileSaving reports what batches of puts of random keys take, in their
// thread's processor time, while a snapshot is saved beside them, as ratios to as long a
// time before it without one. The collector starts each round anew; where in a round it
// runs is chance, so that what counts is all rounds together. Run with CONCORD_BENCH_KEYS.
func TestPutLatencyWhileSaving(t *testing.T) {
	if os.Getenv("CONCORD_BENCH_KEYS") == "" {
		t.Skip("set CONCORD_BENCH_KEYS")
	}
	n := benchKeys()
	p := newPutter(t, n)
	took := time.Second // by the last save
	var allAlone, allSaving []time.Duration
	for round := range savingRounds {
		p.trim()
		runtime.GC()
		alone := p.during(func() { <-time.After(took) })
		p.trim() // else what was put alone would be saved too
		runtime.GC()
		v := p.View()
		saving := p.during(func() {
			start := time.Now()
			if err := v.Save(new(discard)); err != nil {
				t.Error(err)
			}
			took = time.Since(start)
		})
		if round == 0 {
			continue // it warms up
		}
		compare(t, fmt.Sprintf("round %d", round), alone, saving)
		allAlone, allSaving = append(allAlone, alone...), append(allSaving, saving...)
	}
	compare(t, "all rounds", allAlone, allSaving)
}

// savingRounds are rounds of a second or two each.
const savingRounds = 16

func compare(t *testing.T, what string, alone, saving []time.Duration) {
	a, s := summary(alone), summary(saving)
	t.Logf("%s: alone %v, saving %v: mean %.2f, p50 %.2f, p99 %.2f", what, a, s,
		ratio(s.mean, a.mean), ratio(s.p50, a.p50), ratio(s.p99, a.p99))
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// putter applies batches of puts of random keys.
type putter struct {
	*bench
	random *rand.Rand
	keys   [][]byte
	batch  []*messages.Command
}

func newPutter(t testing.TB, n int) *putter {
	p := &putter{bench: newBench(t), random: rand.New(rand.NewPCG(1, 2)), keys: make([][]byte, n)}
	p.fill(t, n)
	for i := range p.keys {
		p.keys[i] = benchKey(i)
	}
	value := make([]byte, benchValueBytes)
	for range benchBatch {
		p.batch = append(p.batch, putCommand(nil, value))
	}
	return p
}

// trim drops the history, so that rounds are alike.
func (p *putter) trim() {
	p.apply(&messages.Command{Op: &messages.Command_Compact{Compact: &messages.Compact{Revision: p.Revision()}}})
	for p.Sweep(1 << 20) {
	}
}

// latency is what batches took.
type latency struct {
	batches        int
	mean, p50, p99 time.Duration
}

func (l latency) String() string {
	return fmt.Sprintf("%d batches, mean %v, p50 %v, p99 %v", l.batches, l.mean, l.p50, l.p99)
}

// summary sorts what batches took.
func summary(took []time.Duration) latency {
	slices.Sort(took)
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	return latency{len(took), sum / time.Duration(len(took)), took[len(took)/2], took[len(took)*99/100]}
}

// during puts until work is done, and returns what each batch took.
func (p *putter) during(work func()) (took []time.Duration) {
	done := make(chan struct{})
	go func() {
		work()
		close(done)
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case <-done:
			return took
		default:
		}
		for _, c := range p.batch {
			c.GetPut().Key = p.keys[p.random.IntN(len(p.keys))]
		}
		start := threadTime()
		p.apply(p.batch...)
		took = append(took, threadTime()-start)
	}
}
