package peers

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/concord-kv/concord/messages"
)

// Config of a Mesh. Self, Identity, Beat, Forwarded, Heard and Learned are required.
// The functions are called from many goroutines and must only enqueue.
type Config struct {
	// Self is this node: its replica id, its addresses as others reach them, and when
	// it started.
	Self *messages.MemberAddress
	// Listener is where other nodes connect. The mesh owns it. nil: nowhere; then this
	// node dials only.
	Listener net.Listener
	// ServerTLS and ClientTLS are both set or both nil. ClientTLS is asked for each
	// connection.
	ServerTLS *tls.Config
	ClientTLS func() *tls.Config
	// Known are members by configuration; Contacts are peer addresses of nodes whose ids
	// are not known, to learn the members from.
	Known    []*messages.MemberAddress
	Contacts []string
	// Identity is the cluster that this node belongs to; empty while it does not know.
	Identity func() (clusterID []byte, incarnation uint64)
	Version  string
	// ApplyVersion is the highest version of the state machine's rules that this node can
	// run; 0 is unknown.
	ApplyVersion uint32
	// Beat is what this node says of itself. The mesh adds addresses to it.
	Beat func() *messages.PeerBeat
	// Forwarded takes a proposal of another node. reply is called once for each command,
	// or for several together.
	Forwarded func(m *messages.Propose, reply func(*messages.Proposed))
	// Heard takes a beat of another node, with what that node said of itself at hello.
	Heard func(from *messages.PeerHello, beat *messages.PeerBeat)
	// Learned takes the addresses of all members that are known, when they change.
	Learned func([]*messages.MemberAddress)
	// Refused hears why another node refused this one. Optional.
	Refused func(*messages.Error)
	Logger  *slog.Logger
	// Transport replaces Listener, gRPC and the clock. nil outside of a simulation.
	Transport *Transport
}

// Mesh is a node's links to the others. Make it with Start, end it with Close.
type Mesh struct {
	refusals refusals

	cfg    Config
	server *grpc.Server // nil without a listener
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	dir    *directory
	links  map[uint64]*link
	// accepted are the links that others have dialled, with who that is.
	accepted map[*conn]uint64
}

// Start begins to listen and to dial. It returns at once.
func Start(cfg Config) *Mesh {
	m := &Mesh{cfg: cfg, dir: newDirectory(cfg.Self, cfg.Known), links: map[uint64]*link{}, accepted: map[*conn]uint64{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	if cfg.Listener != nil {
		m.server = newServer(cfg)
		m.server.RegisterService(&serviceDesc, m)
		m.work.Go(func() { _ = m.server.Serve(cfg.Listener) }) // ends with Stop alone
	}
	if cfg.Transport != nil {
		cfg.Transport.Serve(m.acceptStream)
	}
	m.mu.Lock()
	m.relink()
	m.mu.Unlock()
	if len(cfg.Contacts) > 0 {
		m.work.Go(m.findMembers)
	}
	return m
}

// Addr is where the mesh listens; nil if it does not.
func (m *Mesh) Addr() net.Addr {
	if m.cfg.Listener == nil {
		return nil
	}
	return m.cfg.Listener.Addr()
}

// Close ends all links: what was forwarded and not answered is unknown to its sender.
// Nothing of the mesh runs afterwards.
func (m *Mesh) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	if m.server != nil {
		m.server.Stop()
	}
	m.work.Wait()
}

// Members returns the addresses that are known, by replica id.
func (m *Mesh) Members() []*messages.MemberAddress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dir.all()
}

// Learn adds addresses, as of a request of an operator.
func (m *Mesh) Learn(known ...*messages.MemberAddress) { m.learn(known) }

// Forget drops members that were removed from the cluster, for good.
func (m *Mesh) Forget(ids []uint64) {
	m.mu.Lock()
	changed := m.dir.forget(ids)
	if changed {
		m.relink()
	}
	for c, id := range m.accepted {
		if m.dir.removed[id] {
			// It learns why, and that it need not come back.
			c.push(goodbye(errRemoved(id)), nil)
			delete(m.accepted, c)
		}
	}
	all := m.dir.all()
	m.mu.Unlock()
	if changed {
		m.cfg.Learned(all)
	}
}

func errRemoved(id uint64) *messages.Error {
	return messages.NewError(messages.Code_CODE_PERMISSION_DENIED,
		"replica %d was removed from the cluster: start a new node under a new id", id)
}

// twin returns where a node of the same id runs, if one does: its link is open, and it is
// reached elsewhere. A node that has moved has no link any more. The lock is held.
func (m *Mesh) twin(at *messages.MemberAddress) string {
	l := m.links[at.GetReplicaId()]
	if l == nil || l.address == at.GetPeer() || !l.open() {
		return ""
	}
	return l.address
}

func (m *Mesh) learn(known []*messages.MemberAddress) {
	m.mu.Lock()
	known = slices.DeleteFunc(slices.Clone(known), func(at *messages.MemberAddress) bool { return m.twin(at) != "" })
	changed := m.dir.merge(known)
	if changed {
		m.relink()
	}
	all := m.dir.all()
	m.mu.Unlock()
	if changed {
		m.cfg.Learned(all)
	}
}

// relink brings the links in line with the directory. The lock is held.
func (m *Mesh) relink() {
	if m.closed {
		return
	}
	for id, l := range m.links {
		if at := m.dir.members[id]; at.GetPeer() != l.address {
			l.stop()
			delete(m.links, id)
		}
	}
	for id, at := range m.dir.members {
		if id == m.cfg.Self.GetReplicaId() || at.GetPeer() == "" || m.links[id] != nil {
			continue
		}
		l := newLink(m, id, at.GetPeer())
		m.links[id] = l
		m.work.Go(l.run)
	}
}

// hello is how this node opens or accepts a link.
func (m *Mesh) hello(to uint64) *messages.PeerMessage {
	id, incarnation := m.cfg.Identity()
	return &messages.PeerMessage{Message: &messages.PeerMessage_Hello{Hello: &messages.PeerHello{
		Protocol: protocolVersion, From: m.cfg.Self, ToReplicaId: to, ClusterId: id, Incarnation: incarnation,
		Version: m.cfg.Version, ApplyVersionMax: m.cfg.ApplyVersion, Known: m.Members(),
	}}}
}

// refuse says why a node cannot be linked with; nil when it can.
func (m *Mesh) refuse(h *messages.PeerHello) *messages.Error {
	id, incarnation := m.cfg.Identity()
	self, from := m.cfg.Self.GetReplicaId(), h.GetFrom().GetReplicaId()
	m.mu.Lock()
	removed, twin := m.dir.removed[from], m.twin(h.GetFrom())
	m.mu.Unlock()
	switch {
	case h == nil:
		return messages.NewError(messages.Code_CODE_PROTOCOL, "the first message must be a hello")
	case h.GetProtocol() != protocolVersion:
		return messages.NewError(messages.Code_CODE_UNSUPPORTED, "peer protocol %d; this node speaks %d", h.GetProtocol(), protocolVersion)
	case len(id) > 0 && len(h.GetClusterId()) > 0 && !bytes.Equal(id, h.GetClusterId()):
		return messages.NewError(messages.Code_CODE_WRONG_INCARNATION,
			"replica %d at %s belongs to cluster %x, this node to %x: check the addresses of both", from, h.GetFrom().GetPeer(), h.GetClusterId(), id)
	case incarnation != 0 && h.GetIncarnation() != 0 && incarnation != h.GetIncarnation():
		return messages.NewError(messages.Code_CODE_WRONG_INCARNATION,
			"replica %d is of incarnation %d, this node of %d: only one of them was restored", from, h.GetIncarnation(), incarnation)
	case from == self:
		return messages.NewError(messages.Code_CODE_INVALID_ARGUMENT,
			"two nodes have the replica id %d: this one and the one at %s; stop one of them", self, h.GetFrom().GetPeer())
	case h.GetToReplicaId() != 0 && h.GetToReplicaId() != self:
		return messages.NewError(messages.Code_CODE_INVALID_ARGUMENT,
			"this address is replica %d's, not replica %d's: check the members' addresses", self, h.GetToReplicaId())
	case twin != "":
		return messages.NewError(messages.Code_CODE_INVALID_ARGUMENT,
			"two nodes have the replica id %d: the ones at %s and %s; stop the wrong one", from, twin, h.GetFrom().GetPeer())
	case removed:
		return errRemoved(from)
	}
	return nil
}

// beat returns this node's sign of life; seen is the version of the addresses that the
// link has had.
func (m *Mesh) beat(seen uint64) (*messages.PeerMessage, uint64) {
	b := m.cfg.Beat()
	m.mu.Lock()
	if m.dir.version != seen {
		seen, b.Known = m.dir.version, m.dir.all()
	}
	m.mu.Unlock()
	return &messages.PeerMessage{Message: &messages.PeerMessage_Beat{Beat: b}}, seen
}

func (m *Mesh) heard(from *messages.PeerHello, b *messages.PeerBeat) {
	if len(b.GetKnown()) > 0 {
		m.learn(b.GetKnown())
	}
	m.cfg.Heard(from, b)
}

// findMembers asks the contacts who is there, until a link is open.
func (m *Mesh) findMembers() {
	for {
		for _, address := range m.cfg.Contacts {
			if m.linked() {
				break
			}
			if h, err := m.ask(address); err != nil {
				m.cfg.Logger.Warn("no answer from a contact", "address", address, "error", err)
			} else {
				m.learn(append(h.GetKnown(), h.GetFrom()))
			}
		}
		select {
		case <-m.ctx.Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (m *Mesh) linked() bool {
	m.mu.Lock()
	links := make([]*link, 0, len(m.links))
	for _, l := range m.links {
		links = append(links, l)
	}
	m.mu.Unlock()
	for _, l := range links {
		if l.open() {
			return true
		}
	}
	return false
}
