package sim

import (
	"fmt"
	"hash/fnv"
	"reflect"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

// trace notes what crosses a port. Two runs of one seed note the same, byte for byte.
func (w *World) trace(format string, args ...any) {
	if w.opts.Trace != nil {
		fmt.Fprintf(w.opts.Trace, "%d "+format+"\n", append([]any{w.steps}, args...)...)
	}
}

func (w *World) traceMessage(node uint64, who string, m any) {
	if w.opts.Trace == nil {
		return
	}
	if p, ok := m.(proto.Message); ok && !isActorMessage(m) {
		b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(p)
		w.trace("actor n%d %s %T %016x", node, who, m, hashBytes(b))
		return
	}
	w.trace("actor n%d %s %s", node, who, reflect.TypeOf(m))
}

// isActorMessage tells the library's own messages: they name processes.
func isActorMessage(m any) bool {
	switch m.(type) {
	case *actor.Terminated, *actor.Watch, *actor.Unwatch, *actor.DeadLetterResponse:
		return true
	}
	return false
}

func hashBytes(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b) // never fails
	return h.Sum64()
}

// name says which way the connection goes that c sends on.
func (c *conn) name() string {
	if c.atNode {
		return fmt.Sprintf("n%d>%s#%d", c.node, c.client, c.number/2)
	}
	return fmt.Sprintf("%s>n%d#%d", c.client, c.node, c.number/2)
}
