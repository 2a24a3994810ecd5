package etcd

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// leadership serves the clients that want an error, not silence, of a node that has lost
// its cluster: they say so by the metadata "hasleader". It also tells the health service.
type leadership struct {
	server *Server

	mu      sync.Mutex
	last    uint64
	streams map[uint64]stream
	closed  bool
}

type stream struct {
	cancel context.CancelCauseFunc
	wants  bool // to end when there is no leader
}

const (
	leadershipPoll = 300 * time.Millisecond
	// leaderlessPolls in a row end the streams that want a leader.
	leaderlessPolls = 5
)

func newLeadership(s *Server) *leadership {
	return &leadership{server: s, streams: map[uint64]stream{}}
}

func wantsLeader(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	v := md.Get(rpctypes.MetadataRequireLeaderKey)
	return len(v) > 0 && v[0] == rpctypes.MetadataHasLeader
}

func (l *leadership) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if wantsLeader(ctx) && l.server.cfg.Facts().LeaderID == 0 {
		return nil, rpctypes.ErrGRPCNoLeader
	}
	return handler(ctx, req)
}

// watched is a stream whose context ends with the reason why the node ended it.
type watched struct {
	grpc.ServerStream
	ctx context.Context
}

func (w *watched) Context() context.Context { return w.ctx }

func (l *leadership) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	wants := wantsLeader(ss.Context())
	if wants && l.server.cfg.Facts().LeaderID == 0 {
		return rpctypes.ErrGRPCNoLeader
	}
	ctx, cancel := context.WithCancelCause(ss.Context())
	defer cancel(nil)
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return rpctypes.ErrGRPCStopped
	}
	l.last++
	id := l.last
	l.streams[id] = stream{cancel, wants}
	l.mu.Unlock()
	err := handler(srv, &watched{ss, ctx})
	l.mu.Lock()
	delete(l.streams, id)
	l.mu.Unlock()
	if cause := context.Cause(ctx); cause != nil && ss.Context().Err() == nil {
		return cause
	}
	return err
}

// end ends streams with a reason.
func (l *leadership) end(reason error, which func(stream) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.streams {
		if which(s) {
			s.cancel(reason)
		}
	}
}

// endStreams ends all of them: the node stops.
func (l *leadership) endStreams() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.end(rpctypes.ErrGRPCStopped, func(stream) bool { return true })
}

// watch looks at the node until ctx is done.
func (l *leadership) watch(ctx context.Context) {
	t := time.NewTicker(leadershipPoll)
	defer t.Stop()
	for leaderless := 0; ; {
		if leaderless++; l.server.health.refresh().LeaderID != 0 {
			leaderless = 0
		}
		if leaderless == leaderlessPolls {
			l.end(rpctypes.ErrGRPCNoLeader, func(s stream) bool { return s.wants })
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// healthService is gRPC's health service. What it says is looked up when it is asked.
type healthService struct {
	*health.Server
	facts func() Facts
}

// refresh notes how the node is.
func (h *healthService) refresh() Facts {
	f := h.facts()
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if f.Ready && f.LeaderID != 0 {
		status = healthpb.HealthCheckResponse_SERVING
	}
	h.SetServingStatus("", status)
	return f
}

// Check tells whether the node can serve.
func (h *healthService) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	h.refresh()
	return h.Server.Check(ctx, r)
}
