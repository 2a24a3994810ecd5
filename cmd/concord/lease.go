package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func (a *app) leaseCommand() *cobra.Command {
	return group("lease", "Grant, renew, end and show leases",
		a.leaseGrantCommand(), a.leaseKeepaliveCommand(), a.leaseRevokeCommand(),
		a.leaseInfoCommand(), a.leaseListCommand(), a.leaseTopCommand())
}

func leaseID(s string) (uint64, error) {
	id, err := strconv.ParseUint(s, 10, 64)
	if err != nil || id == 0 {
		return 0, messages.InvalidField("lease_id", "%q is not a lease id", s)
	}
	return id, nil
}

func (a *app) leaseGrantCommand() *cobra.Command {
	var (
		meta  []string
		label string
		ttl   time.Duration
		alias uint64
	)
	c := &cobra.Command{
		Use:   "grant --ttl TTL | grant TTL",
		Short: "Make a lease that ends after TTL, as 30s, unless it is kept alive",
		Args:  cobra.MaximumNArgs(1),
	}
	c.RunE = a.with(func(ctx context.Context, s *client.Client, args []string) (err error) {
		switch given := c.Flags().Changed("ttl"); {
		case given == (len(args) == 1):
			return messages.InvalidField("ttl", "say once how long, as --ttl 30s")
		case !given:
			if ttl, err = duration("ttl", args[0]); err != nil {
				return err
			}
		}
		if c.Flags().Changed("label") {
			meta = append(meta, "label="+label)
		}
		metadata, err := pairs(meta)
		if err != nil {
			return err
		}
		g, err := s.Grant(ctx, ttl, client.GrantOptions{Metadata: metadata, Alias: alias})
		if err != nil {
			return err
		}
		o := object{"lease_id": g.LeaseID, "ttl_ms": g.TTL.Milliseconds(), "revision": g.Revision, "replayed": g.Replayed}
		return a.print(o, func() { a.printf("lease %d ttl %v\n", g.LeaseID, g.TTL) })
	})
	c.Flags().DurationVar(&ttl, "ttl", 0, "time to live, as 30s")
	c.Flags().StringVar(&label, "label", "", "what the lease is for; the same as --meta label=...")
	c.Flags().StringArrayVar(&meta, "meta", nil, "metadata NAME=VALUE; may be repeated")
	c.Flags().Uint64Var(&alias, "alias", 0, "a number of your choice, unique among live leases")
	return a.withKey(c)
}

func (a *app) leaseKeepaliveCommand() *cobra.Command {
	var (
		forever bool
		ttl     time.Duration
	)
	c := &cobra.Command{
		Use:   "keepalive ID",
		Short: "Renew a lease once, or with --forever until it is lost or interrupted",
		Args:  cobra.ExactArgs(1),
	}
	c.RunE = a.with(func(ctx context.Context, s *client.Client, args []string) error {
		id, err := leaseID(args[0])
		if err != nil {
			return err
		}
		if err := positive(c, "ttl", ttl); err != nil {
			return err
		}
		before := time.Now()
		r, err := s.KeepAlive(ctx, id, ttl)
		if err != nil {
			return err
		}
		if err := a.printRenewed(id, r.TTL, r.Remaining); err != nil || !forever {
			return err
		}
		return a.keepForever(ctx, s, id, r, before)
	})
	c.Flags().BoolVar(&forever, "forever", false, "go on, about every third of the ttl")
	c.Flags().DurationVar(&ttl, "ttl", 0, "the lease's ttl from now on")
	return c
}

func (a *app) printRenewed(id uint64, ttl, left time.Duration) error {
	return a.print(object{"lease_id": id, "ttl_ms": ttl.Milliseconds(), "remaining_ttl_ms": left.Milliseconds()}, func() {
		a.printf("lease %d ttl %v remaining %v\n", id, ttl, left)
	})
}

// keeping passes what the worker says on to the command.
type keeping struct {
	renewed chan client.Renewed
	lost    chan error
}

func (k keeping) Confirmed(sentAt, ttl time.Duration) {
	select {
	case k.renewed <- client.Renewed{SentAt: sentAt, TTL: ttl}:
	default: // a line that was not printed in time is left out
	}
}

func (k keeping) Lost(err error) { k.lost <- err }

// keepForever goes on after the renewal r, which was asked for at the time before.
func (a *app) keepForever(ctx context.Context, s *client.Client, id uint64, r client.Renewed, before time.Time) error {
	k := keeping{renewed: make(chan client.Renewed, 16), lost: make(chan error, 1)}
	s.Keepalives().Keep(id, r.TTL, r.SentAt, k)
	left := func(n client.Renewed) time.Duration {
		return time.Until(before.Add(n.SentAt - r.SentAt + n.TTL)) // r was sent at before, or later
	}
	deadline := time.NewTimer(left(r))
	defer deadline.Stop()
	for {
		select {
		case n := <-k.renewed:
			deadline.Reset(left(n))
			if err := a.printRenewed(id, n.TTL, n.TTL); err != nil {
				return err
			}
		case <-deadline.C:
			// Only the cluster knows; whoever relies on the lease must not wait for it.
			err := a.print(object{"lease_id": id, "confirmed": false}, func() {
				a.printf("lease %d not confirmed in time: it may have ended\n", id)
			})
			if err != nil {
				return err
			}
		case err := <-k.lost:
			return err
		case <-ctx.Done():
			return errInterrupted
		}
	}
}

func (a *app) leaseRevokeCommand() *cobra.Command {
	return a.withKey(&cobra.Command{
		Use:   "revoke ID",
		Short: "End a lease now: its keys are deleted at one revision",
		Args:  cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			id, err := leaseID(args[0])
			if err != nil {
				return err
			}
			n, err := s.Revoke(ctx, id)
			if err != nil {
				return err
			}
			return a.print(object{"lease_id": id, "keys_deleted": n}, func() { a.printf("revoked %d, %d keys deleted\n", id, n) })
		}),
	})
}

func (a *app) leaseInfoCommand() *cobra.Command {
	var opts client.LeaseInfoOptions
	c := &cobra.Command{
		Use:   "info ID",
		Short: "Show a lease",
		Args:  cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			id, err := leaseID(args[0])
			if err != nil {
				return err
			}
			l, err := s.LeaseInfo(ctx, id, opts)
			if err != nil {
				return err
			}
			o := leaseObject(l)
			if _, some := o["keys"]; opts.Keys && !some {
				o["keys"] = []object{}
			}
			return a.print(o, func() { a.printLease(l) })
		}),
	}
	c.Flags().BoolVar(&opts.Keys, "keys", false, "with the keys attached to it")
	return c
}

func (a *app) printLease(l *messages.LeaseInfo) {
	a.printf("lease       %d\n", l.GetId())
	a.printf("ttl         %s\n", remaining(l.GetTtlMs()))
	a.printf("remaining   %s\n", remaining(l.GetRemainingTtlMs()))
	a.printf("granted at  revision %d\n", l.GetGrantedAt())
	a.printf("renewals    %d\n", l.GetRenewals())
	a.printf("keys        %d\n", l.GetKeyCount())
	if l.GetAnonymous() {
		a.printf("anonymous   yes\n")
	}
	if l.GetSessionId() != 0 {
		a.printf("session     %d\n", l.GetSessionId())
	}
	if l.GetAlias() != 0 {
		a.printf("alias       %d\n", l.GetAlias())
	}
	for _, m := range l.GetMetadata() {
		a.printf("metadata    %s=%s\n", m.GetName(), quote(m.GetValue()))
	}
	for _, k := range l.GetKeys() {
		a.printf("key         %s\n", quote(k))
	}
}

func leaseObject(l *messages.LeaseInfo) object {
	o := object{
		"lease_id": l.GetId(), "ttl_ms": l.GetTtlMs(), "remaining_ttl_ms": l.GetRemainingTtlMs(),
		"granted_at": l.GetGrantedAt(), "key_count": l.GetKeyCount(), "renewals": l.GetRenewals(), "anonymous": l.GetAnonymous(),
	}
	if l.GetSessionId() != 0 {
		o["session_id"] = l.SessionId
	}
	if l.GetAlias() != 0 {
		o["alias"] = l.Alias
	}
	o.setMetadata(l.GetMetadata())
	if len(l.GetKeys()) > 0 {
		keys := make([]object, len(l.Keys))
		for i, k := range l.Keys {
			keys[i] = object{}
			keys[i].setBytes("key", k)
		}
		o["keys"] = keys
	}
	return o
}

func (a *app) leaseListCommand() *cobra.Command {
	var opts client.LeaseListOptions
	c := &cobra.Command{
		Use:   "list",
		Short: "List live leases by id",
		Args:  cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			page, err := s.LeaseList(ctx, opts)
			if err != nil {
				return err
			}
			leases := make([]object, len(page.Leases))
			for i, l := range page.Leases {
				leases[i] = leaseObject(l)
			}
			return a.print(object{"leases": leases, "has_more": page.HasMore}, func() {
				a.printLeases(page.Leases)
				if page.HasMore {
					a.note("concord: there is more: --after %d", page.Leases[len(page.Leases)-1].GetId())
				}
			})
		}),
	}
	c.Flags().BoolVar(&opts.IncludeAnonymous, "anonymous", false, "with the leases of keys that have a ttl")
	c.Flags().Uint32Var(&opts.Limit, "limit", 0, "at most so many (default 1000)")
	c.Flags().Uint64Var(&opts.AfterLeaseID, "after", 0, "continue after this lease")
	return c
}
