package replica

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/consensus/memlog"
	"github.com/concord-kv/concord/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is an applier that knows the lease clock and answers a put with its stamp.
type echo struct {
	mu        sync.Mutex // the owner is also read by apply's stand-in
	epoch     uint64
	nonce     uint64
	clockMs   int64
	commands  atomic.Int64
	entries   atomic.Int64
	unordered atomic.Int64
}

func (e *echo) Apply(entries []consensus.Entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range entries {
		m := &messages.Entry{}
		if err := proto.Unmarshal(entries[i].Payload, m); err != nil {
			panic(err)
		}
		e.entries.Add(1)
		for _, c := range m.GetCommands() {
			r := &messages.Result{}
			switch k := c.GetClaimClock(); {
			case k != nil && k.GetExpectedEpoch() != e.epoch:
				r.Error = messages.NewError(messages.Code_CODE_CLAIM_REFUSED, "").Detail
			case k != nil:
				e.epoch, e.nonce = e.epoch+1, k.GetNonce()
				r.Answer = &messages.Result_ClaimClock{ClaimClock: &messages.ClaimClockResult{Epoch: e.epoch, ClockMs: e.clockMs}}
			case m.GetEpoch() != e.epoch || m.GetNonce() != e.nonce:
				r.Error = messages.NewError(messages.Code_CODE_STALE_CLOCK, "").Detail
			default:
				if c.GetStampMs() < e.clockMs {
					e.unordered.Add(1)
				}
				e.clockMs = c.GetStampMs()
				e.commands.Add(1)
				r.Revision = uint64(c.GetStampMs())
			}
			entries[i].Results = append(entries[i].Results, r)
		}
	}
}

func (e *echo) owner() *messages.ClockOwner {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &messages.ClockOwner{Epoch: e.epoch, ReplicaId: 1, Nonce: e.nonce}
}

func (e *echo) Freeze() consensus.Frozen        { panic("not frozen here") }
func (e *echo) Restore(uint64, io.Reader) error { panic("not restored here") }

type steady struct{ start time.Time }

func (s steady) MonotonicMs() int64 { return time.Since(s.start).Milliseconds() }

// stage is a replica actor over a log of one, with an apply that only knows the
// owner of the clock.
type stage struct {
	system  *actor.ActorSystem
	replica *actor.PID
	echo    *echo
	owned   chan *messages.ClockOwned
}

func newStage(t testing.TB) *stage {
	s := &stage{
		system: actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
			return slog.New(slog.DiscardHandler)
		})),
		echo: &echo{clockMs: 1_000_000}, owned: make(chan *messages.ClockOwned, 16),
	}
	apply := s.system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*messages.AskClockOwner); ok {
			ctx.Respond(s.echo.owner())
		}
	}))
	expiry := s.system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(*messages.ClockOwned); ok {
			s.owned <- m
		}
	}))
	pid := s.system.NewLocalPID("replica")
	log := memlog.NewSingle(s.echo, Listener{System: s.system, PID: pid})
	var nonce atomic.Uint64
	var err error
	s.replica, err = s.system.Root.SpawnNamed(Props(Config{
		Log: log, Clock: steady{time.Now()}, Nonce: func() uint64 { return nonce.Add(1) },
		Telemetry: quiet{}, Apply: apply, Expiry: expiry,
	}), "replica")
	if err != nil {
		t.Fatal(err)
	}
	ticks := time.NewTicker(10 * time.Millisecond)
	quit, quiet := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(quiet)
		for {
			select {
			case <-ticks.C:
				s.system.Root.Send(s.replica, &messages.ClockTick{})
			case <-quit:
				return
			}
		}
	}()
	t.Cleanup(func() {
		ticks.Stop()
		close(quit)
		<-quiet
		for _, p := range []*actor.PID{s.replica, apply, expiry} {
			if err := s.system.Root.StopFuture(p).Wait(); err != nil {
				t.Error(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		s.system.Shutdown()
	})
	return s
}

func (s *stage) awaitOwner(t testing.TB) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case m := <-s.owned:
			if m.GetOwned() {
				return
			}
		case <-deadline:
			t.Fatal("the clock was not claimed")
		}
	}
}

// caller is an actor that keeps so many requests of so many commands in flight.
func (s *stage) caller(requests, commands, inFlight int, done chan<- error) *actor.PID {
	propose := func(ctx actor.Context, id int) {
		m := &messages.Propose{RequestId: uint64(id), TimeoutMs: 10_000}
		for range commands {
			m.Commands = append(m.Commands, put("key"))
		}
		ctx.Request(s.replica, m)
	}
	sent, left := 0, map[uint64]int{}
	return s.system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			for ; sent < min(inFlight, requests); sent++ {
				left[uint64(sent)] = commands
				propose(ctx, sent)
			}
		case *messages.Proposed:
			for _, r := range m.GetResults() {
				if r.GetError() != nil {
					done <- fmt.Errorf("request %d: %v", m.GetRequestId(), r.GetError())
				}
			}
			if left[m.GetRequestId()] -= len(m.GetResults()); left[m.GetRequestId()] > 0 {
				return
			}
			delete(left, m.GetRequestId())
			if sent < requests {
				left[uint64(sent)] = commands
				propose(ctx, sent)
				sent++
			} else if len(left) == 0 {
				done <- nil
				ctx.Stop(ctx.Self())
			}
		}
	}))
}

func TestActorAnswersEachCommandOnce(t *testing.T) {
	s := newStage(t)
	s.awaitOwner(t)
	const callers, requests, commands = 8, 200, 3
	done := make(chan error, callers*requests*commands)
	for range callers {
		s.caller(requests, commands, 16, done)
	}
	for range callers {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("not every request was answered")
		}
	}
	if got := s.echo.commands.Load(); got != callers*requests*commands {
		t.Errorf("%d commands were applied", got)
	}
	if s.echo.unordered.Load() != 0 {
		t.Error("a stamp went back")
	}
}

func BenchmarkPropose(b *testing.B) {
	for _, callers := range []int{1, 16, 256, 1024} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := newStage(b)
			s.awaitOwner(b)
			claims := s.echo.entries.Load()
			done := make(chan error, callers)
			b.ReportAllocs()
			b.ResetTimer()
			each := b.N/callers + 1
			for range callers {
				s.caller(each, 1, 1, done)
			}
			for range callers {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			n := float64(each * callers)
			b.ReportMetric(n/b.Elapsed().Seconds(), "commands/s")
			b.ReportMetric(n/float64(s.echo.entries.Load()-claims), "commands/entry")
		})
	}
}
