package peers

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// refusedNodes counts, over all meshes of the process, the links that were refused.
var refusedNodes atomic.Uint64

// WriteMetrics writes how many links from other nodes were refused, in the Prometheus text
// format. It covers all nodes of the process.
func WriteMetrics(w io.Writer) {
	fmt.Fprintf(w, "# TYPE concord_peers_refused_total counter\nconcord_peers_refused_total %d\n", refusedNodes.Load())
}

const (
	// refusalsEvery is between two words about a node that is refused for one reason.
	refusalsEvery = time.Minute
	// refusalsMax bounds what is remembered; when it is full all is forgotten.
	refusalsMax = 1000
)

// refusals says that a node is refused: at once, and from then on how often it was, once
// in a while. A node that is refused dials again several times a second.
type refusals struct {
	mu   sync.Mutex
	said map[refusal]*refused
}

type refusal struct {
	replica uint64
	why     string
}

type refused struct {
	at    time.Time // of the last word
	since int       // refused since
}

func (r *refusals) add(l *slog.Logger, replica uint64, why error) {
	refusedNodes.Add(1)
	key, now := refusal{replica, why.Error()}, time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.said[key]
	switch {
	case x == nil:
		if r.said == nil || len(r.said) >= refusalsMax {
			r.said = map[refusal]*refused{}
		}
		r.said[key] = &refused{at: now}
		l.Error("a node was refused", "replica", replica, "error", why)
	case now.Sub(x.at) < refusalsEvery:
		x.since++
	default:
		l.Error("a node was refused again", "replica", replica, "error", why, "times", x.since+1)
		x.at, x.since = now, 0
	}
}
