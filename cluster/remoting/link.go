package remoting

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// outgoing is a message on its way to a peer.
type outgoing struct {
	message   proto.Message
	target    string
	requestID uint32 // of the target
	sender    string
}

// link is the connection that we dialled to one peer: a bounded queue and the one
// goroutine that empties it. It ends once, with everything that depended on it,
// and a new one begins with an empty queue: nothing is said to a peer's next life
// that was meant for its last.
type link struct {
	endpoint *endpoint
	address  string
	queue    *queue[outgoing]
	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{} // run has returned

	finishOnce sync.Once
	finishing  chan struct{}
}

func newLink(e *endpoint, address string) *link {
	l := &link{
		endpoint:  e,
		address:   address,
		queue:     newQueue[outgoing](linkMessagesMax, linkBytesMax),
		done:      make(chan struct{}),
		finishing: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// send waits for room. It fails when the link ended or stop was closed, and for a
// message that the peer would refuse, with everything else on the connection.
func (l *link) send(o outgoing, stop <-chan struct{}) error {
	size := proto.Size(o.message)
	if err := l.endpoint.tooLarge(size); err != nil {
		return err
	}
	if !l.queue.push(o, size, stop) {
		return errSessionEnded()
	}
	return nil
}

// trySend reports whether there was room.
func (l *link) trySend(o outgoing) bool {
	taken, _ := l.queue.tryPush(o, proto.Size(o.message))
	return taken
}

// finish ends the link once what is queued has gone out. cut ends it now.
func (l *link) finish() {
	l.finishOnce.Do(func() {
		l.queue.end()
		close(l.finishing)
		time.AfterFunc(closeGrace, l.cancel)
	})
}

func (l *link) cut() { l.cancel() }

// ending reports whether nothing new should go by this link.
func (l *link) ending() bool { return l.ctx.Err() != nil || l.queue.hasEnded() }

func (l *link) run() {
	defer l.endpoint.background.Done()
	defer close(l.done)
	reason := l.serve()
	l.cancel()
	l.queue.end()
	l.queue.drop()
	l.endpoint.linkEnded(l, reason)
}

// serve dials, connects and writes until the link ends, and says why.
func (l *link) serve() *messages.ErrorDetail {
	cfg := l.endpoint.cfg
	cc, err := grpc.NewClient("passthrough:///"+l.address, l.dialOptions()...)
	if err != nil {
		return lost("dial %s: %v", l.address, err)
	}
	defer cc.Close()
	late := time.AfterFunc(cfg.HandshakeTimeout, l.cancel)
	stream, err := l.connect(cc)
	if !late.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		d := lost("dial %s: %v", l.address, err)
		d.Outcome = messages.Outcome_OUTCOME_NOT_APPLIED
		return d
	}
	// The peer has nothing to say on this stream but that it ends.
	ended := make(chan error, 1)
	go func() {
		var m remote.RemoteMessage
		ended <- stream.RecvMsg(&m)
	}()
	w := batchWriter{own: l.endpoint.address}
	if err = l.write(stream, &w, ended); err == nil {
		time.AfterFunc(closeGrace, l.cancel)
		if err = stream.CloseSend(); err == nil {
			err = <-ended // what was sent is through when the peer ends it, too
			ended <- err
		}
	}
	l.cancel()
	if cause := <-ended; cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, io.EOF) {
		err = cause
	}
	if err == nil || errors.Is(err, io.EOF) {
		return lost("the connection to %s has ended", l.address)
	}
	return lost("the connection to %s was lost: %v", l.address, err)
}

func (l *link) connect(cc *grpc.ClientConn) (grpc.ClientStream, error) {
	stream, err := cc.NewStream(l.ctx, &remote.Remoting_ServiceDesc.Streams[0], remote.Remoting_Receive_FullMethodName)
	if err != nil {
		return nil, err
	}
	err = stream.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{
		ConnectRequest: &remote.ConnectRequest{ConnectionType: &remote.ConnectRequest_ServerConnection{
			ServerConnection: &remote.ServerConnection{MemberId: l.endpoint.member, Address: l.endpoint.address},
		}},
	}})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var m remote.RemoteMessage
	if err := stream.RecvMsg(&m); err != nil {
		return nil, err
	}
	if r := m.GetConnectResponse(); r == nil || r.Blocked {
		return nil, errors.New("the peer did not accept the connection")
	}
	return stream, nil
}

// write sends batches until the link is to finish (nil), the peer ends the stream,
// or nothing needed it for a while.
func (l *link) write(stream grpc.ClientStream, w *batchWriter, ended chan error) error {
	idle := time.NewTicker(idleMax)
	defer idle.Stop()
	for {
		w.items = l.queue.popBatch(w.items[:0], batchMessagesMax, batchBytesMax)
		if len(w.items) > 0 {
			if err := w.write(stream); err != nil {
				return err
			}
			continue
		}
		select {
		case <-l.queue.filled:
			continue
		case err := <-ended:
			ended <- err
			if err == nil {
				return io.EOF // a disconnect request
			}
			return err
		case <-l.finishing:
			if l.queue.empty() {
				return nil
			}
		case <-l.ctx.Done():
			return l.ctx.Err()
		case <-idle.C:
			if l.endpoint.linkIdle(l) {
				return nil
			}
		}
	}
}

func (l *link) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(newClientCreds(l.endpoint.cfg, l.address, &l.endpoint.counters)),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithDisableHealthCheck(),
		grpc.WithMaxHeaderListSize(16 << 10),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(connectBytes)),
	}
}
