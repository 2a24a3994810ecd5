package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func (a *app) listCommand() *cobra.Command {
	var (
		sel   = selection{prefix: true}
		opts  client.ListOptions
		after string
		all   bool
	)
	c := &cobra.Command{
		Use:     "list [PREFIX] | list --range START END",
		Aliases: []string{"ls"},
		Short:   "List keys and values, in key order",
		Args:    cobra.MaximumNArgs(2),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			sel.prefix = !sel.rng
			selector, err := sel.selector(args, true)
			if err != nil {
				return err
			}
			opts.AfterKey = []byte(after)
			if all && !opts.CountOnly {
				return a.listAll(ctx, s, selector, opts)
			}
			r, err := s.List(ctx, selector, opts)
			if err != nil {
				return err
			}
			return a.printList(r, opts)
		}),
	}
	sel.flags(c, false)
	f := c.Flags()
	f.Uint32Var(&opts.Limit, "limit", 0, "at most so many (default 1000, at most 10000)")
	f.BoolVar(&opts.CountOnly, "count", false, "print only how many keys match")
	f.BoolVar(&opts.KeysOnly, "keys-only", false, "print no values")
	f.BoolVar(&opts.Descending, "descending", false, "last key first")
	f.Uint64Var(&opts.Revision, "at", 0, "read at this revision; 0 is the latest")
	f.StringVar(&after, "after", "", "continue after this key; with --at, the same snapshot")
	f.BoolVar(&all, "all", false, "every page, all at one revision")
	f.BoolVar(&opts.Stale, "stale", false, "read what the node has, without asking the others")
	f.Uint64Var(&opts.ModRevisionMin, "min-mod-revision", 0, "only records written at this revision or later")
	f.Uint64Var(&opts.ModRevisionMax, "max-mod-revision", 0, "only records written at this revision or before")
	f.Uint64Var(&opts.CreateRevisionMin, "min-create-revision", 0, "only records created at this revision or later")
	f.Uint64Var(&opts.CreateRevisionMax, "max-create-revision", 0, "only records created at this revision or before")
	return c
}

func (a *app) printList(r client.ListResult, opts client.ListOptions) error {
	if opts.CountOnly {
		return a.print(object{"count": r.Count, "revision": r.Revision}, func() { a.printf("%d\n", r.Count) })
	}
	o := object{"records": recordObjects(r.Records), "has_more": r.HasMore, "revision": r.Revision}
	if r.HasMore {
		o.setBytes("last_key", r.LastKey)
	}
	return a.print(o, func() {
		for _, rec := range r.Records {
			a.printLine(rec, opts.KeysOnly)
		}
		if r.HasMore {
			if word, ok := shellWord(r.LastKey); ok {
				a.note("concord: there is more: --at %d --after %s", r.Revision, word)
			} else {
				a.note("concord: there is more, after a key that no argument can hold: --at %d --all", r.Revision)
			}
		}
	})
}

func (a *app) printLine(r *messages.Record, keysOnly bool) {
	if keysOnly {
		a.printf("%s\n", quote(r.Key))
		return
	}
	a.printf("%s\t%s\n", quote(r.Key), quote(r.Value))
}

// listAll prints page by page; in JSON each record is a line of its own.
func (a *app) listAll(ctx context.Context, s *client.Client, selector *messages.Selector, opts client.ListOptions) error {
	for r, err := range s.Records(ctx, selector, opts) {
		if err != nil {
			return err
		}
		if err := a.print(recordObject(r), func() { a.printLine(r, opts.KeysOnly) }); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) historyCommand() *cobra.Command {
	var (
		opts client.HistoryOptions
		at   uint64

		after   uint64
		afterOp uint32
	)
	c := &cobra.Command{
		Use:   "history KEY",
		Short: "List the versions of a key, deletions included",
		Args:  cobra.ExactArgs(1),
	}
	c.RunE = a.with(func(ctx context.Context, s *client.Client, args []string) error {
		if c.Flags().Changed("at") {
			if at == 0 {
				return messages.InvalidField("at", "nothing is written at revision 0")
			}
			opts.From, opts.To = at, at
		}
		if c.Flags().Changed("after") || c.Flags().Changed("after-op") {
			opts.After = &messages.Position{Revision: after, OpIndex: afterOp}
		}
		r, err := s.History(ctx, args[0], opts)
		if err != nil {
			return err
		}
		if len(r.Versions) == 0 && opts.After == nil {
			what := "is retained"
			if opts.From != 0 || opts.To != 0 {
				what = "was written at these revisions"
			}
			return messages.NewError(messages.Code_CODE_KEY_NOT_FOUND, "no version of %s %s", quote([]byte(args[0])), what).WithField("key")
		}
		o := object{"versions": eventObjects(r.Versions), "has_more": r.HasMore, "revision": r.Revision}
		if r.Next != nil {
			o["next"] = positionObject(r.Next)
		}
		return a.print(o, func() {
			for _, e := range r.Versions {
				a.printf("%s\n", eventLine(e, false))
			}
			if r.HasMore {
				a.note("concord: there is more: --after %d --after-op %d", r.Next.GetRevision(), r.Next.GetOpIndex())
			}
		})
	})
	f := c.Flags()
	f.Uint64Var(&opts.From, "from", 0, "first revision; 0 is the compact revision")
	f.Uint64Var(&opts.To, "to", 0, "last revision; 0 is the latest")
	f.Uint64Var(&at, "at", 0, "only what was written at this revision")
	f.Uint32Var(&opts.Limit, "limit", 0, "at most so many")
	f.BoolVar(&opts.NewestFirst, "newest-first", false, "newest version first")
	f.Uint64Var(&after, "after", 0, "go on after the version of this revision, as the answer before said")
	f.Uint32Var(&afterOp, "after-op", 0, "and of this operation of it")
	return c
}

func (a *app) revisionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revision",
		Short: "Print the cluster's revision",
		Args:  cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			r, err := s.Revision(ctx)
			if err != nil {
				return err
			}
			return a.print(object{"revision": r.Revision, "compact_revision": r.CompactRevision}, func() {
				a.printf("%d\n", r.Revision)
			})
		}),
	}
}
