package session

import (
	"slices"
	"time"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// reads are the calls that wait for a view. A linearizable read waits for a
// barrier first: everything acknowledged before the call is then applied here, so
// a view that is asked for afterwards has it. Many reads share a barrier and a
// view.
type reads struct {
	barrier []*read // came since the last barrier was asked for
	view    []*read // need any view
	// retry wait for a revision that no view had; they try again at the next tick.
	retry []*read
	// barriers and views are under way, oldest first.
	barriers, views []group
	ready           []batch
	held            bool  // the client must read first
	long            int64 // calls in flight that may take long
}

// read is a query, or a watch that begins at a view.
type read struct {
	call       uint64
	query      *messages.Query
	watch      *watch // instead of query
	bytes      int64
	deadlineMs int64
	timeoutMs  uint32
	behind     bool // a view was older than its min_revision
	done       bool // answered: it was too late, or cancelled
}

type group struct {
	request uint64
	reads   []*read
}

type batch struct {
	view  view
	reads []*read
}

// longAheadBytes is what may wait for the client when a read begins that may take long. So
// nobody makes the node work for answers that are not read: one who does not read has one.
const longAheadBytes = 64 << 10

// takesLong reports whether a read may look at more than a key.
func (r *read) takesLong() bool {
	if r.watch != nil {
		return r.watch.request.GetList() != nil
	}
	return r.query.GetGet() == nil
}

// finished notes that a read is over.
func (c *core) finished(r *read) {
	r.done = true
	if r.query != nil && r.takesLong() {
		c.reads.long--
		c.admission.longs.Add(-1)
	}
}

// readsBytesMax is how much is answered at once, before the session looks at what
// else has come.
const readsBytesMax = 1 << 20

func (c *core) onQuery(call uint64, q *messages.Query, size int64, timeoutMs uint32) *messages.Error {
	if err := messages.ValidateQuery(q); err != nil {
		return err
	}
	if c.who.guarded {
		if err := c.mayQuery(q); err != nil {
			return err
		}
	}
	if err := c.admit(size, false); err != nil {
		return err
	}
	if q.GetGet() == nil {
		c.reads.long++
		c.admission.longs.Add(1)
	}
	c.addRead(&read{call: call, query: q, bytes: size, timeoutMs: timeoutMs, deadlineMs: c.nowMs + int64(timeoutMs)},
		q.Consistency == messages.Consistency_CONSISTENCY_STALE)
	return nil
}

func (c *core) addRead(r *read, stale bool) {
	if stale {
		c.reads.view = append(c.reads.view, r)
	} else {
		c.reads.barrier = append(c.reads.barrier, r)
	}
	c.wake()
}

// askReads asks for the barriers and views that reads wait for.
func (c *core) askReads() {
	r := &c.reads
	if len(r.barrier) > 0 && len(r.barriers) < barriersMax {
		var timeoutMs uint32
		for _, w := range r.barrier {
			timeoutMs = max(timeoutMs, w.timeoutMs)
		}
		c.requestID++
		r.barriers = append(r.barriers, group{c.requestID, r.barrier})
		r.barrier = nil
		c.port.barrier(&messages.ReadBarrier{RequestId: c.requestID, TimeoutMs: timeoutMs})
	}
	if len(r.view) > 0 {
		c.askView(r.view)
		r.view = nil
	}
}

func (c *core) askView(reads []*read) {
	c.requestID++
	c.reads.views = append(c.reads.views, group{c.requestID, reads})
	c.port.getView(&state.GetView{RequestID: c.requestID})
}

func take(groups *[]group, request uint64) []*read {
	for i, g := range *groups {
		if g.request == request {
			*groups = slices.Delete(*groups, i, i+1)
			return g.reads
		}
	}
	return nil
}

func (c *core) barrierReached(m *messages.BarrierReached) {
	reads := take(&c.reads.barriers, m.GetRequestId())
	if m.GetError() != nil {
		for _, r := range reads {
			c.failRead(r, m.GetError())
		}
	} else if len(reads) > 0 {
		c.askView(reads)
	}
	c.wake() // the next barrier may have waited for this one
}

func (c *core) gotView(request uint64, v view) {
	if reads := take(&c.reads.views, request); len(reads) > 0 {
		c.reads.ready = append(c.reads.ready, batch{v, reads})
		c.runReads()
	}
}

// runReads answers reads that have their view, as long as the client takes the
// answers.
func (c *core) runReads() {
	r := &c.reads
	answered := int64(0)
	for len(r.ready) > 0 && !r.held && c.phase != closing {
		b := &r.ready[0]
		if len(b.reads) == 0 {
			r.ready = slices.Delete(r.ready, 0, 1)
			continue
		}
		if answered >= readsBytesMax {
			c.sendReplies()
			c.wake()
			return
		}
		one := b.reads[0]
		most := c.admission.queueMax(c.client)
		if one.takesLong() {
			most = min(most, longAheadBytes)
		}
		if backlog, _ := c.port.waiting(); backlog+c.repliesBytes >= most {
			// The view is held meanwhile; the stall limit bounds for how long.
			r.held = true
			c.sendReplies()
			c.hold()
			c.port.callWhen(most / 2)
			return
		}
		b.reads = b.reads[1:]
		answered += c.runRead(one, b.view)
	}
}

// runRead answers one read and returns the size of the answer.
func (c *core) runRead(r *read, v view) int64 {
	switch {
	case r.done:
		return 0
	case r.watch != nil:
		return c.beginAtView(r, v)
	case v.Revision() < r.query.MinRevision:
		// A barrier brings everything acknowledged; what is still missing then may
		// come later.
		if r.behind || r.query.Consistency == messages.Consistency_CONSISTENCY_LINEARIZABLE {
			c.reads.retry = append(c.reads.retry, r)
		} else {
			r.behind = true
			c.addRead(r, false)
		}
		return 0
	}
	if err := c.allowed(); err != nil {
		c.failRead(r, err.Detail)
		return 0
	}
	query := c.query
	if r.query.GetGet() == nil {
		query = c.longQuery
	}
	reply, err := query(v, r.query, c.cfg.Node.Now())
	if err != nil {
		c.failRead(r, err.Detail)
		return 0
	}
	if r.query.Consistency == messages.Consistency_CONSISTENCY_STALE {
		reply.LeaderSilentMs = uint64(max(0, c.refreshFacts().LeaderSilentMs))
	}
	if s := reply.GetStatus(); s != nil {
		c.addFacts(s)
	}
	bytes := int64(messages.MessageSize(reply)) + 32
	c.finished(r)
	c.reply(&messages.Reply{Call: r.call, Reply: &messages.Reply_Query{Query: reply}}, bytes, r.bytes)
	return bytes
}

func (c *core) query(v view, q *messages.Query, now state.Now) (*messages.QueryReply, *messages.Error) {
	if c.encodes {
		return v.QueryEncoded(c.who.rights, q, now)
	}
	return v.QueryAs(c.who.rights, q, now)
}

// longQuery is one that may take long: few are answered at a time.
func (c *core) longQuery(v view, q *messages.Query, now state.Now) (*messages.QueryReply, *messages.Error) {
	c.admission.heavy.enter(c.client)
	elapsed := c.cfg.Elapsed
	if elapsed == nil {
		elapsed = func() time.Duration { return 0 }
	}
	began := elapsed()
	defer func() { c.admission.heavy.leave(elapsed() - began) }()
	return c.query(v, q, now)
}

func (c *core) failRead(r *read, err *messages.ErrorDetail) {
	if r.done {
		return
	}
	c.finished(r)
	if r.watch != nil {
		delete(c.watches.byID, r.watch.id)
	}
	c.fail(r.call, err, r.bytes)
}

// addFacts completes a status with what the node knows and the state does not.
func (c *core) addFacts(s *messages.StatusReply) {
	f := c.refreshFacts()
	s.ClusterId, s.Incarnation = f.ClusterID, f.Incarnation
	s.ReplicaId, s.LeaderId, s.RaftTerm = f.ReplicaID, f.LeaderID, f.RaftTerm
	s.Version, s.UptimeMs, s.LeaderSilentMs = f.Version, f.UptimeMs, f.LeaderSilentMs
	s.Watchers = f.Watches
	s.ApplyLongestMs, s.ApplyLongestRecentMs = f.ApplyLongestMs, f.ApplyRecentMs
	s.Clients = uint64(c.admission.connections.Load())
}

// retryReads sends the reads that wait for a revision round again.
func (c *core) retryReads() {
	for _, r := range c.reads.retry {
		if !r.done {
			c.addRead(r, false)
		}
	}
	c.reads.retry = c.reads.retry[:0]
}

// expireReads answers reads whose time is up. They stay where they wait, done.
func (c *core) expireReads() {
	late := func(reads []*read) {
		for _, r := range reads {
			if !r.done && r.deadlineMs <= c.nowMs {
				c.failRead(r, messages.NewError(messages.Code_CODE_TIMEOUT, "not answered within %d ms", r.timeoutMs).Detail)
			}
		}
	}
	c.reads.barrier = expired(late, c.reads.barrier)
	c.reads.view = expired(late, c.reads.view)
	c.reads.retry = expired(late, c.reads.retry)
	for _, g := range c.reads.barriers {
		late(g.reads)
	}
	for _, g := range c.reads.views {
		late(g.reads)
	}
	for _, b := range c.reads.ready {
		late(b.reads)
	}
}

func expired(late func([]*read), reads []*read) []*read {
	late(reads)
	return slices.DeleteFunc(reads, func(r *read) bool { return r.done })
}

// gotNoView: apply has its fill of readers that wait.
func (c *core) gotNoView(request uint64) {
	for _, r := range take(&c.reads.views, request) {
		c.failRead(r, overloaded("too many readers wait for a view", 0).Detail)
	}
}
