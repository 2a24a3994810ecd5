package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// The session protocol over a simulated connection: each message with its length in
// front of it. It stands for gRPC where the runs are many: nothing in it has timers
// or random numbers of its own. The gRPC mode covers the other.

func writeMessage(c net.Conn, m proto.Message) error {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(make([]byte, 4), m)
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_, err = c.Write(b)
	return err
}

func readMessage(c net.Conn, m proto.Message) error {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	return proto.Unmarshal(b, m)
}

func ended(cause error) *messages.Error {
	e := messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, "the connection ended")
	e.Err = cause
	return e
}

// codecDialer is a client's transport.Dialer.
type codecDialer struct {
	network *network
	client  string
}

// Dial implements transport.Dialer.
func (d codecDialer) Dial(ctx context.Context, to string) (transport.ClientStream, error) {
	c, err := d.network.dialFor(ctx, d.client, 0, to)
	if err != nil {
		e := messages.NewError(messages.Code_CODE_UNAVAILABLE, "no connection to %s", to)
		e.Err = err
		return nil, e
	}
	return &codecClient{conn: c}, nil
}

// dialFor waits for a connection.
func (n *network) dialFor(ctx context.Context, client string, from uint64, to string) (net.Conn, error) {
	w := n.dial(client, from, nodeOf(to), to)
	select {
	case r := <-w.done:
		return r.conn, r.err
	case <-ctx.Done():
		n.forget(w)
		select {
		case r := <-w.done:
			if r.conn != nil {
				_ = r.conn.Close()
			}
		default:
		}
		return nil, ctx.Err()
	}
}

type codecClient struct {
	conn net.Conn
}

func (c *codecClient) Send(m *messages.ClientMessage) error {
	if err := writeMessage(c.conn, m); err != nil {
		return ended(err)
	}
	return nil
}

func (c *codecClient) Recv() (*messages.ServerMessage, error) {
	m := &messages.ServerMessage{}
	if err := readMessage(c.conn, m); err != nil {
		return nil, ended(err)
	}
	return m, nil
}

func (c *codecClient) Close() error { return c.conn.Close() }

type codecServer struct {
	conn net.Conn
	once sync.Once
}

func (s *codecServer) Send(m *messages.ServerMessage) error {
	// One reply a message: see codecClient.
	if r := m.GetReplies(); len(r.GetReplies()) > 1 {
		for i := range r.Replies {
			one := &messages.Replies{ClientEpoch: r.ClientEpoch, Replies: r.Replies[i : i+1]}
			if err := writeMessage(s.conn, &messages.ServerMessage{Message: &messages.ServerMessage_Replies{Replies: one}}); err != nil {
				return ended(err)
			}
		}
		return nil
	}
	if err := writeMessage(s.conn, m); err != nil {
		return ended(err)
	}
	return nil
}

func (s *codecServer) Recv() (*messages.ClientMessage, error) {
	m := &messages.ClientMessage{}
	err := readMessage(s.conn, m)
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, ended(err)
	}
	return m, nil
}

func (s *codecServer) Close(reason *messages.ErrorDetail) {
	s.once.Do(func() {
		if reason != nil {
			// The other side may be gone: then nobody needs to hear it.
			_ = writeMessage(s.conn, &messages.ServerMessage{Message: &messages.ServerMessage_Goodbye{
				Goodbye: &messages.Goodbye{Reason: reason},
			}})
		}
		_ = s.conn.Close()
	})
}

func (s *codecServer) Peer() transport.Peer {
	return transport.Peer{Kind: transport.KindGRPC, Address: s.conn.RemoteAddr().String()}
}
