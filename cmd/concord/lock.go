package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/mutex"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

// holding are the flags of the commands that hold a right.
type holding struct {
	ttl, grace time.Duration
}

func (h *holding) flags(c *cobra.Command) {
	c.Flags().DurationVar(&h.ttl, "ttl", session.TTLDefault, "how long the right outlives this process, or its way to the cluster")
	c.Flags().DurationVar(&h.grace, "grace", 3*time.Second, "how long the command may take to stop; that long before the right may be another's it is told to")
}

// open opens the session: its deadline leaves time to stop the command.
func (h *holding) open(ctx context.Context, c *client.Client, subject string) (*session.Session, error) {
	if h.grace <= 0 {
		return nil, messages.InvalidField("grace", "must be more than 0")
	}
	return session.Open(ctx, c, session.Options{
		Subject: subject, TTL: h.ttl, StopMargin: h.grace, Metadata: map[string][]byte{"for": []byte(subject)},
	})
}

// closeSession ends a session in order; what fails then ends with its ttl.
func (a *app) closeSession(s *session.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Close(ctx)
}

func (a *app) lockCommand() *cobra.Command {
	var (
		hold holding
		try  bool
		wait time.Duration
	)
	c := &cobra.Command{
		Use:   "lock NAME -- CMD [ARG...]",
		Short: "Run a command while holding a lock",
		Long: `Waits for the lock of this name, first come first served, runs the command and
unlocks when it has ended; the exit code is the command's. When the lock is lost the command
gets SIGTERM and after --grace SIGKILL, and the exit code is 8.

The command finds in its environment CONCORD_TOKEN, the fencing token (give it to what it
writes to), CONCORD_LOCK, the name, and CONCORD_LEASE, the lease that the lock hangs on.`,
		Args: cobra.MinimumNArgs(1),
	}
	c.RunE = a.withSession(func(ctx context.Context, s *client.Client, args []string) error {
		argv, err := command(args, c.ArgsLenAtDash(), 1)
		if err != nil {
			return err
		}
		held, err := hold.open(ctx, s, "lock "+args[0])
		if err != nil {
			return err
		}
		defer a.closeSession(held)
		m, err := mutex.New(held, args[0])
		if err != nil {
			return err
		}
		h, err := acquire(ctx, m, try, wait)
		if errors.Is(err, mutex.ErrBusy) {
			//nolint:errorlint // whatever it met on the way, the lock was not granted, and that decides the exit code
			return fmt.Errorf("%w: %v", errCondition, err)
		}
		if err != nil {
			return err
		}
		defer func() {
			done, cancel := context.WithTimeout(context.Background(), a.timeout)
			defer cancel()
			_ = h.Unlock(done)
		}()
		return a.runWhile(ctx, h.Lease(), hold.grace, argv, []string{
			"CONCORD_TOKEN=" + h.Token().String(), "CONCORD_LOCK=" + args[0], fmt.Sprintf("CONCORD_LEASE=%d", held.LeaseID()),
		})
	})
	hold.flags(c)
	c.Flags().BoolVar(&try, "try", false, "do not wait: exit code 7 when another has it")
	c.Flags().DurationVar(&wait, "wait", 0, "wait at most so long: exit code 7 after that; default as long as it takes")
	c.MarkFlagsMutuallyExclusive("try", "wait")
	return c
}

func acquire(ctx context.Context, m *mutex.Mutex, try bool, wait time.Duration) (*mutex.Held, error) {
	switch {
	case try:
		return m.TryLock(ctx)
	case wait > 0:
		return m.LockWithin(ctx, wait)
	}
	return m.Lock(ctx)
}
