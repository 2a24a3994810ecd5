package sim

import (
	"context"
	"fmt"
	"strings"
	"testing/synctest"

	"github.com/concord-kv/concord/messages"
)

// memberVerbs are what operators ask for, through a client.
var memberVerbs = []Verb{
	{"client add", "NODE [nonvoting=1]", "adds a member; then join boots it", operate(func(n uint64, a args) *messages.AdminRequest {
		return &messages.AdminRequest{Request: &messages.AdminRequest_AddMember{AddMember: &messages.AddMemberRequest{
			Address: (&Node{id: n}).address(), NonVoting: a.named["nonvoting"] != "",
		}}}
	})},
	{"client promote", "NODE", "gives a member its vote", operate(func(n uint64, _ args) *messages.AdminRequest {
		return &messages.AdminRequest{Request: &messages.AdminRequest_PromoteMember{PromoteMember: &messages.PromoteMemberRequest{ReplicaId: n}}}
	})},
	{"client remove", "NODE [force=1]", "removes a member for good", operate(func(n uint64, a args) *messages.AdminRequest {
		return &messages.AdminRequest{Request: &messages.AdminRequest_RemoveMember{RemoveMember: &messages.RemoveMemberRequest{
			ReplicaId: n, Force: a.named["force"] != "",
		}}}
	})},
	{"client lead", "NODE", "hands the lead to a member", operate(func(n uint64, _ args) *messages.AdminRequest {
		return &messages.AdminRequest{Request: &messages.AdminRequest_MoveLeader{MoveLeader: &messages.MoveLeaderRequest{ReplicaId: n}}}
	})},
	{"client crash", "", "kill -9: its connections break and it does nothing more", onClient(func(w *World, c *Client, _ args) error {
		c.paused, c.crashed = true, true
		w.network.resetClient(c.name)
		w.quiet()
		return nil
	})},
}

// operate makes a verb's run out of what makes an operator's request.
func operate(f func(node uint64, a args) *messages.AdminRequest) func(*World, args) error {
	return onClient(func(w *World, c *Client, a args) error {
		node := nodeOf(a.word(0))
		if node == 0 {
			return nil
		}
		op := &Op{name: strings.TrimSuffix(strings.TrimPrefix(a.line, "client "+c.name+" "), " &")}
		op.client, op.called, op.sentAt = c.name, w.steps, w.now
		w.last = op
		w.history.add(op)
		request := f(node, a)
		c.working.Go(func() {
			r, err := c.c.Operate(context.Background(), request)
			w.history.done(op, &messages.Reply{Reply: &messages.Reply_Admin{Admin: r}}, err)
		})
		synctest.Wait()
		w.collectResults()
		_ = c.await(a, func() bool { return op.isOver(w) }) // never fails
		if !a.async {
			w.say("%s %s: %s", c.name, op.name, op.answer())
		}
		return nil
	})
}

// members is a membership as scripts show it: n1 n2 (n3), the leader's view; in
// parentheses who has no vote.
func (w *World) members() string {
	leader := w.Leader()
	if leader == 0 {
		return "nobody leads"
	}
	voting, nonVoting := w.log.Members(leader)
	var list []string
	for _, id := range voting {
		list = append(list, endpoint(id))
	}
	for _, id := range nonVoting {
		list = append(list, fmt.Sprintf("(%s)", endpoint(id)))
	}
	return strings.Join(list, " ")
}

// isMember says whether a node takes part, as far as the leader knows.
func (w *World) isMember(n *Node) bool {
	leader := w.Leader()
	if leader == 0 {
		return !n.removed
	}
	voting, nonVoting := w.log.Members(leader)
	for _, id := range append(voting, nonVoting...) {
		if id == n.id {
			return true
		}
	}
	return false
}
