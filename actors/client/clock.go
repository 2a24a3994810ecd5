package client

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
)

// Clock is how the client tells time. Simulations bring their own.
type Clock interface {
	// Now reads a clock that never goes back and, where the system has one, goes on
	// while the machine is suspended: a holder that slept past its lease must see so.
	Now() time.Duration
	// AfterFunc runs f on a goroutine of its own after d.
	AfterFunc(d time.Duration, f func()) Timer
}

// Stepper is what the Clock of a simulation may be as well: Step is called by a goroutine
// of the client, named by what it does, before it goes on with something that another
// may be doing at the same time, and returns when it is its turn. No lock is held.
type Stepper interface{ Step(what string) }

func step(c Clock, what string) {
	if s, ok := c.(Stepper); ok {
		s.Step(what)
	}
}

// stepAt is step before a request is sent and after it was answered, named by who does
// what and by what the request says.
func stepAt(c Clock, who, what string, m proto.Message) {
	if s, ok := c.(Stepper); ok {
		b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		s.Step(StepCall + what + " " + who + " " + string(b))
	}
}

// stepCall is stepAt for the call of a context, whose name is looked up only for a Stepper.
func stepCall(ctx context.Context, c Clock, what string, m proto.Message) {
	if _, ok := c.(Stepper); ok {
		stepAt(c, stepName(ctx), what, m)
	}
}

// StepCall is how the name of a Step begins that comes before a request is sent, and when
// something came that a goroutine has waited for: what calls do, and recipes with them.
const StepCall = "call "

// StepAfter is a Step of a goroutine that has waited and goes on, for recipes. It does
// nothing unless the clock is a Stepper.
func StepAfter(ctx context.Context, c Clock, what string) {
	if s, ok := c.(Stepper); ok {
		s.Step(StepCall + what + " " + stepName(ctx))
	}
}

type stepNameKey struct{}

// NameSteps returns a context whose calls have a name for a Stepper, which tells two that
// ask the same at one time apart.
func NameSteps(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, stepNameKey{}, name)
}

func stepName(ctx context.Context) string {
	name, _ := ctx.Value(stepNameKey{}).(string)
	return name
}

// Pause waits on a clock; false when ctx was over first, also for no time at all.
func Pause(ctx context.Context, clock Clock, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	over := make(chan struct{})
	t := clock.AfterFunc(d, func() { close(over) })
	defer t.Stop()
	select {
	case <-over:
		StepAfter(ctx, clock, "pause")
		return true
	case <-ctx.Done():
		StepAfter(ctx, clock, "pause")
		return false
	}
}

// Timer is what Clock.AfterFunc returns; *time.Timer is one.
type Timer interface {
	// Reset makes f run after d from now.
	Reset(d time.Duration) bool
	// Stop keeps f from running unless it has started.
	Stop() bool
}

// SystemClock is the machine's clock.
func SystemClock() Clock {
	c := &systemClock{start: time.Now()}
	c.Now() // from here on About knows by how much the two differ
	return c
}

type systemClock struct {
	start time.Time
	// asleep is by how much the system's clock is ahead of Go's, which stands still while
	// the machine is suspended; as Now saw it last.
	asleep atomic.Int64
}

func (c *systemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

func (c *systemClock) Now() time.Duration {
	d, ok := bootTime()
	if !ok {
		return time.Since(c.start)
	}
	// Both go at one pace; what they differ by, but for the time between the two readings,
	// is sleep. About stays behind by that little.
	if asleep := int64(d - time.Since(c.start)); asleep-c.asleep.Load() > int64(time.Millisecond) {
		c.asleep.Store(asleep - int64(time.Millisecond)/2)
	}
	return d
}

// About is Now without a system call. It is never ahead of it; it is behind by a
// millisecond at most, or by as long as the machine has slept since somebody called Now.
func (c *systemClock) About() time.Duration {
	return time.Since(c.start) + time.Duration(c.asleep.Load())
}

// about reads a clock for the deadline of a call, which may be that much too early.
func about(c Clock) time.Duration {
	if s, ok := c.(*systemClock); ok {
		return s.About()
	}
	return c.Now()
}

// timeLeft is how long a context may still run, and whether it says.
func timeLeft(ctx context.Context) (time.Duration, bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0, false
	}
	return time.Until(deadline), true
}
