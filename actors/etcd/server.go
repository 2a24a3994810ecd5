package etcd

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// Server is the endpoint of one node.
type Server struct {
	cfg      Config
	sessions *sessions
	leases   *leaseNames
	grpc     *grpc.Server
	http     *http.Server
	health   *healthService
	recipes  *recipes
	lead     *leadership
	mux      *mux
	local    *grpc.ClientConn // of the JSON gateway to this endpoint

	stop context.CancelFunc
	wait sync.WaitGroup
	once sync.Once
}

// Serve serves etcd's clients on a listener, which it closes at the end, until Close.
func Serve(listener net.Listener, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{cfg: cfg, sessions: newSessions(cfg.Dial, cfg.Now, cfg.Connections), stop: stop, health: &healthService{health.NewServer(), cfg.Facts}}
	s.leases = newLeaseNames(s.sessions)
	s.lead = newLeadership(s)
	s.mux = newMux(listener, cfg)
	s.grpc = grpc.NewServer(
		grpc.Creds(s.mux.credentials()),
		grpc.MaxRecvMsgSize(cfg.RequestBytesMax),
		grpc.MaxConcurrentStreams(1<<16),
		grpc.UnaryInterceptor(s.lead.unary),
		grpc.StreamInterceptor(s.lead.stream),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * time.Hour, Timeout: 20 * time.Second}),
	)
	pb.RegisterKVServer(s.grpc, &kvServer{Server: s})
	pb.RegisterWatchServer(s.grpc, &watchServer{Server: s})
	pb.RegisterLeaseServer(s.grpc, &leaseServer{Server: s})
	pb.RegisterClusterServer(s.grpc, &clusterServer{Server: s})
	pb.RegisterMaintenanceServer(s.grpc, &maintenanceServer{Server: s})
	pb.RegisterAuthServer(s.grpc, &authServer{Server: s})
	s.registerRecipes(&recipes{Server: s, kv: &kvServer{Server: s}})
	healthpb.RegisterHealthServer(s.grpc, s.health)
	handler, err := s.gateway(ctx)
	if err != nil {
		stop()
		_ = listener.Close() // nothing was accepted on it
		return nil, err
	}
	s.http = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	s.wait.Go(func() { _ = s.grpc.Serve(s.mux.grpcListener()) }) // Close ends it
	s.wait.Go(func() { _ = s.http.Serve(s.mux.httpListener()) })
	s.wait.Go(s.mux.accept)
	s.wait.Go(func() { s.lead.watch(ctx) })
	return s, nil
}

// Addr is where the endpoint listens.
func (s *Server) Addr() net.Addr { return s.mux.listener.Addr() }

// Close ends the endpoint: calls in flight have until ctx is done, streams end at once.
func (s *Server) Close(ctx context.Context) {
	s.once.Do(func() {
		s.health.Shutdown()
		s.lead.endStreams()
		graceful := make(chan struct{})
		go func() {
			s.grpc.GracefulStop()
			close(graceful)
		}()
		select {
		case <-graceful:
		case <-ctx.Done():
		}
		s.grpc.Stop()
		_ = s.http.Close()
		_ = s.local.Close()
		s.mux.close()
		s.stop()
		s.sessions.close()
		s.wait.Wait()
	})
}
