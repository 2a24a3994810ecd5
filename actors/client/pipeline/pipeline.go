package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/concord-kv/concord/messages"
)

// Never is later than every time.
const Never = time.Duration(1<<63 - 1)

// Config of a Pipeline. New fills what is zero.
type Config struct {
	// Random gives jitter. Required.
	Random func() uint64
	// ClientEpoch is random for each process. Required.
	ClientEpoch uint64
	// SessionTTL of the exactly-once session; default 15 s.
	SessionTTL time.Duration
	// SessionLabel is shown to operators.
	SessionLabel string
	// WindowMax bounds the writes of the session that are sent and not answered;
	// default 1,000, at most the 1,024 answers that the cluster keeps for a session.
	WindowMax int
	// CallsMax bounds the calls that are held; one more is refused as overloaded.
	// Default 65,536.
	CallsMax int
	// AttemptTimeout is how long a node is given for one attempt, so that there is time
	// left to try another; default 2.5 s.
	AttemptTimeout time.Duration

	// Roam says that there are other nodes to try when this one cannot serve.
	Roam bool

	// OnSession is told of a session that was opened and of the lease that it hangs on,
	// which must be kept alive from now on; sentAt is when it was asked for. It must
	// neither block nor call the pipeline.
	OnSession func(sessionID, leaseID uint64, ttl, sentAt time.Duration)
	// OnSessionOver is told that a session is not used any more.
	OnSessionOver func(leaseID uint64)
}

func (c Config) withDefaults() Config {
	if c.SessionTTL <= 0 {
		c.SessionTTL = 15 * time.Second
	}
	if c.WindowMax <= 0 {
		c.WindowMax = 1000
	}
	c.WindowMax = min(c.WindowMax, messages.SessionSequenceWindowMax)
	if c.CallsMax <= 0 {
		c.CallsMax = 1 << 16
	}
	if c.AttemptTimeout <= 0 {
		c.AttemptTimeout = messages.RequestTimeoutMsDefault * time.Millisecond / 2
	}
	return c
}

// Pipeline holds the calls of one client. See the package comment.
type Pipeline struct {
	cfg    Config
	closed *messages.Error

	live     []*Call       // all that are not completed
	earliest time.Duration // no live call's deadline is before it

	urgent  queue // Once
	plain   queue // Read and Repeatable
	pause   pause // of plain
	flip    bool  // whose turn it is to fill a frame first
	session session
	watches watches
	link    link

	incarnation uint64
	clusterID   []byte
	revision    uint64 // the highest that was seen
}

// New returns an empty pipeline that is not connected.
func New(cfg Config) *Pipeline {
	p := &Pipeline{cfg: cfg.withDefaults(), earliest: Never}
	p.watches.byID = make(map[uint64]*Watch)
	p.link.wires = make(map[uint64]*Call)
	return p
}

// Submit takes a call. It refuses, and does not complete, a call of a closed pipeline
// and one more than Config.CallsMax; neither was applied.
func (p *Pipeline) Submit(c *Call, now time.Duration) error {
	if p.closed != nil {
		return p.closedError()
	}
	if len(p.live) >= p.cfg.CallsMax {
		e := messages.NewError(messages.Code_CODE_OVERLOADED, "%d calls are waiting in this client", len(p.live))
		return e.WithLimit(uint64(p.cfg.CallsMax))
	}
	c.measure()
	if q := c.Operation.GetQuery(); q != nil && q.Consistency == messages.Consistency_CONSISTENCY_STALE && q.MinRevision == 0 {
		// Never read backwards, also across nodes.
		q.MinRevision = p.revision
	}
	c.liveIndex = len(p.live)
	p.live = append(p.live, c)
	p.earliest = min(p.earliest, c.Deadline)
	switch c.Kind {
	case Numbered:
		p.session.waiting.push(c)
	case Once:
		p.urgent.push(c)
	default:
		p.plain.push(c)
	}
	return nil
}

// Abandon completes a call because its caller stopped waiting: cause is the context's
// error. It does nothing to a call that is completed. A numbered write whose number
// was used is not repeated from then on.
func (p *Pipeline) Abandon(c *Call, cause error) {
	if c.over {
		return
	}
	code := messages.Code_CODE_CANCELLED
	if errors.Is(cause, context.DeadlineExceeded) {
		code = messages.Code_CODE_TIMEOUT
	}
	p.complete(c, nil, p.giveUp(c, code, cause))
}

// Advance gives up the calls whose deadline has passed and does what is due, and
// returns when to call it again.
func (p *Pipeline) Advance(now time.Duration) time.Duration {
	if now >= p.earliest {
		p.expire(now)
	}
	next := min(p.earliest, p.link.advance(now))
	if p.link.up {
		next = min(next, p.due(now, p.plain.len() > 0, p.pause.until))
		next = min(next, p.due(now, p.session.pending(), p.session.quietUntil()))
		next = min(next, p.due(now, p.watches.pending(), p.watches.pause.until))
	}
	return next
}

// due is when a paused sender with something to send goes on.
func (p *Pipeline) due(now time.Duration, pending bool, until time.Duration) time.Duration {
	if pending && until > now {
		return until
	}
	return Never
}

func (p *Pipeline) expire(now time.Duration) {
	p.earliest = Never
	for i := 0; i < len(p.live); {
		c := p.live[i]
		if c.Deadline > now {
			p.earliest = min(p.earliest, c.Deadline)
			i++
			continue
		}
		p.complete(c, nil, p.giveUp(c, messages.Code_CODE_TIMEOUT, nil)) // moves another call to i
	}
}

// giveUp makes the error of a call that has no answer. The last refusal says more
// than that time has passed, so its code goes first.
func (p *Pipeline) giveUp(c *Call, code messages.Code, cause error) error {
	e := &messages.Error{Detail: &messages.ErrorDetail{Code: code, Message: "no answer in time"}, Err: cause}
	if code == messages.Code_CODE_CANCELLED {
		e.Detail.Message = "the caller stopped waiting"
	}
	switch {
	case code != messages.Code_CODE_TIMEOUT:
	case c.refusal != nil:
		d := c.refusal.Detail
		e.Detail = &messages.ErrorDetail{
			Code: d.Code, Message: d.Message, Field: d.Field, CompactRevision: d.CompactRevision,
			CurrentRevision: d.CurrentRevision, RetryAfterMs: d.RetryAfterMs, Limit: d.Limit,
		}
	case !p.link.up:
		e.Detail.Code, e.Detail.Message, e.Err = messages.Code_CODE_UNAVAILABLE, "no node answers", p.link.reason
	}
	e.Detail.Outcome = c.outcome()
	return e
}

// complete hands a call its answer. A numbered write that was sent stays in the
// window until its number is answered.
func (p *Pipeline) complete(c *Call, reply *messages.Reply, err error) {
	if c.over {
		return
	}
	last := len(p.live) - 1
	moved := p.live[last]
	p.live[c.liveIndex], moved.liveIndex = moved, c.liveIndex
	p.live[last] = nil
	p.live = p.live[:last]
	if c.Kind == Numbered && err != nil && !c.answered {
		c.void = true
	}
	c.finish(reply, err)
}

// Close completes every call and ends every watch; nothing is accepted any more.
func (p *Pipeline) Close() {
	if p.closed != nil {
		return
	}
	p.closed = messages.NewError(messages.Code_CODE_CANCELLED, "the client is closed")
	for len(p.live) > 0 {
		c := p.live[len(p.live)-1]
		e := p.closedError()
		e.Detail.Outcome = c.outcome()
		p.complete(c, nil, e)
	}
	p.watches.closeAll(p.closedError())
	p.link.down(nil)
}

func (p *Pipeline) closedError() *messages.Error {
	return messages.NewError(messages.Code_CODE_CANCELLED, "the client is closed")
}

// Held returns how many calls are not completed.
func (p *Pipeline) Held() int { return len(p.live) }

// Revision returns the highest revision that any answer named.
func (p *Pipeline) Revision() uint64 { return p.revision }

func (p *Pipeline) saw(revision uint64) { p.revision = max(p.revision, revision) }
