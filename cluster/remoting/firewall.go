package remoting

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/cluster/certs"
)

// firewall stands before the remoting service: nothing reaches it that was not
// checked.
type firewall struct {
	checker
	cfg      Config
	counters *counters
	logs     rate.Sometimes
}

// Refusals are logged a few at first, then one a second: a peer that is refused
// for ever must not fill the disk. The counters have them all.
func refusalLogs() rate.Sometimes { return rate.Sometimes{First: 10, Interval: time.Second} }

func (f *firewall) serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(newServerCreds(f.cfg, f.counters)),
		grpc.UnaryInterceptor(f.denyUnary),
		grpc.StreamInterceptor(f.guardStream),
		grpc.MaxRecvMsgSize(f.cfg.ReceiveBytesMax),
		grpc.MaxConcurrentStreams(streamsPerConnectionMax),
		grpc.MaxHeaderListSize(16 << 10),
		grpc.ConnectionTimeout(f.cfg.HandshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: keepaliveTime, Timeout: keepaliveTimeout, MaxConnectionIdle: idleMax,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveMin, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		grpc.StaticStreamWindowSize(1 << 20),
		grpc.StaticConnWindowSize(1 << 20),
	}
}

func (f *firewall) denyUnary(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
	return nil, f.refuse("", refusal{RefusedUnary})
}

// guardStream lets one stream through, message by message, and survives whatever
// happens behind it.
func (f *firewall) guardStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	g := &guard{ServerStream: ss, firewall: f}
	defer func() {
		if p := recover(); p != nil {
			f.cfg.Logger.Error("remoting: panic", "peer", g.peer, "panic", p, "stack", string(debug.Stack()))
			err = refusal{RefusedPanic}
		}
		err = f.refuse(g.peer, err)
	}()
	if info.FullMethod != remote.Remoting_Receive_FullMethodName {
		return refusal{RefusedMethod}
	}
	if g.cert, g.conn = clientOf(ss.Context()); g.cert == nil {
		return refusal{RefusedCertificate}
	}
	g.timer = time.AfterFunc(f.cfg.HandshakeTimeout, g.late)
	defer g.timer.Stop()
	return next(srv, g)
}

// refuse counts err if it is a refusal, and returns what the peer is told.
func (f *firewall) refuse(peer string, err error) error {
	var r refusal
	if errors.As(err, &r) {
		f.counters.add(r.reason)
		f.logs.Do(func() { f.cfg.Logger.Warn("remoting: refused", "reason", r.reason.String(), "peer", peer) })
		return r.GRPCStatus().Err()
	}
	return err
}

// guard is a stream whose RecvMsg yields first the one connect request of a peer
// and then batches, checked and resolved.
type guard struct {
	grpc.ServerStream
	firewall *firewall
	cert     *x509.Certificate
	conn     net.Conn
	timer    *time.Timer

	peer, member string // declared, and named by the certificate
	batch        []admitted
}

// late cuts a connection whose stream says nothing: nothing else would end a
// blocked receive.
func (g *guard) late() {
	_ = g.firewall.refuse("", refusal{RefusedHandshake})
	g.conn.Close()
}

// RecvMsg receives into m, a *remote.RemoteMessage. After the first call it
// returns only with a batch that was admitted, which is in g.batch until the next
// call.
func (g *guard) RecvMsg(m any) error {
	if err := g.ServerStream.RecvMsg(m); err != nil {
		// The stream breaks off for many reasons; these two are the peer's doing.
		switch status.Code(err) {
		case codes.ResourceExhausted:
			return refusal{RefusedOversize}
		case codes.Internal:
			return refusal{RefusedPayload}
		}
		return err
	}
	return g.admit(m.(*remote.RemoteMessage))
}

func (g *guard) admit(m *remote.RemoteMessage) error {
	f := g.firewall
	if g.peer == "" {
		address, member, err := f.checkConnect(m)
		if err != nil {
			return err
		}
		if certs.NamesAddress(g.cert, address, f.cfg.AnyPort) != nil {
			return refusal{RefusedCertificate}
		}
		g.peer, g.member = address, member
		g.timer.Stop()
		return nil
	}
	switch t := m.GetMessageType().(type) {
	case *remote.RemoteMessage_MessageBatch:
		var err error
		clear(g.batch)
		g.batch, err = f.checkBatch(g.batch[:0], t.MessageBatch, g.peer)
		return err
	case *remote.RemoteMessage_ConnectRequest:
		return refusal{RefusedSecondConnect}
	default:
		return refusal{RefusedMessageKind}
	}
}
