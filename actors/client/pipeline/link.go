package pipeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/concord-kv/concord/messages"
)

// link is the state of the one connection.
type link struct {
	up     bool
	reason error // why it is down
	// refusals is how often nodes have said that the client is nobody, since one last did
	// not.
	refusals int

	frameOperations int
	frameBytes      int
	callsMax        int
	operationMax    int // encoded bytes of the largest operation

	heartbeat    time.Duration
	beats        uint64
	lastSent     time.Duration
	lastReceived time.Duration

	nextWire uint64
	wires    map[uint64]*Call // sent on this connection, not answered

	renewal *messages.Credentials // to be sent

	strikes int   // refusals in a row that another node might not give
	leave   error // set when the connection should be given up
	// quit is why nothing more is sent on it; it is given up for it when all answers have
	// come, at quitBy at the latest.
	quit   error
	quitBy time.Duration
}

// strikesMax refusals of a node that could not serve, without a success between, are
// enough to try another one.
const strikesMax = 3

// Hello returns the message that opens a connection.
func (p *Pipeline) Hello(name string) *messages.ClientMessage {
	return &messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: &messages.ClientHello{
		Protocol: messages.ProtocolVersion, ClientName: name,
		ClientEpoch: p.cfg.ClientEpoch, ClusterId: p.clusterID,
	}}}
}

// Connected takes a node's answer to Hello: from now on Next has messages for it. It
// refuses a node of another cluster, of an older incarnation or of another protocol;
// the connection must then be closed. A newer incarnation is a cluster that was
// restored from a backup: what was in flight in the older one is reported as unknown.
func (p *Pipeline) Connected(h *messages.ServerHello, now time.Duration) error {
	if p.closed != nil {
		return p.closedError()
	}
	if h.GetProtocol() != messages.ProtocolVersion {
		return messages.NewError(messages.Code_CODE_UNSUPPORTED, "the node speaks protocol %d, not %d", h.GetProtocol(), messages.ProtocolVersion)
	}
	if len(p.clusterID) > 0 && len(h.ClusterId) > 0 && string(p.clusterID) != string(h.ClusterId) {
		return messages.NewError(messages.Code_CODE_WRONG_INCARNATION, "the node belongs to cluster %x, not %x", h.ClusterId, p.clusterID)
	}
	if h.Incarnation < p.incarnation {
		return messages.NewError(messages.Code_CODE_WRONG_INCARNATION, "the node is of incarnation %d, the cluster of %d", h.Incarnation, p.incarnation)
	}
	p.link.refusals = 0
	if p.incarnation != 0 && h.Incarnation != p.incarnation {
		p.session.drop(p, messages.Code_CODE_WRONG_INCARNATION, "the cluster was restored")
	}
	p.clusterID, p.incarnation = h.ClusterId, h.Incarnation

	l := &p.link
	l.up, l.reason, l.leave, l.strikes, l.quit = true, nil, nil, 0, nil
	l.frameOperations = orDefault(int(h.FrameOperationsMax), messages.FrameOperationsMax)
	l.frameBytes = orDefault(int(h.FrameBytesMax), messages.FrameBytesMax)
	l.callsMax = orDefault(int(h.CallsMax), messages.CallsPerConnectionDefault)
	l.operationMax = orDefault(int(h.ValueBytesMax), messages.ValueBytesCeiling) + messages.TxnOverheadBytes
	l.heartbeat = time.Duration(orDefault(int(h.HeartbeatMs), messages.HeartbeatMs)) * time.Millisecond
	l.lastSent, l.lastReceived, l.nextWire, l.beats, l.renewal = now, now, 1, 0, nil
	p.pause.clear()
	p.session.pause.clear()
	p.watches.reconnect()
	return nil
}

func orDefault(n, def int) int {
	if n <= 0 {
		return def
	}
	return n
}

// Renew sends new credentials on the open connection; nothing else of it changes.
func (p *Pipeline) Renew(c *messages.Credentials) {
	if p.link.up {
		p.link.renewal = c
	}
}

// refusalsMax refusals in a row are the end of watches, too.
const refusalsMax = 3

// Refuse completes every call that waits: no node will take them, for this reason. What
// may have been applied is reported as unknown. Watches have time: they end at the
// refusalsMax-th refusal in a row, for a source of credentials may have new ones soon.
func (p *Pipeline) Refuse(reason error) {
	if p.link.refusals++; p.link.refusals >= refusalsMax {
		p.watches.closeAll(&messages.Error{Detail: messages.DetailOf(reason)})
	}
	for len(p.live) > 0 {
		c := p.live[len(p.live)-1]
		e := withOutcome(&messages.Error{Detail: messages.DetailOf(reason)}, c.outcome())
		p.complete(c, nil, e)
		if n := len(p.live); n > 0 && p.live[n-1] == c {
			return // it stays for its number's sake
		}
	}
}

// Disconnected takes the end of the connection, or a failure to make one. Whatever
// may be repeated waits for the next connection; reason is what an error says when
// none comes in time.
func (p *Pipeline) Disconnected(reason error) {
	l := &p.link
	if !l.up {
		l.reason = reason
		return
	}
	l.down(reason)
	for _, c := range l.takeWires() {
		c.wire, c.sent = 0, false
		c.doubt = true
		switch {
		case c.over:
		case c.Kind == Once:
			p.complete(c, nil, &messages.Error{Detail: &messages.ErrorDetail{
				Code: messages.Code_CODE_UNAVAILABLE, Outcome: messages.Outcome_OUTCOME_UNKNOWN,
				Message: "the connection was lost before the answer",
			}, Err: reason})
		case c.Kind == Numbered: // the window has it
		default:
			p.plain.push(c)
		}
	}
	p.session.rewind()
	p.watches.disconnect()
}

func (l *link) down(reason error) { l.up, l.reason = false, reason }

// takeWires empties the table, in the order in which the calls were sent.
func (l *link) takeWires() []*Call {
	calls := make([]*Call, 0, len(l.wires))
	for _, c := range l.wires {
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(a, b *Call) int { return cmp.Compare(a.wire, b.wire) })
	clear(l.wires)
	return calls
}

// advance notices a node that went silent and returns when to look again.
func (l *link) advance(now time.Duration) time.Duration {
	if !l.up || l.leave != nil {
		return Never
	}
	silent := l.lastReceived + l.heartbeat*messages.HeartbeatsMissedMax
	if now >= silent {
		l.leave = messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, "the node has been silent for %v", now-l.lastReceived)
		return Never
	}
	if l.quit != nil {
		if len(l.wires) == 0 || now >= l.quitBy {
			l.leave = l.quit
			return Never
		}
		silent = min(silent, l.quitBy)
	}
	// A writer that is held up sends its heartbeat late: look again, but not at once.
	return min(silent, max(l.lastSent+l.heartbeat, now+l.heartbeat/20))
}

// quitMax is how long answers are waited for on a connection that is to be given up.
const quitMax = time.Second

// Quit gives the connection up for the sake of a better one: nothing more is sent, and it
// ends, for this reason, when what was sent is answered, or after a second. What waits is
// sent on the next connection, where watches go on as well.
func (p *Pipeline) Quit(reason error, now time.Duration) {
	if l := &p.link; l.up && l.leave == nil && l.quit == nil {
		l.quit, l.quitBy = reason, now+quitMax
	}
}

// Leave returns why the connection should be given up for another one; nil while it
// serves.
func (p *Pipeline) Leave() error {
	if !p.link.up {
		return nil
	}
	return p.link.leave
}

// SetRoam says whether there are other nodes to try.
func (p *Pipeline) SetRoam(roam bool) { p.cfg.Roam = roam }

// strike counts a refusal that another node might not give, if there is another.
func (p *Pipeline) strike(e *messages.Error) {
	l := &p.link
	l.strikes++
	if !p.cfg.Roam {
		return
	}
	stopping := e.Code() == messages.Code_CODE_NODE_STOPPING || e.Code() == messages.Code_CODE_NOT_LEADER || e.Code() == messages.Code_CODE_NO_QUORUM
	if l.leave == nil && (stopping || l.strikes >= strikesMax) {
		l.leave = e
	}
}
