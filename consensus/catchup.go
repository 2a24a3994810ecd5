package consensus

import (
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// answerWait is how long what a member that is behind was sent may be unanswered before it
// counts as lost; a break after an answer is between breakMin and breakMax; meanwhile one
// sign of life each signEvery is enough; nothing was committed for stuckAfter.
const (
	answerWait         = time.Second
	breakMin, breakMax = 50 * time.Millisecond, 200 * time.Millisecond
	signEvery          = 100 * time.Millisecond
	stuckAfter         = 200 * time.Millisecond
)

// catchUp paces what the leader sends to members that are behind.
//
// Raft sends such a member the next entries whenever there is something to say to any
// member, some thousand times a second, without waiting for an answer: a gigabyte is
// read, encoded and queued before the first of it is on the member's disk, while the
// others wait. Here one message is under way to each of them. Others are not sent, which
// to Raft is a loss on the network; and dragonboat is told that the member is hard to
// reach, which makes it send once more and then wait for the answer. That is given to
// dragonboat after a break, as long as the answer was waited for: a member that catches
// up takes a part of the disk, the network and the processors, and leaves the larger one
// to those that serve. There is no break where nothing is committed: the cluster then
// waits for this very member. Entries that are not committed yet, which all members get,
// are never held back, nor are answers to them.
type catchUp struct {
	replica uint64
	now     func() time.Time
	// tell hands dragonboat messages of this replica's own, and of others after a break.
	tell  func(...raftpb.Message)
	after func(time.Duration, func())

	mu     sync.Mutex
	behind map[uint64]*underWay // by the replica that is behind
	// last and commit are the highest indexes of what was sent, and moved is when commit
	// was seen to grow.
	last, commit uint64
	moved        time.Time
}

// underWay is what a member was sent last on a connection.
type underWay struct {
	conn *batchConn
	last uint64 // index of the last entry; 0 once it was answered
	at   time.Time
	// waits: dragonboat has sent it once more, and goes on when it is answered.
	waits bool
	sign  time.Time // the last sign of life that dragonboat got
}

func newCatchUp(replica uint64, tell func(...raftpb.Message), after func(time.Duration, func())) *catchUp {
	return &catchUp{replica: replica, now: time.Now, tell: tell, after: after, behind: map[uint64]*underWay{}}
}

// pass appends to kept the messages that may be sent on conn now.
func (c *catchUp) pass(conn *batchConn, kept, all []raftpb.Message) []raftpb.Message {
	c.mu.Lock()
	var slow []raftpb.Message
	for i := range all {
		m := &all[i]
		if m.Type != raftpb.Replicate {
			kept = append(kept, *m)
			continue
		}
		c.progress(m)
		send, again := true, true
		if isBehind(m) {
			send, again = c.send(conn, m)
		}
		if send {
			kept = append(kept, *m)
		}
		if !again {
			slow = append(slow, raftpb.Message{Type: raftpb.Unreachable, ShardID: shardID, From: m.To, To: c.replica})
		}
	}
	c.mu.Unlock()
	if len(slow) > 0 {
		c.tell(slow...)
	}
	return kept
}

// progress notes how far the log and what is committed of it reach. c.mu is held.
func (c *catchUp) progress(m *raftpb.Message) {
	c.last = max(c.last, m.LogIndex+uint64(len(m.Entries)))
	if m.Commit > c.commit {
		c.commit, c.moved = m.Commit, c.now()
	}
}

// stuck tells that nothing is committed although there is something to commit. c.mu is held.
func (c *catchUp) stuck(now time.Time) bool {
	return c.last > c.commit && now.Sub(c.moved) > stuckAfter
}

// rest returns how long the break is after a chunk of a snapshot that took so long: half
// of that, since the log grows meanwhile.
func (c *catchUp) rest(took time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restLocked(c.now(), took/2)
}

func (c *catchUp) restLocked(now time.Time, took time.Duration) time.Duration {
	if c.stuck(now) {
		return 0
	}
	return min(took, breakMax)
}

// isBehind tells a message with entries that are all committed: only members that are
// behind get such ones.
func isBehind(m *raftpb.Message) bool {
	return m.Type == raftpb.Replicate && len(m.Entries) > 0 && m.Entries[len(m.Entries)-1].Index <= m.Commit
}

// send returns whether a message to a member that is behind may be sent, and whether it
// is one that is under way, sent again. c.mu is held.
func (c *catchUp) send(conn *batchConn, m *raftpb.Message) (send, again bool) {
	now := c.now()
	u := c.behind[m.To]
	if u == nil || u.conn != conn {
		u = &underWay{conn: conn}
		c.behind[m.To] = u
	}
	switch {
	case u.last == 0 || now.Sub(u.at) > answerWait:
		u.last, u.at, u.waits = m.Entries[len(m.Entries)-1].Index, now, false
		return true, false
	case m.LogIndex < u.last:
		u.waits = true
		return false, true
	}
	return false, false
}

// answered takes the messages that members sent, and leaves those that may be given to
// dragonboat at once.
func (c *catchUp) answered(batch []raftpb.Message) []raftpb.Message {
	kept := batch[:0]
	for _, m := range batch {
		switch u, wait := c.take(&m); {
		case u == nil:
			kept = append(kept, m)
		case m.Type == raftpb.ReplicateResp:
			c.after(wait, func() { c.release(u, m) })
		}
	}
	return kept
}

// take returns what is under way to the member that has sent m if dragonboat is not to
// have m at once: for an answer, with the length of the break; or never, for one sign of
// life too many, each of which would make it send once more.
func (c *catchUp) take(m *raftpb.Message) (u *underWay, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u = c.behind[m.From]; u == nil || u.last == 0 {
		return nil, 0
	}
	now := c.now()
	switch {
	case m.Type == raftpb.HeartbeatResp && m.Hint == 0 && now.Sub(u.sign) < signEvery:
		return u, 0
	case m.Type == raftpb.HeartbeatResp:
		u.sign = now
	case m.Type == raftpb.ReplicateResp && m.Reject: // it lacks something that was sent before
		delete(c.behind, m.From)
	case m.Type == raftpb.ReplicateResp && m.LogIndex > u.last: // it has caught up
		u.last = 0
	case m.Type == raftpb.ReplicateResp && m.LogIndex == u.last:
		if wait = c.restLocked(now, now.Sub(u.at)); wait > 0 {
			wait = max(wait, breakMin)
		}
		u.at = now.Add(wait)
		return u, wait
	}
	return nil, 0
}

// release gives dragonboat an answer. By itself it then goes on if it waited for the
// answer; else it would once there is something new for all members, or on a sign of life.
func (c *catchUp) release(u *underWay, m raftpb.Message) {
	c.mu.Lock()
	waits := u.waits
	u.last = 0
	c.mu.Unlock()
	if waits {
		c.tell(m)
		return
	}
	c.tell(m, raftpb.Message{Type: raftpb.HeartbeatResp, ShardID: m.ShardID, From: m.From, To: m.To, Term: m.Term})
}

// forget is called when a connection has ended: nothing more of it arrives.
func (c *catchUp) forget(conn *batchConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for to, u := range c.behind {
		if u.conn == conn {
			delete(c.behind, to)
		}
	}
}

// own hands dragonboat messages that this replica sends to itself.
func (t *transport) own(all ...raftpb.Message) {
	t.batches(raftpb.MessageBatch{DeploymentId: t.deployment, BinVer: raftio.TransportBinVersion, Requests: all})
}

// after runs f after a while unless the transport is closed before; the caller is one of
// its workers.
func (t *transport) after(d time.Duration, f func()) {
	t.workers.Go(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			f()
		case <-t.ctx.Done():
		}
	})
}
