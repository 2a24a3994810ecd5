package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func (a *app) putCommand() *cobra.Command {
	var (
		opts     client.PutOptions
		meta     []string
		prev     bool
		absent   bool
		exists   bool
		revision uint64
	)
	c := &cobra.Command{
		Use:   "put KEY VALUE",
		Short: "Store a value; - reads it from stdin",
		Args:  cobra.RangeArgs(1, 2),
	}
	c.RunE = a.with(func(ctx context.Context, s *client.Client, args []string) error {
		value, err := a.putValue(args, opts.IgnoreValue)
		if err != nil {
			return err
		}
		if opts.Metadata, err = pairs(meta); err != nil {
			return err
		}
		if err := positive(c, "ttl", opts.TTL); err != nil {
			return err
		}
		if c.Flags().Changed("lease") && opts.LeaseID == 0 {
			return messages.InvalidField("lease_id", "0 is no lease; leave --lease out to attach to none")
		}
		conditions := 0
		for _, set := range []bool{absent, exists, c.Flags().Changed("if-revision")} {
			if set {
				conditions++
			}
		}
		opts.NoPrev = !prev && conditions == 0
		var done client.ConditionalResult
		switch {
		case conditions > 1:
			return messages.InvalidField("if", "only one of --if-absent, --if-exists and --if-revision")
		case absent:
			done, err = s.Create(ctx, args[0], value, opts)
		case exists:
			done, err = s.Replace(ctx, args[0], value, opts)
		case conditions == 1:
			done, err = s.UpdateIf(ctx, args[0], revision, value, opts)
		default:
			var r client.PutResult
			r, err = s.Put(ctx, args[0], value, opts)
			done = client.ConditionalResult{Done: true, Revision: r.Revision, Current: r.Prev, Replayed: r.Replayed}
		}
		if err != nil {
			return err
		}
		return a.printConditional(done, prev)
	})
	f := c.Flags()
	f.Uint64Var(&opts.LeaseID, "lease", 0, "attach to this lease")
	f.DurationVar(&opts.TTL, "ttl", 0, "time to live of this key, as 30s")
	f.StringVar(&opts.ContentType, "content-type", "", "what the value is, as application/json")
	f.StringArrayVar(&meta, "meta", nil, "metadata NAME=VALUE; may be repeated")
	f.BoolVar(&prev, "prev", false, "print the record that was replaced")
	f.BoolVar(&opts.IgnoreValue, "ignore-value", false, "keep the value that is there")
	f.BoolVar(&opts.IgnoreLease, "ignore-lease", false, "keep the lease that is there")
	f.BoolVar(&absent, "if-absent", false, "only if the key does not exist")
	f.BoolVar(&exists, "if-exists", false, "only if the key exists")
	f.Uint64Var(&revision, "if-revision", 0, "only if the key was last written at this revision; 0: does not exist")
	return a.withKey(c)
}

func (a *app) putValue(args []string, ignored bool) ([]byte, error) {
	switch {
	case len(args) == 1 && ignored:
		return nil, nil
	case len(args) == 1:
		return nil, messages.InvalidField("value", "missing")
	case args[1] == "-":
		value, err := io.ReadAll(io.LimitReader(a.in, messages.ValueBytesCeiling+1))
		if err != nil {
			return nil, messages.InvalidField("value", "stdin: %v", err)
		}
		return value, nil
	}
	return []byte(args[1]), nil
}

// printConditional prints the answer to a write that may have had a condition.
func (a *app) printConditional(r client.ConditionalResult, prev bool) error {
	o := object{"revision": r.Revision, "replayed": r.Replayed}
	if !r.Done {
		o["done"], o["current"] = false, recordObject(r.Current)
		err := a.print(o, func() { a.printRecord("current", r.Current) })
		if err == nil {
			err = errCondition
		}
		return err
	}
	o["done"] = true
	if prev {
		o["prev"] = recordObject(r.Current)
	}
	return a.print(o, func() {
		a.printf("revision %d\n", r.Revision)
		if prev {
			a.printRecord("previous", r.Current)
		}
	})
}

// printRecord prints a record on one line.
func (a *app) printRecord(name string, r *messages.Record) {
	if r == nil {
		a.printf("%s none\n", name)
		return
	}
	a.printf("%s revision %d\t%s\n", name, r.ModRevision, quote(r.Value))
}

// pairs reads NAME=VALUE arguments.
func pairs(args []string) (map[string][]byte, error) {
	if len(args) == 0 {
		return nil, nil
	}
	m := make(map[string][]byte, len(args))
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, messages.InvalidField("metadata", "%q is not NAME=VALUE", arg)
		}
		if _, twice := m[name]; twice {
			return nil, messages.InvalidField("metadata", "%q is given twice", name)
		}
		m[name] = []byte(value)
	}
	return m, nil
}

func (a *app) touchCommand() *cobra.Command {
	return a.withKey(&cobra.Command{
		Use:   "touch KEY TTL",
		Short: "Lengthen the time to live of a key, never shorten it",
		Args:  cobra.ExactArgs(2),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			ttl, err := duration("ttl", args[1])
			if err != nil {
				return err
			}
			r, err := s.Touch(ctx, args[0], ttl)
			if err != nil {
				return err
			}
			return a.print(object{"revision": r.Revision, "remaining_ttl_ms": r.Remaining.Milliseconds()}, func() {
				a.printf("remaining %v\n", r.Remaining)
			})
		}),
	})
}

// positive refuses a duration that was given and is none: it would count as not given.
func positive(c *cobra.Command, flag string, d time.Duration) error {
	if c.Flags().Changed(flag) && d <= 0 {
		return messages.InvalidField(flag, "%v is not more than 0", d)
	}
	return nil
}

func duration(field, s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, messages.InvalidField(field, "%q is not a duration such as 30s", s)
	}
	return d, nil
}
