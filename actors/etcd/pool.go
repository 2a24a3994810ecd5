package etcd

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/concord-kv/concord/messages"
)

// pool is the connections that the calls of one client share. One that has ended is
// opened again by the next call that comes to it.
type pool struct {
	open  func(context.Context) (*conn, error)
	slots []poolSlot
	turn  atomic.Uint32
	used  time.Duration // guarded by the lock of sessions
}

type poolSlot struct {
	mu     sync.Mutex
	conn   *conn
	closed bool
}

func newPool(open func(context.Context) (*conn, error), n int) *pool {
	return &pool{open: open, slots: make([]poolSlot, n)}
}

// get returns a live connection.
func (p *pool) get(ctx context.Context) (*conn, error) {
	s := &p.slots[p.turn.Add(1)%uint32(len(p.slots))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, messages.NewError(messages.Code_CODE_NODE_STOPPING, "the connection is being closed")
	}
	if s.conn != nil {
		select {
		case <-s.conn.done:
		default:
			return s.conn, nil
		}
	}
	c, err := p.open(ctx)
	s.conn = c
	return c, err
}

func (p *pool) close() {
	for i := range p.slots {
		s := &p.slots[i]
		s.mu.Lock()
		s.closed = true
		if s.conn != nil {
			s.conn.close()
		}
		s.mu.Unlock()
	}
}
