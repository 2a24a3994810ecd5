package memlog

import "slices"

// appendRecords adds records to a leader's log and sends them out.
func (n *node) appendRecords(records ...*record) {
	for _, r := range records {
		r.term = n.mem.term
	}
	n.mem.append(records...)
	n.dirty = true
	n.broadcast()
}

func (n *node) broadcast() {
	for _, id := range n.members.all() {
		if id != n.id {
			n.sendAppend(id, false)
		}
	}
}

// sendAppend sends a member what it lacks, or a snapshot if the log does not go
// back that far. An empty message is sent only if asked for.
func (n *node) sendAppend(id uint64, empty bool) {
	p := n.peers[id]
	if p == nil {
		return
	}
	if p.next <= n.mem.base {
		if s := n.mem.snap; s != nil {
			p.next = s.index + 1
			n.send(&message{kind: msgSnapshot, to: id, term: n.mem.term, snap: s})
		}
		return
	}
	records := n.mem.slice(p.next, n.c.cfg.AppendEntriesMax)
	if len(records) == 0 && !empty {
		return
	}
	n.send(&message{
		kind: msgAppend, to: id, term: n.mem.term, index: p.next - 1, logTerm: n.mem.termAt(p.next - 1),
		records: records, commit: n.mem.commit,
	})
	p.next += uint64(len(records))
}

// heartbeat asks all members for a sign, for a read if read is not 0.
func (n *node) heartbeat(read uint64) {
	if read == 0 && len(n.reads) > 0 {
		read = n.reads[len(n.reads)-1].id
	}
	for _, id := range n.members.all() {
		if id != n.id {
			n.send(&message{
				kind: msgHeartbeat, to: id, term: n.mem.term, read: read,
				commit: min(n.mem.commit, n.peers[id].match),
			})
		}
	}
}

// onLeader handles what the leader of this term says.
func (n *node) onLeader(m *message) {
	switch m.kind {
	case msgHeartbeat:
		n.commitTo(m.commit)
		n.send(&message{kind: msgHeartbeatSeen, to: m.from, term: n.mem.term, read: m.read})
	case msgSnapshot:
		if m.snap.index > n.mem.commit {
			n.mem.snap = m.snap
			n.mem.log, n.mem.base, n.mem.baseTerm = nil, m.snap.index, m.snap.term
			n.mem.commit = m.snap.index
			n.dirty = true
		}
		n.send(&message{kind: msgAppended, to: m.from, term: n.mem.term, index: n.mem.commit})
	case msgAppend:
		n.onAppend(m)
	}
}

func (n *node) onAppend(m *message) {
	if m.index < n.mem.commit {
		n.send(&message{kind: msgAppended, to: m.from, term: n.mem.term, index: n.mem.commit})
		return
	}
	if n.mem.last() < m.index || n.mem.termAt(m.index) != m.logTerm {
		n.send(&message{
			kind: msgAppended, to: m.from, term: n.mem.term, reject: true,
			index: m.index, logTerm: min(m.index-1, n.mem.last()), // logTerm carries where to look next
		})
		return
	}
	for i, r := range m.records {
		index := m.index + 1 + uint64(i)
		if index <= n.mem.last() {
			if n.mem.at(index).term == r.term {
				continue
			}
			if index <= n.mem.commit {
				panic("memlog: a committed entry would be overwritten")
			}
			n.mem.truncate(index)
			n.stable = min(n.stable, index-1)
		}
		n.mem.append(m.records[i:]...)
		n.dirty = true
		break
	}
	match := m.index + uint64(len(m.records))
	n.commitTo(min(m.commit, match))
	n.send(&message{kind: msgAppended, to: m.from, term: n.mem.term, index: match})
}

func (n *node) commitTo(index uint64) { n.mem.commit = max(n.mem.commit, min(index, n.mem.last())) }

func (n *node) onAppended(m *message) {
	p := n.peers[m.from]
	if n.role != leader || p == nil {
		return
	}
	p.active = true
	if m.reject {
		if m.index > p.match {
			p.next = max(p.match, min(m.index-1, m.logTerm)) + 1
			n.sendAppend(m.from, true)
		}
		return
	}
	if m.index > p.match {
		p.match = m.index
		p.next = max(p.next, p.match+1)
		n.maybeCommit()
	}
	if m.from == n.transferee && p.match == n.mem.last() {
		n.send(&message{kind: msgTimeoutNow, to: m.from, term: n.mem.term})
	}
	n.sendAppend(m.from, false)
}

// maybeCommit commits what a quorum has on disk, if it is of this term.
func (n *node) maybeCommit() {
	if n.role != leader {
		return
	}
	var matches []uint64
	for _, id := range n.members.all() {
		if n.voter(id) {
			matches = append(matches, n.peers[id].match)
		}
	}
	slices.Sort(matches)
	index := matches[len(matches)-n.members.quorum()]
	if index <= n.mem.commit || n.mem.termAt(index) != n.mem.term {
		return
	}
	n.mem.commit = index
	for _, id := range n.members.all() {
		if id != n.id {
			n.sendAppend(id, true) // so that followers need not wait for a heartbeat
		}
	}
}

func (n *node) onHeartbeatSeen(m *message) {
	p := n.peers[m.from]
	if n.role != leader || p == nil {
		return
	}
	p.active = true
	if p.match < n.mem.last() {
		// Something was lost, or is under way: sending it twice does no harm.
		p.next = p.match + 1
		n.sendAppend(m.from, false)
	}
	n.confirmReads(m.read, m.from)
}

// propose takes records as leader, forwards them as follower, or drops them.
func (n *node) propose(records []*record) {
	switch {
	case n.role == leader && n.transferee == 0:
		for i, r := range records {
			if r.change == nil {
				continue
			}
			if n.pendingChange { // dragonboat leaves an empty entry in its place
				n.replica.dropped(r.origin)
				records[i] = &record{}
			}
			n.pendingChange = true
		}
		n.appendRecords(records...)
	case n.role == leader || n.leaderID == 0:
		for _, r := range records {
			n.replica.dropped(r.origin) // known here only if it came from here
		}
	default:
		n.send(&message{kind: msgPropose, to: n.leaderID, records: records})
	}
}

// transfer hands leadership over, as leader, or asks the leader to.
func (n *node) transfer(target uint64) {
	switch {
	case n.role != leader && n.leaderID != 0:
		n.send(&message{kind: msgTransfer, to: n.leaderID, replicaID: target})
	case n.role == leader && n.transferee == 0 && target != n.id && n.voter(target):
		n.transferee = target
		n.electionElapsed = 0
		if n.peers[target].match == n.mem.last() {
			n.send(&message{kind: msgTimeoutNow, to: target, term: n.mem.term})
		}
	}
}
