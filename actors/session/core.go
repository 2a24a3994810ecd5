package session

import (
	"bytes"
	"slices"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/auth"
)

// port is what the core acts through: the actor, or a test.
type port interface {
	propose(*messages.Propose)
	barrier(*messages.ReadBarrier)
	getView(*state.GetView)
	askOperator(*messages.AskAdmin)
	// tellHub sends one of protocol's messages to the watch hub.
	tellHub(message any)
	// push queues a message for the client and returns the bytes that wait.
	push(outgoing) (backlog int64)
	waiting() (backlog int64, sent uint64)
	// callWhen asks for wrote once the bytes that wait are at or below low.
	callWhen(low int64)
	// closeStream ends the connection, after what is queued or now.
	closeStream(reason *messages.ErrorDetail, now bool)
	// checkPassword has passwordChecked called, at once or later. u may be nil.
	checkPassword(u *messages.User, password string)
	// hold has the client's stream read no further, or again.
	hold(on bool)
	// belongs says whose connection it is, for those who count what waits.
	belongs(of *client)
	// wake has flush called once what is in the mailbox now was received.
	wake()
}

// view is a state.View as sessions read it.
type view interface {
	// QueryAs asks for the rights, unless they are nil.
	QueryAs(*auth.Rights, *messages.Query, state.Now) (*messages.QueryReply, *messages.Error)
	// QueryEncoded is QueryAs for an answer that is to be encoded.
	QueryEncoded(*auth.Rights, *messages.Query, state.Now) (*messages.QueryReply, *messages.Error)
	Revision() uint64
}

type phase uint8

const (
	opening  phase = iota // waits for ClientHello
	open                  // takes frames
	draining              // the node stops: calls in flight are answered, new ones refused
	closing               // the stream ends once its queue is written
)

// core is one connection, in plain Go. It has no clock: time is what tick last
// said.
type core struct {
	id        uint64
	peer      transport.Peer
	who       identity
	client    *client               // who its calls are counted for; nil before it is open
	encodes   bool                  // what is sent is encoded for this client alone
	checking  func(*messages.Error) // a password is being checked; what follows
	cfg       *Config
	admission *admission
	port      port

	phase     phase
	facts     Facts    // as of the last hello, frame or tick
	queueMax  int64    // the most that may wait for the client
	told      []string // the endpoints that the client was told of
	epoch     uint64
	nextCall  uint64 // calls are numbered upwards: the lowest that may come next
	requestID uint64 // of the last message that is answered by number

	ticked   bool
	nowMs    int64
	bornMs   int64
	silentMs int64  // since something was heard of the client
	heard    uint64 // what the pump had received, as of the last tick
	everyMs  int64  // between two heartbeats
	beatMs   int64
	beats    uint64
	closedMs int64 // when it began to close
	// stalledMs is how long something has waited and the client took nothing.
	stalledMs int64
	sent      uint64 // messages that it had taken, as of the last tick

	calls int64 // in flight
	bytes int64 // their requests

	owes    int64 // for what the message has cost so far; see churn
	owing   bool  // the client has overdrawn its account
	holding bool  // the stream is not read

	replies      []*messages.Reply
	repliesBytes int64
	waking       bool

	writes  writes
	reads   reads
	watches watches
	admins  admins
}

func newCore(id uint64, principal string, cfg *Config, a *admission, p port) *core {
	c := &core{id: id, cfg: cfg, admission: a, port: p, everyMs: a.heartbeatMs()}
	c.who.certificate, c.who.name = principal, principal
	c.refreshFacts()
	c.writes.byRequest = make(map[uint64]*proposal)
	c.watches.byID = make(map[uint64]*watch)
	return c
}

// received takes one message of the client.
func (c *core) received(m *messages.ClientMessage) {
	if c.phase == closing {
		return
	}
	if c.phase == opening {
		if hello := m.GetHello(); hello != nil && c.checking == nil {
			c.onHello(hello)
		} else {
			c.violated("the first message must be a hello, and then it is the node's turn")
		}
		return
	}
	switch m := m.GetMessage().(type) {
	case *messages.ClientMessage_Frame:
		c.onFrame(m.Frame)
	case *messages.ClientMessage_WatchCredit:
		c.onCredit(m.WatchCredit)
	case *messages.ClientMessage_CancelWatch:
		c.onCancel(m.CancelWatch)
	case *messages.ClientMessage_Credentials:
		c.onCredentials(m.Credentials)
	case *messages.ClientMessage_Heartbeat:
	case *messages.ClientMessage_Goodbye:
		c.close(nil)
	case *messages.ClientMessage_Hello:
		c.violated("a second hello")
	default:
		c.violated("a message of no known kind")
	}
}

func (c *core) onHello(h *messages.ClientHello) {
	f := c.refreshFacts()
	var refusal *messages.Error
	switch {
	case h.Protocol != messages.ProtocolVersion:
		refusal = messages.NewError(messages.Code_CODE_UNSUPPORTED, "protocol %d; this node speaks %d", h.Protocol, messages.ProtocolVersion).
			WithField("protocol").WithLimit(messages.ProtocolVersion)
	case len(h.ClientName) > messages.ClientNameBytesMax:
		refusal = messages.InvalidField("client_name", "%d bytes, at most %d", len(h.ClientName), messages.ClientNameBytesMax).WithLimit(messages.ClientNameBytesMax)
	case !f.Ready:
		refusal = messages.NewError(messages.Code_CODE_NOT_READY, "the node has not caught up with its cluster")
		refusal.Detail.RetryAfterMs = retryAfterMs
	case len(h.ClusterId) > 0 && !bytes.Equal(h.ClusterId, f.ClusterID):
		refusal = messages.NewError(messages.Code_CODE_WRONG_INCARNATION, "this is another cluster").WithField("cluster_id")
	case h.Incarnation != 0 && h.Incarnation != f.Incarnation:
		refusal = wrongIncarnation(h.Incarnation, f.Incarnation)
	}
	if refusal == nil && h.Credentials != nil {
		refusal = messages.ValidateCredentials(h.Credentials)
	}
	if refusal != nil {
		c.turnAway(refusal)
		return
	}
	if h.Credentials != nil {
		c.show(h.Credentials, func(err *messages.Error) { c.greet(h, err) })
		return
	}
	c.identify(c.cfg.Node.Auth())
	c.greet(h, c.who.refused)
}

// turnAway ends the connection before it began.
func (c *core) turnAway(refusal *messages.Error) {
	if code := refusal.Code(); code != messages.Code_CODE_NOT_READY {
		c.admission.refusals.Add(c.cfg.Logger, clientOf(c), messages.CodeName(code))
	}
	c.close(refusal.Detail)
}

// greet opens the connection, or says why the client is nobody here.
func (c *core) greet(h *messages.ClientHello, refusal *messages.Error) {
	f := c.refreshFacts()
	if refusal == nil {
		refusal = c.admission.share(c)
	}
	if refusal != nil {
		c.turnAway(refusal)
		return
	}
	c.phase, c.epoch, c.told = open, h.ClientEpoch, f.Endpoints
	c.send(&messages.ServerMessage{Message: &messages.ServerMessage_Hello{Hello: &messages.ServerHello{
		Protocol:           messages.ProtocolVersion,
		ClusterId:          f.ClusterID,
		Incarnation:        f.Incarnation,
		ReplicaId:          f.ReplicaID,
		LeaderId:           f.LeaderID,
		LeaderEndpoint:     f.LeaderEndpoint,
		Endpoints:          f.Endpoints,
		Version:            f.Version,
		FrameOperationsMax: messages.FrameOperationsMax,
		FrameBytesMax:      messages.FrameBytesMax,
		CallsMax:           uint32(c.cfg.Limits.CallsPerConnection),
		HeartbeatMs:        uint32(c.everyMs),
		ValueBytesMax:      f.cluster().GetValueBytesMax(),
		User:               c.who.user(),

		CredentialsExpireUnixMs: c.who.expiresMs,
		CredentialsLeftMs:       c.leftMs(),
	}}})
}

// leaderChanged passes on who leads.
func (c *core) leaderChanged(m *messages.LeaderChanged) {
	if c.phase != open {
		return
	}
	c.hint(m.GetLeaderId())
}

// tellEndpoints passes on where the members are, when that has changed: a client may
// outlive all those that it knew.
func (c *core) tellEndpoints() {
	if c.phase == open && !slices.Equal(c.told, c.facts.Endpoints) {
		c.hint(c.facts.LeaderID)
	}
}

func (c *core) hint(leaderID uint64) {
	f := c.refreshFacts()
	c.told = f.Endpoints
	hint := &messages.LeaderHint{LeaderId: leaderID, Endpoints: f.Endpoints}
	if f.LeaderID == hint.LeaderId {
		hint.Endpoint = f.LeaderEndpoint
	}
	c.send(&messages.ServerMessage{Message: &messages.ServerMessage_LeaderHint{LeaderHint: hint}})
}

// wrote hears from the writer that the client has taken something.
func (c *core) wrote(window int64) {
	if window > 0 {
		c.port.tellHub(&protocol.Drained{Session: c.id, Bytes: window})
	}
	c.reads.held = false
	c.runReads()
	c.hold()
	c.wake()
}

// drain stops taking calls; the stream ends when those in flight are answered.
func (c *core) drain() {
	switch c.phase {
	case opening:
		c.close(stopping().Detail)
	case open:
		c.phase = draining
		c.endWatches(stopping())
		c.wake()
	}
}

// flush passes on what has been gathered. It runs once for all that was in the
// mailbox: what came together goes together.
func (c *core) flush() {
	c.waking = false
	c.sendProposal()
	c.askReads()
	c.runReads()
	c.sendReplies()
	if c.phase == draining && c.calls == 0 {
		c.close(stopping().Detail)
	}
}

func (c *core) wake() {
	if !c.waking {
		c.waking = true
		c.port.wake()
	}
}

// gone: the client ended the stream, or it broke.
func (c *core) gone() {
	if c.phase != closing {
		c.close(nil)
	}
}

// violated ends the connection: the client does not keep to the protocol, so
// nothing that it says next could be trusted to mean what it seems to.
func (c *core) violated(what string) {
	c.close(messages.NewError(messages.Code_CODE_PROTOCOL, "%s", what).Detail)
}

// close ends the connection after what is queued.
func (c *core) close(reason *messages.ErrorDetail) {
	if c.phase == closing {
		return
	}
	c.sendReplies()
	c.phase, c.closedMs = closing, c.nowMs
	c.cfg.Telemetry.Closed(reason.GetCode())
	c.hold()
	c.port.closeStream(reason, false)
}

// cut ends the connection now: the client does not read.
func (c *core) cut(reason *messages.Error) {
	if c.phase == closing {
		c.port.closeStream(reason.Detail, true)
		return
	}
	c.phase, c.closedMs = closing, c.nowMs
	c.cfg.Telemetry.Closed(reason.Code())
	c.hold()
	c.port.closeStream(reason.Detail, true)
}

// stopped gives back what the connection holds of the node.
func (c *core) stopped() {
	c.port.tellHub(&protocol.SessionClosed{Session: c.id})
	if c.client == nil {
		return
	}
	c.client.writes.Add(-c.writes.inFlight)
	c.admission.longs.Add(-c.reads.long)
	c.admission.leave(c.client, c.calls, c.bytes)
	c.admission.unshare(c.client)
	c.calls, c.bytes, c.writes.inFlight, c.reads.long, c.client = 0, 0, 0, 0, nil
}

// refreshFacts asks the node for its facts. The hub's window and the largest
// answers must fit into the queue.
func (c *core) refreshFacts() *Facts {
	c.facts = c.cfg.Node.Facts()
	c.queueMax = max(c.cfg.Limits.QueueBytesMax, 2*int64(c.facts.cluster().GetValueBytesMax())+2*protocol.SessionWindowBytes)
	return &c.facts
}

var defaultCluster = messages.DefaultClusterConfig()

func (f *Facts) cluster() *messages.ClusterConfig {
	if f.Cluster == nil {
		return defaultCluster
	}
	return f.Cluster
}
