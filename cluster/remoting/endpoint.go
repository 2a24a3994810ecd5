package remoting

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/messages"
)

// Stats are counters of an endpoint since it started; Sessions and Peers are those
// that are there now.
type Stats struct {
	Sessions, Peers int
	// Refused counts by Reason.String; reasons that never happened are left out.
	Refused map[string]uint64
}

// route is where messages of one peer go: a session of the node, a stream or an
// actor of the client.
type route interface {
	// receive takes a message in order. It may wait, and its peer's connection then
	// waits with it, until stop is closed.
	receive(m proto.Message, bytes int, sender string, stop <-chan struct{})
	// lost tells that the peer is gone. Called at most once, by no lock.
	lost(reason *messages.ErrorDetail)
}

// endpoint is what the node's and the client's side share: a listener behind the
// firewall, a link to each peer, and the routes.
type endpoint struct {
	cfg        Config
	address    string
	member     string
	sendMax    int // bytes of one message
	counters   counters
	firewall   *firewall
	server     *grpc.Server
	gateway    func(g *guard, a *admitted, m proto.Message, bytes int, p *peerState) // node only
	background sync.WaitGroup
	nextID     atomic.Uint64

	mu     sync.Mutex
	closed bool
	peers  map[string]*peerState
	routes map[string]*routeEntry
}

// routeEntry is a route and what it lives on: the link that it sends by, and the
// incoming stream that its first message came by. It ends with either, and no
// other stream may speak to it: order would be lost.
type routeEntry struct {
	route
	peer   string
	link   *link
	stream *guard // nil until the first message
}

// peerState is one address we talk with. It goes when nothing of it is left.
type peerState struct {
	address, name, member string
	streams               int // incoming
	link                  *link
	routes                int
}

func newEndpoint(cfg Config, kinds map[string]kind, sendMax int) (*endpoint, net.Listener, error) {
	lis := cfg.Listener
	if lis == nil {
		var err error
		if lis, err = net.Listen("tcp", cfg.Listen); err != nil {
			return nil, nil, err
		}
	}
	if cfg.Address == "" {
		cfg.Address = lis.Addr().String()
	}
	if err := checkOwn(cfg); err != nil {
		lis.Close()
		return nil, nil, err
	}
	var nonce [8]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		lis.Close()
		return nil, nil, err
	}
	e := &endpoint{
		cfg:     cfg,
		address: cfg.Address,
		member:  hex.EncodeToString(nonce[:]),
		sendMax: sendMax,
		peers:   make(map[string]*peerState),
		routes:  make(map[string]*routeEntry),
	}
	e.firewall = &firewall{cfg: cfg, counters: &e.counters, logs: refusalLogs(), checker: checker{
		kinds: kinds, own: cfg.Address, allowed: e.allowed,
	}}
	return e, lis, nil
}

// checkOwn finds out at the start what every peer would say.
func checkOwn(cfg Config) error {
	leaf := cfg.Certificate.Leaf
	if leaf == nil {
		return errors.New("remoting: the certificate is not parsed")
	}
	if len(cfg.Address) > idBytesMax {
		return fmt.Errorf("remoting: address %q is too long", cfg.Address)
	}
	return certs.NamesAddress(leaf, cfg.Address, cfg.AnyPort)
}

func (e *endpoint) serve(lis net.Listener) {
	e.server = grpc.NewServer(e.firewall.serverOptions()...)
	remote.RegisterRemotingServer(e.server, receiver{endpoint: e})
	e.background.Add(1)
	go func() {
		defer e.background.Done()
		if err := e.server.Serve(lis); err != nil {
			e.cfg.Logger.Error("remoting: listener failed", "address", e.address, "error", err)
		}
	}()
}

// tooLarge returns an error for a message that no peer takes, and nil otherwise.
func (e *endpoint) tooLarge(bytes int) error {
	if bytes <= e.sendMax {
		return nil
	}
	return messages.NewError(messages.Code_CODE_TOO_LARGE, "a message of %d bytes", bytes).WithLimit(uint64(e.sendMax))
}

func (e *endpoint) stats() Stats {
	e.mu.Lock()
	s := Stats{Sessions: len(e.routes), Peers: len(e.peers), Refused: make(map[string]uint64)}
	e.mu.Unlock()
	for r := range reasons {
		if n := e.counters[r].Load(); n > 0 {
			s.Refused[r.String()] = n
		}
	}
	return s
}

// close ends every route with reason, gives the links a moment to say so, and
// waits until nothing runs any more.
func (e *endpoint) close(end func(route)) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return
	}
	e.closed = true
	var routes []route
	for _, r := range e.routes {
		routes = append(routes, r.route)
	}
	e.mu.Unlock()
	for _, r := range routes {
		end(r)
	}
	e.mu.Lock()
	var links []*link
	for _, p := range e.peers {
		if p.link != nil {
			links = append(links, p.link)
		}
	}
	e.mu.Unlock()
	for _, l := range links {
		l.finish()
	}
	grace := time.AfterFunc(closeGrace, func() {
		for _, l := range links {
			l.cut()
		}
	})
	defer grace.Stop()
	for _, l := range links {
		<-l.done
	}
	e.server.Stop()
	e.background.Wait()
}
