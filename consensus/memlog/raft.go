package memlog

type messageKind int

const (
	msgPreVote messageKind = iota
	msgPreVoted
	msgVote
	msgVoted
	msgAppend
	msgAppended
	msgHeartbeat
	msgHeartbeatSeen
	msgSnapshot
	msgTimeoutNow
	msgPropose   // forwarded to the leader
	msgRead      // forwarded to the leader
	msgReadIndex // its answer
	msgTransfer  // forwarded to the leader
)

type message struct {
	kind     messageKind
	from, to uint64
	arrives  int // tick

	term      uint64 // 0: a forwarded request or its answer
	index     uint64 // of the entry before records; of a match; of a read
	logTerm   uint64
	commit    uint64
	records   []*record
	reject    bool
	forced    bool // a vote for a transfer, also against a live leader
	read      uint64
	snap      *snapshot
	replicaID uint64 // transfer target
}

func (n *node) voter(id uint64) bool { _, ok := n.members.voting[id]; return ok }

func (n *node) resetTimer() {
	n.electionElapsed = 0
	n.electionTimeout = n.c.cfg.ElectionTicks + n.c.rng.IntN(n.c.cfg.ElectionTicks)
}

func (n *node) setLeader(id uint64) {
	n.leaderID = id
	if now := (notice{id, n.mem.term}); now != n.told {
		n.told = now
		n.notices = append(n.notices, now)
	}
}

func (n *node) setTerm(term uint64) {
	if term != n.mem.term {
		n.mem.term, n.mem.vote = term, 0
		n.dirty = true
	}
}

// reset begins a role. Reads that wait for a quorum are forgotten: who asked
// learns it at a deadline.
func (n *node) reset(term uint64, r role) {
	n.setTerm(term)
	n.role = r
	n.votes, n.peers, n.reads = nil, nil, nil
	n.pendingChange, n.transferee = false, 0
	n.heartbeatTicks = 0
	n.resetTimer()
}

func (n *node) becomeFollower(term, leaderID uint64) {
	n.reset(term, follower)
	n.setLeader(leaderID)
}

// tick is one tick of Raft's time.
func (n *node) tick() {
	if n.removed {
		return
	}
	n.replica.askReady()
	n.electionElapsed++
	if n.role != leader {
		if n.electionElapsed >= n.electionTimeout {
			n.resetTimer()
			n.campaign(preVoting)
		}
		return
	}
	if n.electionElapsed >= n.c.cfg.ElectionTicks {
		n.electionElapsed = 0
		n.transferee = 0
		active := 0
		for _, id := range n.members.all() {
			if n.voter(id) && (id == n.id || n.peers[id].active) {
				active++
			}
			n.peers[id].active = false
		}
		if active < n.members.quorum() {
			n.becomeFollower(n.mem.term, 0)
			return
		}
	}
	if n.heartbeatTicks++; n.heartbeatTicks >= n.c.cfg.HeartbeatTicks {
		n.heartbeatTicks = 0
		n.heartbeat(0)
	}
}

// syncPeers keeps a leader's progress in step with the membership.
func (n *node) syncPeers() {
	if n.role != leader || n.peers == nil {
		return
	}
	for _, id := range n.members.all() {
		if n.peers[id] == nil {
			n.peers[id] = &progress{next: n.mem.last() + 1, active: true}
		}
	}
	for id := range n.peers {
		_, listens := n.members.nonVoting[id]
		if !listens && !n.voter(id) {
			delete(n.peers, id)
		}
	}
}

// receive handles a message.
func (n *node) receive(m *message) {
	switch {
	case m.term == 0:
	case m.term > n.mem.term:
		vote := m.kind == msgVote || m.kind == msgPreVote
		if vote && !m.forced && n.leaderID != 0 && n.electionElapsed < n.c.cfg.ElectionTicks {
			return // a leader is alive: who asks is cut off from it
		}
		if m.kind == msgPreVote || m.kind == msgPreVoted && !m.reject {
			break
		}
		from := uint64(0)
		if m.kind == msgAppend || m.kind == msgHeartbeat || m.kind == msgSnapshot {
			from = m.from
		}
		n.becomeFollower(m.term, from)
	case m.term < n.mem.term:
		switch m.kind {
		case msgAppend, msgHeartbeat, msgSnapshot:
			n.send(&message{kind: msgAppended, to: m.from, term: n.mem.term, reject: true}) // an old leader learns the term
		case msgPreVote:
			n.send(&message{kind: msgPreVoted, to: m.from, term: n.mem.term, reject: true})
		}
		return
	}
	switch m.kind {
	case msgPreVote, msgVote:
		n.onVote(m)
	case msgPreVoted:
		n.onVoted(m, preCandidate)
	case msgVoted:
		n.onVoted(m, candidate)
	case msgAppend, msgHeartbeat, msgSnapshot:
		if n.role != follower {
			n.becomeFollower(m.term, m.from)
		}
		n.electionElapsed = 0
		n.setLeader(m.from)
		n.onLeader(m)
	case msgAppended:
		n.onAppended(m)
	case msgHeartbeatSeen:
		n.onHeartbeatSeen(m)
	case msgTimeoutNow:
		if n.role == follower {
			n.campaign(forced)
		}
	case msgPropose:
		n.propose(m.records)
	case msgRead:
		n.leaderRead(m.read, m.from)
	case msgReadIndex:
		n.replica.readAt(m.read, m.index)
	case msgTransfer:
		n.transfer(m.replicaID)
	}
}
