package node

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/messages"
)

// operator answers the requests of operators.
//
// Owns: how many are under way, and the backups that are being read.
//
// Receives: messages.AskAdmin, from sessions; operatorDone, from the goroutine of a
// request; messages.Proposed, of audit records. Sends: messages.AdminAnswered, and
// messages.Propose to replica.
//
// Mailbox: unbounded; sessions bound what they ask. Requests wait for the cluster, so
// each has a goroutine; beyond operationsMax they are refused.
//
// On panic: fail-stop.
type operator struct {
	node *Node

	underWay int
}

// operationsMax requests of operators are under way at once.
const operationsMax = 64

type operatorDone struct{}

// Receive implements actor.Actor.
func (o *operator) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *messages.AskAdmin:
		o.onAsk(ctx, m)
	case *operatorDone:
		o.underWay--
	case *messages.Proposed:
		o.onRecorded(m)
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Restarting, *actor.DeadLetterResponse:
	default:
		panic(fmt.Sprintf("operator: unexpected message %T", m))
	}
}

func (o *operator) onAsk(ctx actor.Context, m *messages.AskAdmin) {
	if o.underWay >= operationsMax {
		e := messages.NewError(messages.Code_CODE_OVERLOADED, "too many requests of operators").WithLimit(operationsMax)
		e.Detail.RetryAfterMs = 200
		ctx.Respond(&messages.AdminAnswered{RequestId: m.GetRequestId(), Error: e.Detail})
		return
	}
	o.underWay++
	n, to, self, root := o.node, ctx.Sender(), ctx.Self(), ctx.ActorSystem().Root
	n.waits.Go(func() {
		within, cancel := n.untilClosing(time.Duration(m.GetTimeoutMs()) * time.Millisecond)
		defer cancel()
		reply, err := n.administer(within, m.GetRequest())
		answer := &messages.AdminAnswered{RequestId: m.GetRequestId(), Reply: reply}
		if err != nil {
			answer.Reply, answer.Error = nil, messages.DetailOf(err)
		}
		n.record(root, self, m, err)
		root.Send(to, answer)
		root.Send(self, &operatorDone{})
	})
}

// onRecorded hears what became of an audit record.
func (o *operator) onRecorded(m *messages.Proposed) {
	for _, r := range m.GetResults() {
		if r.GetError() != nil {
			o.node.cfg.Logger.Warn("an audit record could not be written", "error", messages.ErrorFrom(r.GetError()))
		}
	}
}

// untilClosing is a context that ends after d, and when the node closes.
func (n *Node) untilClosing(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	done := make(chan struct{})
	go func() {
		select {
		case <-n.closing:
		case <-n.fail.halted:
		case <-done:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, func() {
		cancel()
		close(done)
	}
}

// administer carries out one request. It blocks.
func (n *Node) administer(ctx context.Context, r *messages.AdminRequest) (*messages.AdminReply, error) {
	switch x := r.GetRequest().(type) {
	case *messages.AdminRequest_Members:
		if m := n.members.known(); x.Members.GetLocal() && len(m.Voting) > 0 {
			return n.membersReply(m), nil
		}
		return n.currentMembers(ctx)
	case *messages.AdminRequest_AddMember:
		return n.changeMembers(ctx, func() error { return n.addMember(ctx, x.AddMember) })
	case *messages.AdminRequest_PromoteMember:
		return n.changeMembers(ctx, func() error { return n.promoteMember(ctx, x.PromoteMember) })
	case *messages.AdminRequest_RemoveMember:
		return n.changeMembers(ctx, func() error { return n.removeMember(ctx, x.RemoveMember) })
	case *messages.AdminRequest_MoveLeader:
		return n.changeMembers(ctx, func() error { return n.moveLeader(ctx, x.MoveLeader.GetReplicaId()) })
	case *messages.AdminRequest_Backup:
		return n.backUp(ctx, x.Backup)
	case *messages.AdminRequest_SaveSnapshot:
		if err := n.log.RequestSnapshot(timeLeft(ctx)); err != nil {
			return nil, err
		}
		return &messages.AdminReply{Reply: &messages.AdminReply_SaveSnapshot{SaveSnapshot: &messages.SaveSnapshotReply{
			AppliedIndex: n.log.Status().AppliedIndex,
		}}}, nil
	}
	return nil, messages.NewError(messages.Code_CODE_UNSUPPORTED, "this node does not know the request: it runs an older version")
}

func timeLeft(ctx context.Context) time.Duration {
	at, ok := ctx.Deadline()
	if !ok {
		return time.Minute
	}
	return max(time.Millisecond, time.Until(at))
}
