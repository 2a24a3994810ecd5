package node

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// failStop ends the node when one of its actors panics. The actor library would
// restart the actor with fresh state and go on, which for these actors means a
// wrong replica, and a wrong replica is worse than a missing one.
type failStop struct {
	logger *slog.Logger
	fail   func(reason any, stack []byte)

	once   sync.Once
	failed atomic.Bool
	// halted is closed at the first failure, for those who wait on an actor.
	halted chan struct{}
}

func newFailStop(logger *slog.Logger, fail func(any, []byte)) *failStop {
	return &failStop{logger: logger, fail: fail, halted: make(chan struct{})}
}

// guard adds the middleware to an actor's props.
func (f *failStop) guard(props *actor.Props) *actor.Props {
	return props.Configure(actor.WithReceiverMiddleware(f.middleware))
}

func (f *failStop) middleware(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
		if f.failed.Load() {
			return // where fail returns, in tests, nothing may go on from a broken state
		}
		defer func() {
			if r := recover(); r != nil {
				f.stop(ctx.Self().GetId(), r, debug.Stack())
			}
		}()
		next(ctx, envelope)
	}
}

func (f *failStop) stop(who string, reason any, stack []byte) {
	f.once.Do(func() {
		f.failed.Store(true)
		close(f.halted)
		f.logger.Error("an actor failed: the node stops",
			"actor", who, "reason", fmt.Sprint(reason), "stack", string(stack))
		f.fail(reason, stack)
	})
}

// exitProcess is what production does. The exit code is EX_SOFTWARE of sysexits.
func exitProcess(reason any, stack []byte) {
	fmt.Fprintf(os.Stderr, "concord: fail-stop: %v\n%s\n", reason, stack)
	os.Exit(70)
}
