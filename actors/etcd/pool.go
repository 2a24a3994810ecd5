package etcd

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/concord-kv/concord/messages"
)

// pool is the connections that unary calls share. One that has ended is opened again
// by the next call that comes to it.
type pool struct {
	dial  func(context.Context) (Stream, error)
	slots []poolSlot
	turn  atomic.Uint32
}

type poolSlot struct {
	mu     sync.Mutex
	conn   *conn
	closed bool
}

func newPool(dial func(context.Context) (Stream, error), n int) *pool {
	return &pool{dial: dial, slots: make([]poolSlot, n)}
}

// get returns a live connection.
func (p *pool) get(ctx context.Context) (*conn, error) {
	s := &p.slots[p.turn.Add(1)%uint32(len(p.slots))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node stops")
	}
	if s.conn != nil {
		select {
		case <-s.conn.done:
		default:
			return s.conn, nil
		}
	}
	c, err := openConn(ctx, p.dial, "etcd", nil)
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

// write proposes a change and returns what apply answered.
func (p *pool) write(ctx context.Context, w *messages.Write) (*messages.Result, error) {
	c, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	return resultOf(c.do(ctx, &messages.Operation{Operation: &messages.Operation_Write{Write: w}}))
}

func resultOf(r *messages.Reply, err error) (*messages.Result, error) {
	if err != nil {
		return nil, err
	}
	if e := r.GetResult().GetError(); e != nil {
		return nil, messages.ErrorFrom(e)
	}
	return r.GetResult(), nil
}

// query reads.
func (p *pool) query(ctx context.Context, q *messages.Query) (*messages.QueryReply, error) {
	c, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	r, err := c.do(ctx, &messages.Operation{Operation: &messages.Operation_Query{Query: q}})
	if err != nil {
		return nil, err
	}
	return r.GetQuery(), nil
}

// admin asks the node's operator.
func (p *pool) admin(ctx context.Context, a *messages.AdminRequest) (*messages.AdminReply, error) {
	c, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	r, err := c.do(ctx, &messages.Operation{Operation: &messages.Operation_Admin{Admin: a}})
	if err != nil {
		return nil, err
	}
	return r.GetAdmin(), nil
}
