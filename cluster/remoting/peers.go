package remoting

import (
	"errors"
	"strconv"

	"github.com/concord-kv/concord/messages"
)

// newRouteID returns an id that no earlier life of this process used: a peer may
// still send to those.
func (e *endpoint) newRouteID() string {
	return sessionPrefix + e.member + "-" + strconv.FormatUint(e.nextID.Add(1), 10)
}

// allowed is the firewall's question: what may this peer send to this id?
func (e *endpoint) allowed(peer, id string, k kind) verdict {
	if e.gateway != nil && id == gatewayID {
		if k == kindClientHello || k == kindHeartbeat {
			return deliver
		}
		return forbid
	}
	if k == kindClientHello {
		return forbid
	}
	e.mu.Lock()
	r, ok := e.routes[id]
	e.mu.Unlock()
	switch {
	case ok && r.peer == peer:
		return deliver
	case ok:
		return forbid
	case e.gateway != nil && len(id) > len(sessionPrefix) && id[:len(sessionPrefix)] == sessionPrefix:
		return stale
	case e.gateway == nil:
		// An actor that is gone and one that never was look alike.
		return stale
	default:
		return forbid
	}
}

// peerOf returns the state of a peer, with a link. Called with the lock held.
func (e *endpoint) peerOf(address string) *peerState {
	p := e.peers[address]
	if p == nil {
		p = &peerState{address: address}
		e.peers[address] = p
	}
	if p.link == nil || p.link.ending() {
		p.link = newLink(e, address)
		e.background.Add(1)
		go p.link.run()
	}
	return p
}

var errEndpointClosed = errors.New("remoting: the endpoint is closed")

// addRoute enters a route to a peer and sets its link before anyone can find it.
// The link may fail later, and the route hears of it.
func (e *endpoint) addRoute(id, peer string, r route, g *guard, to **link, max, perPeerMax int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errEndpointClosed
	}
	if len(e.routes) >= max || (e.peers[peer] != nil && e.peers[peer].routes >= perPeerMax) {
		return messages.NewError(messages.Code_CODE_OVERLOADED, "too many sessions").WithLimit(uint64(perPeerMax))
	}
	if _, ok := e.routes[id]; ok {
		return messages.NewError(messages.Code_CODE_PROTOCOL, "this actor has a session")
	}
	p := e.peerOf(peer)
	p.routes++
	*to = p.link
	e.routes[id] = &routeEntry{route: r, peer: peer, link: p.link, stream: g}
	return nil
}

func (e *endpoint) removeRoute(id string, r route) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if entry, ok := e.routes[id]; ok && entry.route == r {
		delete(e.routes, id)
		p := e.peers[entry.peer]
		p.routes--
		e.tidy(p)
	}
}

// tidy forgets a peer of which nothing is left. Called with the lock held.
func (e *endpoint) tidy(p *peerState) {
	if p.streams == 0 && p.link == nil && p.routes == 0 {
		delete(e.peers, p.address)
	}
}

// linkIdle lets a link go when no session needs it.
func (e *endpoint) linkIdle(l *link) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.peers[l.address]
	if p == nil || p.link != l {
		return true
	}
	// The queue ends here and now: who holds the link already then takes another.
	if p.routes > 0 || !l.queue.endIfEmpty() {
		return false
	}
	p.link = nil
	e.tidy(p)
	return true
}

// linkEnded drops a link and the routes that it carried.
func (e *endpoint) linkEnded(l *link, reason *messages.ErrorDetail) {
	e.mu.Lock()
	gone := e.dropRoutes(l.address, func(r *routeEntry) bool { return r.link == l })
	if p := e.peers[l.address]; p != nil {
		if p.link == l {
			p.link = nil
		}
		e.tidy(p)
	}
	e.mu.Unlock()
	for _, r := range gone {
		r.lost(reason)
	}
}

// dropRoutes takes out the routes of a peer that which names. Called with the lock
// held.
func (e *endpoint) dropRoutes(peer string, which func(*routeEntry) bool) (gone []route) {
	for id, r := range e.routes {
		if r.peer == peer && which(r) {
			delete(e.routes, id)
			e.peers[peer].routes--
			gone = append(gone, r.route)
		}
	}
	return gone
}

// streamOpened counts an incoming stream of a peer. A new member at an old address
// means that the old one is gone, whatever its connections say.
func (e *endpoint) streamOpened(g *guard) (*peerState, error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, errEndpointClosed
	}
	p := e.peers[g.peer]
	var gone []route
	var old *link
	if p != nil && p.member != "" && p.member != g.member {
		gone = e.dropRoutes(p.address, func(*routeEntry) bool { return true })
		old = p.link
		delete(e.peers, p.address)
		p = nil
	}
	if p == nil {
		p = &peerState{address: g.peer}
		e.peers[g.peer] = p
	}
	refused := p.streams >= streamsPerPeerMax
	if !refused {
		p.streams++
		if p.member == "" { // a name is read without the lock once it is there
			p.member, p.name = g.member, g.cert.Subject.CommonName
		}
	}
	e.mu.Unlock()
	if old != nil {
		old.cut()
	}
	for _, r := range gone {
		r.lost(lost("the peer at %s was restarted", g.peer))
	}
	if refused {
		return nil, refusal{RefusedStreams}
	}
	return p, nil
}

// streamClosed ends the routes that a stream fed, and with the last of them the
// link.
func (e *endpoint) streamClosed(p *peerState, g *guard) {
	e.mu.Lock()
	gone := e.dropRoutes(p.address, func(r *routeEntry) bool { return r.stream == g })
	var old *link
	if e.peers[p.address] == p {
		if p.streams--; p.streams == 0 && p.routes == 0 {
			old, p.link = p.link, nil
		}
		e.tidy(p)
	}
	e.mu.Unlock()
	if old != nil {
		old.finish()
	}
	for _, r := range gone {
		r.lost(lost("the connection of %s has ended", p.address))
	}
}
