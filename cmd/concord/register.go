package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/registration"
	"github.com/concord-kv/concord/actors/client/session"
)

func (a *app) registerCommand() *cobra.Command {
	var (
		opts        registration.Options
		ttl         time.Duration
		contentType string
		meta        []string
	)
	c := &cobra.Command{
		Use:   "register KEY VALUE",
		Short: "Keep a key for as long as this command runs",
		Long: `Puts the key and keeps it alive until the command is interrupted; then, or when this
process dies and --ttl has passed, the key is deleted.`,
		Args: cobra.ExactArgs(2),
	}
	c.RunE = a.withSession(func(ctx context.Context, s *client.Client, args []string) error {
		metadata, err := pairs(meta)
		if err != nil {
			return err
		}
		states := make(chan registration.State, 64)
		opts.Session = session.Options{TTL: ttl}
		opts.ContentType, opts.Metadata = contentType, metadata
		opts.Changed = func(s registration.State) {
			select {
			case states <- s:
			default: // a line that was not printed in time is left out
			}
		}
		r, err := registration.Open(ctx, s, args[0], []byte(args[1]), opts)
		if err != nil {
			return err
		}
		defer func() {
			done, cancel := context.WithTimeout(context.Background(), a.timeout)
			defer cancel()
			_ = r.Close(done)
		}()
		for {
			select {
			case s := <-states:
				if err := a.printRegistration(args[0], s); err != nil {
					return err
				}
			case <-r.Done():
				return r.State().Err
			case <-ctx.Done():
				return errInterrupted
			}
		}
	})
	f := c.Flags()
	f.DurationVar(&ttl, "ttl", session.TTLDefault, "how long the key outlives this process, or its way to the cluster")
	f.BoolVar(&opts.Renew, "renew", false, "register again when the registration is lost")
	f.BoolVar(&opts.Wait, "wait", false, "wait for a key that exists to go")
	f.StringVar(&contentType, "content-type", "", "content type of the value")
	f.StringArrayVar(&meta, "meta", nil, "metadata NAME=VALUE; may be repeated")
	return c
}

func (a *app) printRegistration(key string, s registration.State) error {
	o := object{"registered": s.Registered}
	o.setBytes("key", []byte(key))
	if s.Registered {
		o["lease_id"], o["revision"] = s.LeaseID, s.Revision
	} else {
		o["error"] = s.Err.Error()
	}
	return a.print(o, func() {
		if s.Registered {
			a.printf("registered %s lease %d revision %d\n", quote([]byte(key)), s.LeaseID, s.Revision)
			return
		}
		a.printf("not registered: %v\n", s.Err)
	})
}
