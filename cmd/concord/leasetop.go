package main

import (
	"cmp"
	"context"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// leaseTopRead bounds how many leases one look reads.
const leaseTopRead = 10_000

func (a *app) leaseTopCommand() *cobra.Command {
	var (
		interval  time.Duration
		rows      int
		once      bool
		anonymous bool
	)
	c := &cobra.Command{
		Use:   "top",
		Short: "Show the leases that end next, again and again",
		Args:  cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			if interval < 100*time.Millisecond {
				return messages.InvalidField("interval", "%v is less than 100ms", interval)
			}
			t := time.NewTicker(interval)
			defer t.Stop()
			for {
				if err := a.leaseTop(ctx, s, rows, anonymous, !once); err != nil || once {
					return err
				}
				select {
				case <-t.C:
				case <-ctx.Done():
					return errInterrupted
				}
			}
		}),
	}
	f := c.Flags()
	f.DurationVar(&interval, "interval", time.Second, "how often")
	f.IntVarP(&rows, "rows", "n", 20, "how many leases")
	f.BoolVar(&once, "once", false, "print once and end")
	f.BoolVar(&anonymous, "anonymous", false, "with the leases of keys that have a ttl")
	return c
}

func (a *app) leaseTop(ctx context.Context, s *client.Client, rows int, anonymous, live bool) error {
	leases, more, err := soonest(ctx, s, anonymous)
	if err != nil {
		return err
	}
	total := len(leases)
	leases = leases[:min(rows, total)]
	objects := make([]object, len(leases))
	for i, l := range leases {
		objects[i] = leaseObject(l)
	}
	return a.print(object{"leases": objects, "live": total, "live_is_more": more}, func() {
		if live && isTerminal(a.out) {
			a.printf("\033[H\033[2J")
		}
		suffix := ""
		if more {
			suffix = " or more"
		}
		a.printf("live leases: %d%s\n", total, suffix)
		a.printLeases(leases)
	})
}

// soonest reads the leases, the one that ends next first.
func soonest(ctx context.Context, s *client.Client, anonymous bool) (leases []*messages.LeaseInfo, more bool, err error) {
	opts := client.LeaseListOptions{IncludeAnonymous: anonymous}
	for {
		page, err := s.LeaseList(ctx, opts)
		if err != nil {
			return nil, false, err
		}
		leases = append(leases, page.Leases...)
		if more = page.HasMore && len(page.Leases) > 0; !more || len(leases) >= leaseTopRead {
			break
		}
		opts.AfterLeaseID = page.Leases[len(page.Leases)-1].GetId()
	}
	slices.SortStableFunc(leases, func(x, y *messages.LeaseInfo) int {
		return cmp.Compare(x.GetRemainingTtlMs(), y.GetRemainingTtlMs())
	})
	return leases, more, nil
}

// printLeases prints a table.
func (a *app) printLeases(leases []*messages.LeaseInfo) {
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	row := func(cells ...string) {
		for i, c := range cells {
			if i > 0 {
				_, _ = w.Write([]byte("\t"))
			}
			_, _ = w.Write([]byte(c))
		}
		_, _ = w.Write([]byte("\n"))
	}
	row("LEASE", "REMAINING", "TTL", "KEYS", "RENEWALS", "WHAT")
	for _, l := range leases {
		row(number(l.GetId()), remaining(l.GetRemainingTtlMs()), remaining(l.GetTtlMs()),
			number(uint64(l.GetKeyCount())), number(l.GetRenewals()), leaseWhat(l))
	}
	_ = w.Flush() // to a.out, which tells at the end what failed
}

// leaseWhat says in a word what a lease is for.
func leaseWhat(l *messages.LeaseInfo) string {
	switch {
	case l.GetAnonymous():
		return "ttl of a key"
	case l.GetSessionId() != 0:
		return "session " + number(l.GetSessionId())
	}
	for _, m := range l.GetMetadata() {
		return m.GetName() + "=" + quote(m.GetValue())
	}
	return "-"
}
