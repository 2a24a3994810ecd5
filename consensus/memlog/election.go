package memlog

type campaign int

const (
	preVoting campaign = iota // asks whether an election would be won
	voting
	forced // a transfer: voters grant it though their leader lives
)

// campaign stands for election. A committed change of the membership that is not
// applied yet forbids it: the candidate would count the wrong votes.
func (n *node) campaign(how campaign) {
	if !n.voter(n.id) || n.unappliedChange() {
		return
	}
	kind, term := msgPreVote, n.mem.term+1
	if how != preVoting || len(n.members.voting) == 1 {
		kind = msgVote
		n.reset(term, candidate)
		n.mem.vote = n.id
		n.dirty = true
	} else {
		n.reset(n.mem.term, preCandidate)
	}
	n.setLeader(0)
	n.votes = map[uint64]bool{n.id: true}
	if n.tally() {
		return
	}
	for _, id := range n.members.all() {
		if id != n.id && n.voter(id) {
			n.send(&message{kind: kind, to: id, term: term, index: n.mem.last(), logTerm: n.mem.lastTerm(), forced: how == forced})
		}
	}
}

func (n *node) unappliedChange() bool {
	for i := max(n.applied, n.mem.base) + 1; i <= n.mem.commit; i++ {
		if n.mem.at(i).change != nil {
			return true
		}
	}
	return n.applied < n.mem.base // an installed snapshot waits
}

// tally acts on the votes; true if that ended the candidacy.
func (n *node) tally() bool {
	yes, no := 0, 0
	for _, id := range n.members.all() {
		if granted, voted := n.votes[id]; voted && n.voter(id) {
			if granted {
				yes++
			} else {
				no++
			}
		}
	}
	switch {
	case yes >= n.members.quorum() && n.role == preCandidate:
		n.campaign(voting)
	case yes >= n.members.quorum():
		n.becomeLeader()
	case no >= n.members.quorum():
		n.becomeFollower(n.mem.term, 0)
	default:
		return false
	}
	return true
}

func (n *node) becomeLeader() {
	n.reset(n.mem.term, leader)
	n.setLeader(n.id)
	n.c.check.led(n.mem.term, n.id)
	n.peers = map[uint64]*progress{}
	n.syncPeers()
	for i := n.mem.commit + 1; i <= n.mem.last(); i++ {
		n.pendingChange = n.pendingChange || n.mem.at(i).change != nil
	}
	n.appendRecords(&record{})
}

func (n *node) onVote(m *message) {
	upToDate := m.logTerm > n.mem.lastTerm() || m.logTerm == n.mem.lastTerm() && m.index >= n.mem.last()
	free := n.mem.vote == m.from || n.mem.vote == 0 && n.leaderID == 0 || m.kind == msgPreVote && m.term > n.mem.term
	answer, term := msgVoted, n.mem.term
	if m.kind == msgPreVote {
		answer, term = msgPreVoted, m.term
	}
	// A replica that has just joined votes though it has not applied the change that
	// made it a voter: the others may need it.
	_, listens := n.members.nonVoting[n.id]
	if !upToDate || !free || listens {
		n.send(&message{kind: answer, to: m.from, term: n.mem.term, reject: true})
		return
	}
	if m.kind == msgVote {
		n.electionElapsed = 0
		n.mem.vote = m.from
		n.dirty = true
	}
	n.send(&message{kind: answer, to: m.from, term: term})
}

func (n *node) onVoted(m *message, during role) {
	if n.role != during {
		return
	}
	if _, voted := n.votes[m.from]; !voted {
		n.votes[m.from] = !m.reject
		n.tally()
	}
}
