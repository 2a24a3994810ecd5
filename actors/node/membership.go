package node

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// members is the membership as this node last saw it, and the right to change it.
type members struct {
	changing sync.Mutex // one change at a time by this node

	mu   sync.Mutex
	last consensus.Membership
}

func (m *members) known() consensus.Membership {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// membersEvery is how often a node looks at the membership.
const membersEvery = 2 * time.Second

// watchMembers keeps the node's picture of the members up to date until it closes:
// addresses of removed ones are dropped, replicas that differ are named.
func (n *Node) watchMembers() {
	ticker := time.NewTicker(membersEvery)
	defer ticker.Stop()
	for {
		ctx, cancel := n.untilClosing(membersEvery)
		_, _ = n.membership(ctx) // without a quorum the last one stays
		cancel()
		n.compareDigests()
		select {
		case <-ticker.C:
		case <-n.closing:
			return
		case <-n.fail.halted:
			return
		}
	}
}

// membership asks the cluster.
func (n *Node) membership(ctx context.Context) (consensus.Membership, error) {
	type answer struct {
		m   consensus.Membership
		err error
	}
	got := make(chan answer, 1)
	n.log.Membership(timeLeft(ctx), func(m consensus.Membership, err error) { got <- answer{m, err} })
	a := <-got
	if a.err != nil {
		return a.m, a.err
	}
	n.members.mu.Lock()
	n.members.last = a.m
	n.members.mu.Unlock()
	if mesh := n.links.mesh.Load(); mesh != nil {
		mesh.Forget(slices.Sorted(maps.Keys(a.m.Removed)))
	}
	return a.m, nil
}

func (n *Node) currentMembers(ctx context.Context) (*messages.AdminReply, error) {
	m, err := n.membership(ctx)
	if err != nil {
		return nil, noQuorum(err)
	}
	return n.membersReply(m), nil
}

// noQuorum says what an operator can do about a cluster that does not answer.
func noQuorum(err error) error {
	e := messages.NewError(messages.Code_CODE_NO_QUORUM,
		"the cluster does not answer: a majority of its voting members must be alive; `concord cluster status` shows who is")
	e.Detail.Outcome, e.Err = messages.OutcomeOf(err), err
	return e
}

// membersReply shows a membership with what this node has heard of each.
func (n *Node) membersReply(m consensus.Membership) *messages.AdminReply {
	leader, addresses := n.facts.leader.Load(), n.links.addresses()
	reply := &messages.MembersReply{
		Order: m.Order, Removed: slices.Sorted(maps.Keys(m.Removed)),
		ReplicaId: n.cfg.ReplicaID, LeaderId: leader.GetLeaderId(), RaftTerm: leader.GetRaftTerm(),
	}
	add := func(id uint64, raft string, voting bool) {
		x := &messages.Member{ReplicaId: id, Voting: voting, Leads: id == leader.GetLeaderId()}
		if a := addresses[id]; a != nil {
			x.Address = proto.CloneOf(a)
		} else {
			x.Address = &messages.MemberAddress{ReplicaId: id}
		}
		x.Address.Raft = raft
		if id == n.cfg.ReplicaID {
			applied := n.facts.applied.Load()
			x.Alive, x.AppliedIndex, x.Revision, x.Version = true, applied.Applied, applied.Revision, n.cfg.Version
			x.ApplyVersionMax = n.cfg.Seams.ApplyVersion
		} else if p, ago := n.links.of(id); ago >= 0 {
			x.Alive, x.HeardMsAgo = ago < aliveMs, ago
			x.AppliedIndex, x.Revision, x.Version = p.beat.GetAppliedIndex(), p.beat.GetRevision(), p.hello.GetVersion()
			x.ApplyVersionMax, x.DigestIndex = p.hello.GetApplyVersionMax(), p.beat.GetDigestIndex()
			if digest, ok := n.facts.digests.at(p.beat.GetDigestIndex()); ok {
				x.Differs = digest != p.beat.GetDigest()
			}
		} else {
			x.HeardMsAgo = -1
		}
		reply.Members = append(reply.Members, x)
	}
	for _, id := range slices.Sorted(maps.Keys(m.Voting)) {
		add(id, m.Voting[id], true)
	}
	for _, id := range slices.Sorted(maps.Keys(m.NonVoting)) {
		add(id, m.NonVoting[id], false)
	}
	return &messages.AdminReply{Reply: &messages.AdminReply_Members{Members: reply}}
}

// changeMembers runs one change after the other and answers with the membership after it.
func (n *Node) changeMembers(ctx context.Context, change func() error) (*messages.AdminReply, error) {
	if !n.members.changing.TryLock() {
		e := messages.NewError(messages.Code_CODE_OVERLOADED, "another change of the membership is under way: one at a time")
		e.Detail.RetryAfterMs = 200
		return nil, e
	}
	defer n.members.changing.Unlock()
	if err := change(); err != nil {
		return nil, err
	}
	if reply, err := n.currentMembers(ctx); err == nil {
		return reply, nil
	}
	return n.membersReply(n.members.known()), nil // done, though the picture may be old
}

// alive counts the voting members that this node hears, itself included.
func (n *Node) alive(m consensus.Membership, except uint64) int {
	count := 0
	for id := range m.Voting {
		if id == except {
			continue
		}
		if id == n.cfg.ReplicaID {
			count++
		} else if _, ago := n.links.of(id); ago >= 0 && ago < aliveMs {
			count++
		}
	}
	return count
}

func (n *Node) addMember(ctx context.Context, r *messages.AddMemberRequest) error {
	a, id := r.GetAddress(), r.GetAddress().GetReplicaId()
	m, err := n.membership(ctx)
	if err != nil {
		return noQuorum(err)
	}
	voting, isVoting := m.Voting[id]
	nonVoting, isNonVoting := m.NonVoting[id]
	switch {
	case n.cfg.PeerListenAddress == "" || n.cfg.RaftAddress == "":
		return messages.NewError(messages.Code_CODE_UNSUPPORTED,
			"this node was begun alone, without --member %d=RAFT,PEER,CLIENT, and cannot grow: "+
				"restore a backup of it into a directory that is started with --member", n.cfg.ReplicaID).WithField("member")
	case id == 0:
		return messages.InvalidField("replica_id", "a new member needs an id that was never used, from 1")
	case a.GetRaft() == "":
		return messages.InvalidField("raft", "the address where the new member's Raft listens is needed")
	case m.Removed[id]:
		return messages.InvalidField("replica_id", "%d was removed, and ids never come back: choose a new one, with an empty data directory", id)
	case isVoting && voting == a.GetRaft() && !r.GetNonVoting(), isNonVoting && nonVoting == a.GetRaft() && r.GetNonVoting():
		n.links.mesh.Load().Learn(a)
		return nil // it was added before
	case isNonVoting && nonVoting == a.GetRaft():
		return messages.InvalidField("non_voting", "replica %d is a member without a vote: give it one by `concord cluster promote %d`", id, id)
	case isVoting || isNonVoting:
		return messages.InvalidField("replica_id", "replica %d is a member already, at %s%s: choose another id", id, voting, nonVoting)
	}
	for _, all := range []map[uint64]string{m.Voting, m.NonVoting} {
		for other, at := range all {
			if at == a.GetRaft() {
				return messages.InvalidField("raft", "%s is the address of replica %d", at, other)
			}
		}
	}
	if voters, alive := len(m.Voting)+1, n.alive(m, 0); !r.GetNonVoting() && alive < voters/2+1 {
		return messages.NewError(messages.Code_CODE_NO_QUORUM,
			"%d of %d voting members are alive: with one more, that is not running yet, there would be no majority; "+
				"add it with --non-voting, start it, then `concord cluster promote %d`", alive, voters-1, id)
	}
	done := make(chan error, 1)
	if r.GetNonVoting() {
		n.log.AddNonVoting(id, a.GetRaft(), m.Order, timeLeft(ctx), func(err error) { done <- err })
	} else {
		n.log.AddReplica(id, a.GetRaft(), m.Order, timeLeft(ctx), func(err error) { done <- err })
	}
	if err := <-done; err != nil {
		return err
	}
	n.links.mesh.Load().Learn(a)
	return nil
}

// lagMaxDefault is how many entries a member may be behind to be given a vote.
const lagMaxDefault = 1_000

func (n *Node) promoteMember(ctx context.Context, r *messages.PromoteMemberRequest) error {
	id := r.GetReplicaId()
	m, err := n.membership(ctx)
	if err != nil {
		return noQuorum(err)
	}
	at, ok := m.NonVoting[id]
	if _, voting := m.Voting[id]; voting {
		return nil // it was promoted before
	}
	if !ok {
		return messages.InvalidField("replica_id", "no member without a vote has the id %d", id)
	}
	p, ago := n.links.of(id)
	lagMax, applied := r.GetLagMax(), n.facts.applied.Load().Applied
	if lagMax == 0 {
		lagMax = lagMaxDefault
	}
	switch {
	case ago < 0 || ago >= aliveMs:
		return notYet("replica %d is not heard: start it with --join --non-voting first", id)
	case p.beat.GetAppliedIndex()+lagMax < applied:
		return notYet("replica %d has applied up to %d of %d: wait until it has caught up", id, p.beat.GetAppliedIndex(), applied)
	}
	done := make(chan error, 1)
	n.log.AddReplica(id, at, m.Order, timeLeft(ctx), func(err error) { done <- err })
	return <-done
}

// notYet refuses what may be asked again later. It is not repeated by the client.
func notYet(format string, args ...any) *messages.Error {
	return messages.InvalidField("replica_id", format, args...)
}

func (n *Node) removeMember(ctx context.Context, r *messages.RemoveMemberRequest) error {
	id := r.GetReplicaId()
	m, err := n.membership(ctx)
	if err != nil {
		return noQuorum(err)
	}
	_, voting := m.Voting[id]
	_, nonVoting := m.NonVoting[id]
	left := len(m.Voting) - 1
	switch {
	case m.Removed[id]:
		return nil // it was removed before
	case !voting && !nonVoting:
		return messages.InvalidField("replica_id", "no member has the id %d", id)
	case voting && left == 0:
		return messages.InvalidField("replica_id", "replica %d is the last voting member", id)
	case voting && !r.GetForce() && n.alive(m, id) < left/2+1:
		return messages.NewError(messages.Code_CODE_NO_QUORUM,
			"without replica %d, %d of %d voting members would be alive: start or replace another one first, or use --force", id, n.alive(m, id), left)
	}
	if n.facts.leader.Load().GetLeaderId() == id {
		if err := n.moveLeader(ctx, 0); err != nil {
			return err
		}
	}
	done := make(chan error, 1)
	n.log.RemoveReplica(id, m.Order, timeLeft(ctx), func(err error) { done <- err })
	return <-done
}
