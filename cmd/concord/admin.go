package main

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func revisionArgument(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, messages.InvalidField("revision", "%q is not a revision", s)
	}
	return n, nil
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what the node that answers says of itself; works without a quorum",
		Args:  cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			r, err := s.Status(ctx)
			if err != nil {
				return err
			}
			o := object{
				"cluster_id": hex.EncodeToString(r.ClusterId), "incarnation": r.Incarnation, "replica_id": r.ReplicaId,
				"leader_id": r.LeaderId, "raft_term": r.RaftTerm, "applied_index": r.AppliedIndex, "revision": r.Revision,
				"compact_revision": r.CompactRevision, "clock_ms": r.ClockMs, "clock_epoch": r.ClockEpoch, "keys": r.Keys,
				"leases": r.Leases, "sessions": r.Sessions, "history_events": r.HistoryEvents, "logical_bytes": r.LogicalBytes,
				"quota_bytes": r.QuotaBytes, "watchers": r.Watchers, "clients": r.Clients, "version": r.Version,
				"digest": strconv.FormatUint(r.Digest, 16), "apply_version": r.ApplyVersion, "apply_version_max": r.ApplyVersionMax,
				"uptime_ms":        r.UptimeMs,
				"leader_silent_ms": r.LeaderSilentMs,
				"apply_longest_ms": r.ApplyLongestMs, "apply_longest_recent_ms": r.ApplyLongestRecentMs,
			}
			if r.HeldRevision != nil {
				o["held_revision"] = r.GetHeldRevision()
			}
			return a.print(o, func() { a.printStatus(r) })
		}),
	}
}

func (a *app) printStatus(r *messages.StatusReply) {
	leader := "none known"
	if r.LeaderId != 0 {
		leader = number(r.LeaderId)
	}
	a.printf("cluster    %x, incarnation %d\n", r.ClusterId, r.Incarnation)
	a.printf("replica    %d, leader %s, raft term %d, applied %d\n", r.ReplicaId, leader, r.RaftTerm, r.AppliedIndex)
	a.printf("revision   %d, compact revision %d, history %d events\n", r.Revision, r.CompactRevision, r.HistoryEvents)
	if r.HeldRevision != nil {
		a.printf("held       at revision %d by a cursor or a watch\n", r.GetHeldRevision())
	}
	a.printf("holds      %d keys, %d leases, %d sessions, %d of %d bytes\n", r.Keys, r.Leases, r.Sessions, r.LogicalBytes, r.QuotaBytes)
	a.printf("serves     %d clients, %d watchers\n", r.Clients, r.Watchers)
	a.printf("apply      the log waited %d ms at most, %d ms of late\n", r.ApplyLongestMs, r.ApplyLongestRecentMs)
	a.printf("clock      %s, epoch %d\n", remaining(r.ClockMs), r.ClockEpoch)
	a.printf("digest     %016x\n", r.Digest)
	a.printf("version    %s, apply version %d of %d, up %v\n", r.Version, r.ApplyVersion, r.ApplyVersionMax, (time.Duration(r.UptimeMs) * time.Millisecond).Truncate(time.Second))
}

func (a *app) compactCommand() *cobra.Command {
	return a.withKey(&cobra.Command{
		Use:   "compact REVISION",
		Short: "Drop history below a revision; consumers may hold it back",
		Args:  cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			revision, err := revisionArgument(args[0])
			if err != nil {
				return err
			}
			effective, err := s.Compact(ctx, revision)
			if err != nil {
				return err
			}
			return a.print(object{"compact_revision": effective}, func() { a.printf("compact revision %d\n", effective) })
		}),
	})
}

func (a *app) resolveCommand() *cobra.Command {
	var opts client.ResolveOptions
	c := &cobra.Command{
		Use:   "resolve IDEMPOTENCY-KEY",
		Short: "Ask what became of a write whose outcome is unknown",
		Args:  cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			r, err := s.Resolve(ctx, args[0], opts)
			if err != nil {
				return err
			}
			state := enumName(r.State.String(), "STATE_")
			o := object{"state": state}
			if r.Result != nil {
				o["revision"] = r.Result.Revision
				if r.Result.Error != nil {
					o["refused"] = errorObject(r.Result.Error)
				}
			}
			err = a.print(o, func() {
				switch {
				case r.Result.GetError() != nil:
					a.printf("recorded: refused: %v\n", messages.ErrorFrom(r.Result.Error))
				case r.Result != nil:
					a.printf("recorded: applied, revision %d\n", r.Result.Revision)
				case r.State == messages.ResolveIdempotencyResult_STATE_FENCED:
					a.printf("fenced: not applied, and never will be\n")
				default:
					a.printf("not found: it may still arrive\n")
				}
			})
			if err == nil && r.State == messages.ResolveIdempotencyResult_STATE_NOT_FOUND {
				e := messages.NewError(messages.Code_CODE_IDEMPOTENCY_NOT_FOUND, "%s", quote([]byte(args[0])))
				e.Detail.Outcome = messages.Outcome_OUTCOME_UNKNOWN // of the write, which may still arrive
				err = e
			}
			return err
		}),
	}
	c.Flags().BoolVar(&opts.Fence, "fence", false, "see to it that it is not applied later")
	return c
}

func (a *app) cursorCommand() *cobra.Command {
	return group("cursor", "Durable named positions that hold history back",
		a.cursorOpenCommand(),
		a.cursorWrite("checkpoint NAME REVISION", "Say that everything up to a revision was processed", 2,
			func(ctx context.Context, s *client.Client, args []string) (*messages.CursorInfo, error) {
				after, err := revisionArgument(args[1])
				if err != nil {
					return nil, err
				}
				return s.CheckpointCursor(ctx, args[0], after)
			}),
		a.cursorWrite("close NAME", "Remove a cursor", 1,
			func(ctx context.Context, s *client.Client, args []string) (*messages.CursorInfo, error) {
				return s.CloseCursor(ctx, args[0])
			}),
		a.cursorListCommand())
}

func (a *app) cursorOpenCommand() *cobra.Command {
	var lease, after uint64
	c := a.cursorWrite("open NAME", "Make a cursor that lives as long as its lease", 1,
		func(ctx context.Context, s *client.Client, args []string) (*messages.CursorInfo, error) {
			return s.OpenCursor(ctx, args[0], lease, after)
		})
	c.Flags().Uint64Var(&lease, "lease", 0, "the lease that it hangs on")
	c.Flags().Uint64Var(&after, "after", 0, "the highest revision that is processed already")
	return c
}

func (a *app) cursorWrite(use, short string, args int, f func(context.Context, *client.Client, []string) (*messages.CursorInfo, error)) *cobra.Command {
	return a.withKey(&cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(args),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			i, err := f(ctx, s, args)
			if err != nil {
				return err
			}
			return a.print(cursorObject(i), func() { a.printCursor(i) })
		})})
}

func cursorObject(i *messages.CursorInfo) object {
	return object{"name": i.GetName(), "lease_id": i.GetLeaseId(), "after_revision": i.GetAfterRevision(), "counted": i.GetCounted()}
}

func (a *app) printCursor(i *messages.CursorInfo) {
	counted := ""
	if !i.GetCounted() {
		counted = "\tnot counted"
	}
	a.printf("%s\tlease %d\tafter %d%s\n", quote([]byte(i.GetName())), i.GetLeaseId(), i.GetAfterRevision(), counted)
}

func (a *app) cursorListCommand() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the cursors", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			cursors, err := s.Cursors(ctx)
			if err != nil {
				return err
			}
			objects := make([]object, len(cursors))
			for i, cu := range cursors {
				objects[i] = cursorObject(cu)
			}
			return a.print(object{"cursors": objects}, func() {
				for _, cu := range cursors {
					a.printCursor(cu)
				}
			})
		})}
}

// extractorFlags read what an index is built on.
type extractorFlags struct {
	field, path string
	element     uint32
}

func (x *extractorFlags) extractor(c *cobra.Command) (*messages.Extractor, error) {
	field, path, element := c.Flags().Changed("field"), c.Flags().Changed("path"), c.Flags().Changed("element")
	switch {
	case field && !path && !element:
		return &messages.Extractor{By: &messages.Extractor_Field{Field: x.field}}, nil
	case path && !field && !element:
		return &messages.Extractor{By: &messages.Extractor_Path_{Path: &messages.Extractor_Path{Names: strings.Split(x.path, ".")}}}, nil
	case element && !field && !path:
		return &messages.Extractor{By: &messages.Extractor_Element{Element: x.element}}, nil
	case !field && !path && !element:
		return &messages.Extractor{By: &messages.Extractor_Identity{Identity: true}}, nil
	}
	return nil, messages.InvalidField("extractor", "only one of --field, --path and --element")
}
