package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func (a *app) getCommand() *cobra.Command {
	var (
		opts      client.GetOptions
		ttl, long bool
	)
	c := &cobra.Command{
		Use:   "get KEY...",
		Short: "Print the value of a key, byte for byte; of several keys, one line each",
		Args:  cobra.MinimumNArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			if len(args) > 1 {
				return a.getMany(ctx, s, args, opts)
			}
			r, err := s.Get(ctx, args[0], opts)
			if err != nil {
				return err
			}
			if r.Record == nil {
				e := messages.NewError(messages.Code_CODE_KEY_NOT_FOUND, "%s", quote([]byte(args[0]))).WithField("key")
				e.Detail.CurrentRevision = r.Revision
				return e
			}
			o := object{"record": recordObject(r.Record), "revision": r.Revision}
			if opts.Stale {
				o["leader_silent_ms"] = r.LeaderSilent.Milliseconds()
			}
			return a.print(o, func() {
				switch {
				case long:
					a.printLong(r.Record)
					if opts.Stale {
						a.printf("as of             revision %d, a leader heard of %v ago\n", r.Revision, r.LeaderSilent)
					}
				case ttl:
					a.printf("%s\n", ttlText(r.Record))
				default:
					_, _ = a.out.Write(r.Record.Value) // what fails is told at the end
					a.newline(r.Record.Value)
				}
			})
		}),
	}
	f := c.Flags()
	f.Uint64Var(&opts.Revision, "at", 0, "read at this revision; 0 is the latest")
	f.BoolVar(&opts.Stale, "stale", false, "read what the node has, without asking the others")
	f.BoolVar(&ttl, "ttl", false, "print the time to live instead; none for a key without a lease")
	f.BoolVarP(&long, "long", "l", false, "print everything about the record")
	return c
}

func (a *app) getMany(ctx context.Context, s *client.Client, keys []string, opts client.GetOptions) error {
	r, err := s.GetMany(ctx, keys, opts)
	if err != nil {
		return err
	}
	var missing []string
	for i, rec := range r.Records {
		if rec == nil {
			missing = append(missing, quote([]byte(keys[i])))
		}
	}
	err = a.print(object{"records": recordObjects(r.Records), "revision": r.Revision}, func() {
		for _, rec := range r.Records {
			if rec != nil {
				a.printf("%s\t%s\n", quote(rec.Key), quote(rec.Value))
			}
		}
	})
	if err == nil && len(missing) > 0 {
		err = messages.NewError(messages.Code_CODE_KEY_NOT_FOUND, "%d of %d keys: %s", len(missing), len(keys), strings.Join(missing, ", ")).WithField("key")
	}
	return err
}

// newline ends the line on a terminal, so that the prompt does not follow the value.
func (a *app) newline(value []byte) {
	if isTerminal(a.out) && (len(value) == 0 || value[len(value)-1] != '\n') {
		a.printf("\n")
	}
}

func ttlText(r *messages.Record) string {
	if r.RemainingTtlMs == nil {
		return "none"
	}
	return remaining(*r.RemainingTtlMs)
}

func (a *app) printLong(r *messages.Record) {
	a.printf("key              %s\n", quote(r.Key))
	a.printf("value            %s\n", quote(r.Value))
	a.printf("create revision  %d\n", r.CreateRevision)
	a.printf("mod revision     %d\n", r.ModRevision)
	a.printf("version          %d\n", r.Version)
	a.printf("lease            %d\n", r.LeaseId)
	a.printf("ttl              %s\n", ttlText(r))
	a.printf("content type     %s\n", r.ContentType)
	for _, m := range r.Metadata {
		a.printf("metadata         %s=%s\n", m.GetName(), quote(m.GetValue()))
	}
}
