package consensus

import "time"

// meetEvery is how often a replica looks whether there are members that it has not met.
const meetEvery = 2 * time.Second

// notMetYet answers a replica that is not refused, and whose incarnation is not written
// down yet either: who is a member is not known yet.
const notMetYet = "the replica is not known yet"

// meetMembers greets each member until it has written down this replica's incarnation.
// Followers have nothing to say to each other before one of them asks for a vote: without
// this they would know of the leader alone, and after its death a follower that has lost
// its files could vote as if it were the old one.
func (l *replicaLog) meetMembers() {
	met := map[uint64]bool{l.cfg.ReplicaID: true}
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-l.stop:
			return
		}
		for id, address := range l.knownMembers() {
			if !met[id] {
				met[id] = l.transport.meet(address)
			}
		}
		again.Reset(meetEvery)
	}
}

func (l *replicaLog) knownMembers() map[uint64]string {
	if !l.enter() {
		return nil
	}
	defer l.leave()
	return l.members()
}

// meet greets a replica and tells whether both have written down who the other is. It ends with the
// transport at the latest.
func (t *transport) meet(target string) bool {
	conn, _, err := t.dial(t.ctx, target, frameMeet)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
