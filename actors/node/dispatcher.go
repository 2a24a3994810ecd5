package node

import "github.com/asynkron/protoactor-go/actor"

// roomyDispatcher runs a mailbox as actor's own does, on a new goroutine for as long as
// it has messages, but on one whose stack has grown before it begins. A new stack is
// small, and to grow it in the middle of applying a batch means to find and adjust the
// pointers of a dozen frames, more than once: a twentieth of what a node did for a put of
// a lone client.
type roomyDispatcher struct{}

var _ actor.Dispatcher = roomyDispatcher{}

// Schedule implements actor.Dispatcher.
func (roomyDispatcher) Schedule(fn func()) {
	go func() {
		growStack()
		fn()
	}()
}

// Throughput implements actor.Dispatcher: messages between two offers to let others run.
// It is what actor's own dispatcher has.
func (roomyDispatcher) Throughput() int { return 300 }

// stackRoom is about what the deepest of the node's actors needs.
const stackRoom = 8 << 10

// growStack has the stack grow once, while there is nothing on it.
//
//go:noinline
func growStack() byte {
	var room [stackRoom]byte
	return room[stackAt&(stackRoom-1)]
}

var stackAt int // is not known when the program is compiled
