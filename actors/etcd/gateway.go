package etcd

import (
	"context"
	"encoding/json"
	"net"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.etcd.io/etcd/api/v3/etcdserverpb/gw"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/concord-kv/concord/messages"
)

// gateway returns the handler of what is not gRPC: etcd's JSON API, health and version. It
// calls this endpoint as any client does, over a pipe within the process.
func (s *Server) gateway(ctx context.Context) (http.Handler, error) {
	local, err := grpc.NewClient("passthrough:///etcd",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<31-1)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			select {
			case s.mux.grpc.conns <- theirs:
				return ours, nil
			case <-s.mux.grpc.closed:
				return nil, net.ErrClosed
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
	if err != nil {
		return nil, err
	}
	s.local = local
	mux := runtime.NewServeMux(runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.HTTPBodyMarshaler{
		Marshaler: &runtime.JSONPb{
			MarshalOptions:   protojson.MarshalOptions{UseProtoNames: true},
			UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: true},
		},
	}))
	for _, register := range []func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error{
		gw.RegisterKVHandler, gw.RegisterWatchHandler, gw.RegisterLeaseHandler, gw.RegisterClusterHandler, gw.RegisterMaintenanceHandler,
		gw.RegisterAuthHandler,
	} {
		if err := register(ctx, mux, local); err != nil {
			return nil, err
		}
	}
	h := http.NewServeMux()
	h.Handle("/v3/", mux)
	s.serveRecipes(h)
	h.HandleFunc("/health", s.serveHealth)
	h.HandleFunc("/readyz", s.serveHealth)
	h.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, healthText{Health: "true"}) })
	h.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"etcdserver": version.Version, "etcdcluster": apiVersion, "storage": apiVersion, "concord": s.cfg.Facts().Version})
	})
	return h, nil
}

type healthText struct {
	Health string `json:"health"`
	Reason string `json:"reason"`
}

// serveHealth reads through the cluster, or with ?serializable=true at this node only.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	c := messages.Consistency_CONSISTENCY_LINEARIZABLE
	if r.URL.Query().Get("serializable") == "true" {
		c = messages.Consistency_CONSISTENCY_STALE
	}
	_, err := s.current(r.Context(), c)
	switch f := s.cfg.Facts(); {
	case f.LeaderID == 0 && c == messages.Consistency_CONSISTENCY_LINEARIZABLE:
		answer(w, http.StatusServiceUnavailable, healthText{"false", "RAFT NO LEADER"})
	case err != nil:
		answer(w, http.StatusServiceUnavailable, healthText{"false", "RANGE ERROR:" + err.Error()})
	default:
		answer(w, http.StatusOK, healthText{Health: "true"})
	}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may have left
}
