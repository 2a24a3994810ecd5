package transport

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// refusalsEvery is between two words about one stranger and one reason.
	refusalsEvery = time.Minute
	// refusalsMax bounds what is remembered; when it is full all is forgotten.
	refusalsMax = 1_000
)

// Refusals says who is refused and why: at once, and from then on how often it was, once a
// minute at most. Whoever is refused comes again at once, and must not fill a disk so. The
// zero value is ready; it may be used from any goroutine.
type Refusals struct {
	mu   sync.Mutex
	said map[refusalKey]*refused
	now  func() time.Time // nil: time.Now
}

type refusalKey struct{ who, why string }

type refused struct {
	at    time.Time // of the last word
	since int       // refused since
}

// Add notes that who, a host or a name, was refused for this reason.
func (r *Refusals) Add(l *slog.Logger, who, why string) {
	times := r.count(refusalKey{who, why})
	if times > 0 {
		l.Warn("a client was refused", "client", who, "reason", why, "times", times)
	}
}

// count returns of how many refusals there is a word to say now.
func (r *Refusals) count(key refusalKey) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now
	if r.now != nil {
		now = r.now
	}
	x := r.said[key]
	switch {
	case x == nil:
		if r.said == nil || len(r.said) >= refusalsMax {
			r.said = map[refusalKey]*refused{}
		}
		r.said[key] = &refused{at: now()}
		return 1
	case now().Sub(x.at) < refusalsEvery:
		x.since++
		return 0
	}
	times := x.since + 1
	x.at, x.since = now(), 0
	return times
}
