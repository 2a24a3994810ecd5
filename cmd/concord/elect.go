package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/election"
	"github.com/concord-kv/concord/actors/client/session"
)

func (a *app) electCommand() *cobra.Command {
	var (
		hold    holding
		value   string
		observe bool
	)
	c := &cobra.Command{
		Use:   "elect NAME -- CMD [ARG...] | elect NAME --observe",
		Short: "Run a command while leading, or print who leads",
		Long: `Campaigns under this name, runs the command once it leads and resigns when it has
ended; the exit code is the command's. When the term is lost the command gets SIGTERM and
after --grace SIGKILL, and the exit code is 8.

The command finds in its environment CONCORD_TOKEN, the fencing token (give it to what it
writes to), which is the epoch of the term, CONCORD_EPOCH, the same, CONCORD_ELECTION, the
name, and CONCORD_LEASE, the lease that the term hangs on.`,
		Args: cobra.MinimumNArgs(1),
	}
	c.RunE = a.withSession(func(ctx context.Context, s *client.Client, args []string) error {
		if observe {
			return a.observeElection(ctx, s, args)
		}
		argv, err := command(args, c.ArgsLenAtDash(), 1)
		if err != nil {
			return err
		}
		held, err := hold.open(ctx, s, "election "+args[0])
		if err != nil {
			return err
		}
		defer a.closeSession(held)
		e, err := election.New(held, args[0])
		if err != nil {
			return err
		}
		if !c.Flags().Changed("value") {
			host, _ := os.Hostname()
			value = fmt.Sprintf("%s %d", host, os.Getpid())
		}
		t, err := e.Campaign(ctx, []byte(value))
		if err != nil {
			return err
		}
		defer func() {
			done, cancel := context.WithTimeout(context.Background(), a.timeout)
			defer cancel()
			_ = t.Resign(done)
		}()
		return a.runWhile(ctx, t.Lease(), hold.grace, argv, []string{
			"CONCORD_TOKEN=" + t.Token().String(), "CONCORD_EPOCH=" + t.Token().String(),
			"CONCORD_ELECTION=" + args[0], fmt.Sprintf("CONCORD_LEASE=%d", held.LeaseID()),
		})
	})
	hold.flags(c)
	c.Flags().StringVar(&value, "value", "", "what others see of this leader; default the host and the process id")
	c.Flags().BoolVar(&observe, "observe", false, "campaign not; print each leader, and when nobody leads")
	return c
}

func (a *app) observeElection(ctx context.Context, c *client.Client, args []string) error {
	if err := usageError(cobra.ExactArgs(1)(nil, args)); err != nil {
		return err
	}
	s, err := session.Open(ctx, c, session.Options{Subject: "observer of " + args[0]})
	if err != nil {
		return err
	}
	defer a.closeSession(s)
	e, err := election.New(s, args[0])
	if err != nil {
		return err
	}
	for l, err := range e.Observe(ctx) {
		if err != nil {
			return err
		}
		o := object{"epoch": l.Epoch, "revision": l.Revision}
		o.setBytes("leader", l.Value)
		err := a.print(o, func() {
			if l.Nobody() {
				a.printf("%d\tnobody\n", l.Revision)
				return
			}
			a.printf("%d\tepoch %d\t%s\n", l.Revision, l.Epoch, quote(l.Value))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
