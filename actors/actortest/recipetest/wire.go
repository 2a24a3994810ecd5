package recipetest

import (
	"context"
	"sync"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// Wire is the way between one client and the nodes. Faults hold for the connections of
// then and for later ones.
type Wire struct {
	dialer transport.Dialer

	mu       sync.Mutex
	noUp     bool
	noDown   bool
	refuse   bool
	holdDown chan struct{} // replies wait until it is closed
	up       func(*messages.ClientMessage)
	open     map[*wireStream]struct{}
}

// NewWire returns a way without faults.
func NewWire(d transport.Dialer) *Wire {
	return &Wire{dialer: d, open: map[*wireStream]struct{}{}}
}

// Drop swallows what the client sends (up) and what it would receive (down), without a
// word: connections stay open.
func (w *Wire) Drop(up, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noUp, w.noDown = up, down
}

// Refuse closes every connection and lets none begin while on.
func (w *Wire) Refuse(on bool) {
	w.mu.Lock()
	w.refuse = on
	open := w.open
	w.open = map[*wireStream]struct{}{}
	w.mu.Unlock()
	for s := range open {
		_ = s.Close()
	}
}

// Hold keeps what the client would receive until release.
func (w *Wire) Hold() (release func()) {
	c := make(chan struct{})
	w.mu.Lock()
	w.holdDown = c
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		w.holdDown = nil
		w.mu.Unlock()
		close(c)
	}
}

// OnSend has f called with each message before it is sent.
func (w *Wire) OnSend(f func(*messages.ClientMessage)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = f
}

// Dial implements transport.Dialer.
func (w *Wire) Dial(ctx context.Context, endpoint string) (transport.ClientStream, error) {
	w.mu.Lock()
	refuse := w.refuse
	w.mu.Unlock()
	if refuse {
		return nil, messages.NewError(messages.Code_CODE_UNAVAILABLE, "refused by the test")
	}
	s, err := w.dialer.Dial(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	ws := &wireStream{ClientStream: s, wire: w, closed: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[ws] = struct{}{}
	return ws, nil
}

type wireStream struct {
	transport.ClientStream
	wire   *Wire
	once   sync.Once
	closed chan struct{}
}

func (s *wireStream) Send(m *messages.ClientMessage) error {
	s.wire.mu.Lock()
	drop, f := s.wire.noUp, s.wire.up
	s.wire.mu.Unlock()
	if f != nil {
		f(m)
	}
	if drop {
		return nil
	}
	return s.ClientStream.Send(m)
}

func (s *wireStream) Recv() (*messages.ServerMessage, error) {
	for {
		m, err := s.ClientStream.Recv()
		if err != nil {
			return nil, err
		}
		s.wire.mu.Lock()
		drop, hold := s.wire.noDown, s.wire.holdDown
		s.wire.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-s.closed:
			}
		}
		if !drop {
			return m, nil
		}
	}
}

func (s *wireStream) Close() error {
	s.once.Do(func() { close(s.closed) })
	s.wire.mu.Lock()
	delete(s.wire.open, s)
	s.wire.mu.Unlock()
	return s.ClientStream.Close()
}
