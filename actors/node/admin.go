package node

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/concord-kv/concord/cluster/peers"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/consensus"
)

// admin is the HTTP listener for operators.
type admin struct {
	server   *http.Server
	listener net.Listener
	done     chan struct{}
}

// health is the answer of /healthz.
type health struct {
	Status   string `json:"status"` // "ready", "starting", "stopping" or "failed"
	Replica  uint64 `json:"replica_id"`
	Leader   uint64 `json:"leader_id"` // 0: none known
	Term     uint64 `json:"raft_term"`
	Applied  uint64 `json:"applied_index"`
	Revision uint64 `json:"revision"`
	Version  string `json:"version"`
}

// startAdmin serves on lis, which it owns from here on.
func startAdmin(lis net.Listener, registry *prometheus.Registry, healthz func() health, withPprof bool) *admin {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		h := healthz()
		w.Header().Set("Content-Type", "application/json")
		if h.Status != "ready" || h.Leader == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(h) // the client is gone: nobody to tell
	})
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		metrics.ServeHTTP(w, r)
		// The log's own, of all nodes of this process: they live outside any registry.
		consensus.WriteMetrics(w)
		peers.WriteMetrics(w)
		transport.WriteMetrics(w)
	})
	if withPprof {
		addPprof(mux)
	}
	a := &admin{
		listener: lis,
		done:     make(chan struct{}),
		server: &http.Server{
			Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		},
	}
	go func() {
		defer close(a.done)
		_ = a.server.Serve(lis) // ends with Close alone
	}()
	return a
}

func (a *admin) close(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := a.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = a.server.Close() // a profile may run for as long as it was asked to
	}
	<-a.done
	return err
}
