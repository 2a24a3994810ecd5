package sim

import (
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// board knows the mailboxes of one boot of one node that hold messages. Any goroutine
// may post; only the world takes.
type board struct {
	mu      sync.Mutex
	ready   []*mailbox // by number
	numbers int
	dead    bool // nothing is taken in any more
	// posted sees each message on its way in, in whatever goroutine posts it; handled
	// sees it when the actor gets it, in the world's.
	posted, handled func(who string, message any)
}

// mailbox is an actor's, with the world as its dispatcher: each message is handled
// when the world says so. System messages go first, as in the library's own.
type mailbox struct {
	board   *board
	name    string
	number  int
	invoker actor.MessageInvoker

	system, user []any
	suspended    bool
	queued       bool
	inline       bool // a caller in the world's goroutine waits for what it posts
	draining     bool
}

// props returns the options that give actors of this name a mailbox of the board.
func (b *board) props(name string) []actor.PropsOption {
	return []actor.PropsOption{actor.WithMailbox(func() actor.Mailbox { return b.add(name) })}
}

func (b *board) add(name string) *mailbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.numbers++
	return &mailbox{board: b, name: name, number: b.numbers}
}

// PostUserMessage implements actor.Mailbox.
func (m *mailbox) PostUserMessage(message any) { m.post(message, false) }

// PostSystemMessage implements actor.Mailbox.
func (m *mailbox) PostSystemMessage(message any) { m.post(message, true) }

// RegisterHandlers implements actor.Mailbox.
func (m *mailbox) RegisterHandlers(i actor.MessageInvoker, _ actor.Dispatcher) { m.invoker = i }

// Start implements actor.Mailbox.
func (m *mailbox) Start() {}

// UserMessageCount implements actor.Mailbox.
func (m *mailbox) UserMessageCount() int {
	m.board.mu.Lock()
	defer m.board.mu.Unlock()
	return len(m.user)
}

func (m *mailbox) post(message any, system bool) {
	b := m.board
	b.posted(m.name, message)
	b.mu.Lock()
	if b.dead {
		b.mu.Unlock()
		return
	}
	if system {
		m.system = append(m.system, message)
	} else {
		m.user = append(m.user, message)
	}
	if !m.queued {
		m.queued = true
		i, _ := slices.BinarySearchFunc(b.ready, m.number, func(o *mailbox, n int) int { return o.number - n })
		b.ready = slices.Insert(b.ready, i, m)
	}
	drain := m.inline && !m.draining
	b.mu.Unlock()
	if drain {
		m.draining = true
		for m.handle() {
		}
		m.draining = false
	}
}

// count returns how many mailboxes hold something.
func (b *board) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ready)
}

// at returns the i-th of them; nil if it is gone.
func (b *board) at(i int) *mailbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i >= len(b.ready) {
		return nil
	}
	return b.ready[i]
}

// handle lets the actor handle one message; false if there is none.
func (m *mailbox) handle() bool {
	b := m.board
	b.mu.Lock()
	var message any
	system := len(m.system) > 0
	switch {
	case system:
		message, m.system = m.system[0], m.system[1:]
	case len(m.user) > 0 && !m.suspended:
		message, m.user = m.user[0], m.user[1:]
	}
	if m.queued && len(m.system) == 0 && (len(m.user) == 0 || m.suspended) {
		m.queued = false
		b.ready = slices.DeleteFunc(b.ready, func(o *mailbox) bool { return o == m })
	}
	b.mu.Unlock()
	if message == nil {
		return false
	}
	b.handled(m.name, message)
	defer func() {
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, message)
		}
	}()
	switch message.(type) {
	case *actor.SuspendMailbox:
		m.suspended = true
	case *actor.ResumeMailbox:
		m.suspended = false
		m.requeue()
	default:
		if system {
			m.invoker.InvokeSystemMessage(message)
		} else {
			m.invoker.InvokeUserMessage(message)
		}
	}
	return true
}

func (m *mailbox) requeue() {
	b := m.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if !m.queued && len(m.user) > 0 {
		m.queued = true
		i, _ := slices.BinarySearchFunc(b.ready, m.number, func(o *mailbox, n int) int { return o.number - n })
		b.ready = slices.Insert(b.ready, i, m)
	}
}
