package memlog

// leaderRead waits for a quorum to confirm that its leader still leads.
type leaderRead struct {
	id    uint64
	from  uint64
	index uint64
	seen  map[uint64]bool
}

// read asks for a read index: here if leading, else at the leader.
func (n *node) read(id uint64) {
	switch {
	case n.role == leader:
		n.leaderRead(id, n.id)
	case n.leaderID == 0:
		n.replica.readDropped(id)
	default:
		n.send(&message{kind: msgRead, to: n.leaderID, read: id})
	}
}

// leaderRead starts a read as leader. Before an entry of its own term is committed
// a leader does not know what is, and drops it; one that was forwarded then ends
// at its deadline.
func (n *node) leaderRead(id, from uint64) {
	switch {
	case n.role != leader || n.mem.termAt(n.mem.commit) != n.mem.term:
		if from == n.id {
			n.replica.readDropped(id)
		}
	case len(n.members.voting) == 1:
		n.readConfirmed(&leaderRead{id: id, from: from, index: n.mem.commit})
	default:
		n.reads = append(n.reads, &leaderRead{
			id: id, from: from, index: n.mem.commit, seen: map[uint64]bool{n.id: true},
		})
		n.heartbeat(id)
	}
}

// confirmReads counts a member's sign. A sign for one read is one for all before it.
func (n *node) confirmReads(id, from uint64) {
	if !n.voter(from) {
		return
	}
	upTo := -1
	for i, r := range n.reads {
		if r.id == id {
			upTo = i
		}
	}
	confirmed := -1
	for i := range upTo + 1 {
		n.reads[i].seen[from] = true
		votes := 0
		for _, m := range n.members.all() {
			if n.voter(m) && n.reads[i].seen[m] {
				votes++
			}
		}
		if votes >= n.members.quorum() {
			confirmed = i
		}
	}
	for _, r := range n.reads[:confirmed+1] {
		n.readConfirmed(r)
	}
	n.reads = n.reads[confirmed+1:]
}

func (n *node) readConfirmed(r *leaderRead) {
	if r.from == n.id {
		n.replica.readAt(r.id, r.index)
	} else {
		n.send(&message{kind: msgReadIndex, to: r.from, read: r.id, index: r.index})
	}
}
