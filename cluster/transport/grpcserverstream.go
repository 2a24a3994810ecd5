package transport

import (
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/concord-kv/concord/messages"
)

// serverStream is the node's end of a gRPC stream.
type serverStream struct {
	ss      grpc.ServerStream
	conn    *conn // nil when the listener is not ours
	peer    Peer
	hello   *time.Timer
	greeted bool // of Recv: the first message is here

	sendMu   sync.Mutex
	finished bool // under sendMu: nothing may be sent any more

	once    sync.Once
	reason  *messages.ErrorDetail // set before closing is closed
	closing chan struct{}
}

func newServerStream(ss grpc.ServerStream) *serverStream {
	st := &serverStream{ss: ss, closing: make(chan struct{}), peer: Peer{Kind: KindGRPC}}
	p, ok := peer.FromContext(ss.Context())
	if !ok {
		return st
	}
	st.peer.Address = p.Addr.String()
	if a, ok := p.Addr.(connAddr); ok {
		st.conn = a.conn
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
		cert := info.State.VerifiedChains[0][0]
		st.peer.Name = cert.Subject.CommonName
		if st.peer.Name == "" && len(cert.DNSNames) > 0 {
			st.peer.Name = cert.DNSNames[0]
		}
	}
	return st
}

func (s *serverStream) Send(m *messages.ServerMessage) error { return s.sendAny(m) }

func (s *serverStream) sendAny(m any) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	select {
	case <-s.closing:
		return errEnded()
	default:
	}
	if s.finished {
		return errEnded()
	}
	if err := s.ss.SendMsg(m); err != nil {
		return streamError(err)
	}
	return nil
}

func (s *serverStream) Recv() (*messages.ClientMessage, error) {
	m := new(messages.ClientMessage)
	if err := s.ss.RecvMsg(m); err != nil {
		select {
		case <-s.closing:
			return nil, errClosedHere()
		default:
		}
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, streamError(err)
	}
	if !s.greeted {
		s.greeted = true
		s.hello.Stop()
	}
	return m, nil
}

func (s *serverStream) Close(reason *messages.ErrorDetail) {
	s.once.Do(func() {
		s.reason = reason
		close(s.closing)
	})
}

func (s *serverStream) Peer() Peer { return s.peer }

// finish says goodbye and returns the status that the stream ends with. Should
// the client not read, its connection is cut: a Send that waits holds the lock.
func (s *serverStream) finish() error {
	s.hello.Stop()
	if s.conn != nil {
		guard := time.AfterFunc(closeGrace, func() { _ = s.conn.Close() })
		defer guard.Stop()
	}
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	s.finished = true
	select {
	case <-s.closing:
	default:
		return nil // the client is gone
	}
	if s.reason != nil && s.ss.Context().Err() == nil {
		_ = s.ss.SendMsg(goodbye(s.reason))
	}
	return statusOf(s.reason)
}
