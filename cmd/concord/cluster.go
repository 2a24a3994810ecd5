package main

import (
	"context"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func (a *app) clusterCommand() *cobra.Command {
	return group("cluster", "The members of a cluster",
		a.clusterInitCommand(), a.clusterDevCommand(),
		a.clusterStatusCommand(), a.clusterAddCommand(), a.clusterPromoteCommand(), a.clusterRemoveCommand(),
		a.moveLeaderCommand())
}

// operate makes the body of a command that asks for the membership or changes it, and
// prints it as it is then.
func (a *app) operate(request func(args []string) (*messages.AdminRequest, error)) func(*cobra.Command, []string) error {
	return a.with(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := request(args)
		if err != nil {
			return err
		}
		reply, err := c.Operate(ctx, r)
		if err != nil {
			return err
		}
		return a.printMembers(reply.GetMembers())
	})
}

func replicaArgument(s string) (uint64, error) {
	id, err := strconv.ParseUint(s, 10, 64)
	if err != nil || id == 0 {
		return 0, messages.InvalidField("id", "%q is not the id of a replica", s)
	}
	return id, nil
}

func (a *app) clusterStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the members as the node that answers sees them; works without a majority",
		Args:  cobra.NoArgs,
		RunE: a.operate(func([]string) (*messages.AdminRequest, error) {
			return &messages.AdminRequest{Request: &messages.AdminRequest_Members{Members: &messages.MembersRequest{Local: true}}}, nil
		}),
	}
}

func (a *app) clusterAddCommand() *cobra.Command {
	var nonVoting bool
	c := &cobra.Command{
		Use:   "add ID=RAFT,PEER,CLIENT | ID=HOST",
		Short: "Add a member, whose process is started afterwards with --join",
		Long: "Add a member. Then start its process, with an empty data directory:\n\n" +
			"  concord serve --replica-id ID --member ID=RAFT,PEER,CLIENT --join PEER-OF-A-MEMBER\n\n" +
			"With --non-voting it gets the log, serves reads and watches and has no vote; start it with --non-voting too.\n" +
			"That is the safe way to a new voting member as well: add it without a vote, start it, promote it.",
		Args: cobra.ExactArgs(1),
		RunE: a.operate(func(args []string) (*messages.AdminRequest, error) {
			m, err := memberOf("member", args[0])
			if err != nil {
				return nil, err
			}
			return &messages.AdminRequest{Request: &messages.AdminRequest_AddMember{
				AddMember: &messages.AddMemberRequest{Address: m, NonVoting: nonVoting},
			}}, nil
		}),
	}
	c.Flags().BoolVar(&nonVoting, "non-voting", false, "without a vote")
	return c
}

func (a *app) clusterPromoteCommand() *cobra.Command {
	var lag uint64
	c := &cobra.Command{
		Use:   "promote ID",
		Short: "Give a non-voting member a vote, once it has caught up",
		Args:  cobra.ExactArgs(1),
		RunE: a.operate(func(args []string) (*messages.AdminRequest, error) {
			id, err := replicaArgument(args[0])
			return &messages.AdminRequest{Request: &messages.AdminRequest_PromoteMember{
				PromoteMember: &messages.PromoteMemberRequest{ReplicaId: id, LagMax: lag},
			}}, err
		}),
	}
	c.Flags().Uint64Var(&lag, "lag", 0, "entries that it may be behind; default 1000")
	return c
}

func (a *app) clusterRemoveCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "remove ID",
		Short: "Remove a member for good; a leader hands over first",
		Args:  cobra.ExactArgs(1),
		RunE: a.operate(func(args []string) (*messages.AdminRequest, error) {
			id, err := replicaArgument(args[0])
			return &messages.AdminRequest{Request: &messages.AdminRequest_RemoveMember{
				RemoveMember: &messages.RemoveMemberRequest{ReplicaId: id, Force: force},
			}}, err
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "although no majority would be alive afterwards")
	return c
}

func (a *app) moveLeaderCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "move-leader [ID]",
		Short: "Hand the lead over; without an id to the member that is furthest ahead",
		Args:  cobra.MaximumNArgs(1),
		RunE: a.operate(func(args []string) (*messages.AdminRequest, error) {
			r := &messages.MoveLeaderRequest{}
			if len(args) > 0 {
				id, err := replicaArgument(args[0])
				if err != nil {
					return nil, err
				}
				r.ReplicaId = id
			}
			return &messages.AdminRequest{Request: &messages.AdminRequest_MoveLeader{MoveLeader: r}}, nil
		}),
	}
}

func (a *app) printMembers(r *messages.MembersReply) error {
	members := make([]object, len(r.GetMembers()))
	for i, m := range r.GetMembers() {
		members[i] = object{
			"replica_id": m.ReplicaId, "voting": m.Voting, "leads": m.Leads, "alive": m.Alive,
			"applied_index": m.AppliedIndex, "revision": m.Revision, "differs": m.Differs, "version": m.Version,
			"heard_ms_ago": m.HeardMsAgo, "apply_version_max": m.ApplyVersionMax,
			"raft": m.GetAddress().GetRaft(), "peer": m.GetAddress().GetPeer(), "client": m.GetAddress().GetClient(),
		}
	}
	removed := r.GetRemoved()
	if removed == nil {
		removed = []uint64{}
	}
	o := object{
		"members": members, "removed": removed, "replica_id": r.GetReplicaId(),
		"leader_id": r.GetLeaderId(), "raft_term": r.GetRaftTerm(),
	}
	return a.print(o, func() {
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		line := func(cells ...string) {
			for i, c := range cells {
				if i > 0 {
					_, _ = w.Write([]byte{'\t'})
				}
				_, _ = w.Write([]byte(c))
			}
			_, _ = w.Write([]byte{'\n'})
		}
		line("ID", "ROLE", "STATE", "APPLIED", "REVISION", "CLIENTS", "PEERS", "RAFT", "VERSION", "APPLY")
		for _, m := range r.GetMembers() {
			line(number(m.ReplicaId), role(m), condition(m), number(m.AppliedIndex), number(m.Revision),
				dash(m.GetAddress().GetClient()), dash(m.GetAddress().GetPeer()), m.GetAddress().GetRaft(), dash(m.Version), number(uint64(m.ApplyVersionMax)))
		}
		_ = w.Flush() // to a.out, like everything
	})
}

func role(m *messages.Member) string {
	switch {
	case m.Leads:
		return "leader"
	case m.Voting:
		return "follower"
	}
	return "non-voting"
}

func condition(m *messages.Member) string {
	switch {
	case m.Differs:
		return "DIFFERS"
	case m.Alive:
		return "alive"
	case m.HeardMsAgo < 0:
		return "never heard"
	}
	return "silent for " + strconv.FormatInt(m.HeardMsAgo/1000, 10) + " s"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
