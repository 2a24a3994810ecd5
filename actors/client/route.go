package client

import (
	"slices"
	"time"

	"github.com/concord-kv/concord/messages"
)

// Waits between attempts to connect. A whole round over the endpoints goes without a
// wait; each further round doubles it, half of it at random. Where a node says that it
// is starting, the wait is a part of what was waited for before it: a client that doubled
// its waits came back as long after a start as the start had taken.
const (
	redialBase         = 20 * time.Millisecond
	redialMax          = 2 * time.Second
	redialStartingPart = 8

	routeMax = 64 // endpoints
)

// route chooses the next endpoint.
type route struct {
	endpoints  []string // those of the configuration first
	configured int
	next       int
	failures   int           // in a row
	starting   bool          // the last of them was a node that is starting
	waited     time.Duration // since the first of them
	last       string        // the one that was chosen last
	leader     string        // where the leader was said to be since then; "" if nobody said
}

func newRoute(endpoints []string, random func() uint64) *route {
	r := &route{endpoints: append([]string(nil), endpoints...), configured: len(endpoints)}
	for i := len(r.endpoints) - 1; i > 0; i-- {
		j := int(random() % uint64(i+1))
		r.endpoints[i], r.endpoints[j] = r.endpoints[j], r.endpoints[i]
	}
	return r
}

// learn takes the endpoints that a node tells of, up to routeMax, in place of those told
// before: members come and go. It reports whether there is more than one now.
func (r *route) learn(endpoints []string) bool {
	r.endpoints = r.endpoints[:r.configured]
	for _, e := range endpoints {
		if e != "" && len(r.endpoints) < routeMax && !slices.Contains(r.endpoints, e) {
			r.endpoints = append(r.endpoints, e)
		}
	}
	return len(r.endpoints) > 1
}

// hint takes where a node says that the leader is, and reports whether the client knows
// that endpoint. It is tried next, once: what goes through another node takes a hop more.
func (r *route) hint(leader string) bool {
	known := slices.Contains(r.endpoints, leader)
	if known {
		r.leader = leader
	}
	return known
}

// take is choose for a connection that is open already.
func (r *route) take(endpoint string) { r.last, r.leader = endpoint, "" }

func (r *route) choose() string {
	e := r.leader
	if e == "" || e == r.last {
		e = r.endpoints[r.next%len(r.endpoints)]
		r.next++
	}
	r.last, r.leader = e, ""
	return e
}

func (r *route) wait(random func() uint64) time.Duration {
	rounds := r.failures / len(r.endpoints)
	if rounds == 0 {
		return 0
	}
	d := redialBase << min(rounds-1, 16)
	if r.starting {
		d = max(redialBase, r.waited/redialStartingPart)
	}
	d = min(d, redialMax)
	d = d/2 + time.Duration(random()%uint64(d/2+1))
	r.waited += d
	return d
}

// failed counts an attempt. One that served first begins a new round, with a wait before
// the same node is tried again. One that was greeted and did not serve counts too: while
// there is no leader each node greets, only to refuse what it is asked, and the client
// would go round as fast as it can dial.
func (r *route) failed(served bool, err error) {
	if served {
		r.failures, r.waited = 0, 0
	}
	r.failures++
	r.starting = messages.CodeOf(err) == messages.Code_CODE_NOT_READY
}
