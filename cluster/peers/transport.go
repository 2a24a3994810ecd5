package peers

import (
	"context"
	"math/rand/v2"
	"time"
)

// Stream is one end of a stream of PeerMessages, as gRPC's are: one goroutine sends,
// one receives.
type Stream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// Transport stands for gRPC, the network and time in a simulation. All of its fields
// are required.
type Transport struct {
	// Serve is called once, by Start: accept serves a stream that another node has
	// opened, until it is over or its context is.
	Serve func(accept func(context.Context, Stream) error)
	// Dial opens a stream to an address. It ends with its context, or by hangUp.
	Dial func(ctx context.Context, address string) (s Stream, hangUp func(), err error)
	// Every calls f about every interval, never twice at once, until stop is called.
	// After stop has returned f is not running and will not run.
	Every func(interval time.Duration, f func()) (stop func())
}

// every is Transport.Every by the machine's clock. Ticks that f is too slow for are
// dropped.
func every(interval time.Duration, f func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				f()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// every is how the mesh's links count their beats.
func (m *Mesh) every() func(time.Duration, func()) (stop func()) {
	if t := m.cfg.Transport; t != nil {
		return t.Every
	}
	return every
}

// redialWait is a wait before dialling again, half of it at random; not in a simulation.
func (m *Mesh) redialWait(d time.Duration) time.Duration {
	if m.cfg.Transport != nil {
		return d
	}
	return d/2 + rand.N(d/2)
}
