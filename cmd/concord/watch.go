package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// eventTypes reads --type.
func eventTypes(names []string) ([]messages.EventType, error) {
	var types []messages.EventType
	for _, n := range names {
		switch n {
		case "put":
			types = append(types, messages.EventType_EVENT_TYPE_PUT)
		case "delete":
			types = append(types, messages.EventType_EVENT_TYPE_DELETE)
		default:
			return nil, messages.InvalidField("type", "%q is neither put nor delete", n)
		}
	}
	return slices.Compact(types), nil
}

func (a *app) watchCommand() *cobra.Command {
	var (
		sel   selection
		opts  client.WatchOptions
		types []string
		count int
		list  bool
		how   watchPrinting
		past  bool
	)
	c := &cobra.Command{
		Use:   "watch KEY | watch --prefix [KEY] | watch --range START END",
		Short: "Print changes as they come, until interrupted",
		Args:  cobra.MaximumNArgs(2),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			selector, err := sel.selector(args, false)
			if err != nil {
				return err
			}
			if count < 0 {
				return messages.InvalidField("count", "%d is less than 0", count)
			}
			if opts.Types, err = eventTypes(types); err != nil {
				return err
			}
			how.keysOnly, how.count = opts.KeysOnly, count
			if past {
				if opts.From != 0 || list {
					return messages.InvalidField("history", "not together with --from or --list")
				}
				if opts.After, err = oldest(ctx, s); err != nil {
					return err
				}
			}
			var w *client.Watcher
			if list {
				var r client.ListResult
				if r, w, err = s.ListAndWatch(ctx, selector, client.ListOptions{KeysOnly: opts.KeysOnly}, opts); err == nil {
					err = a.printList(r, client.ListOptions{KeysOnly: opts.KeysOnly})
				}
			} else {
				w, err = s.Watch(ctx, selector, opts)
			}
			if err != nil {
				return a.hintHistory(err)
			}
			defer w.Close()
			a.note("concord: watching from revision %d", w.Start().FromRevision)
			return a.printBatches(ctx, w, how)
		}),
	}
	sel.flags(c, true)
	f := c.Flags()
	f.Uint64Var(&opts.From, "from", 0, "first revision to print; 0 is from now, a future one waits")
	f.BoolVar(&opts.Prev, "prev", false, "with the record that was replaced (JSON)")
	f.BoolVar(&opts.KeysOnly, "keys-only", false, "print no values")
	f.StringSliceVar(&types, "type", nil, "put or delete; default both")
	f.IntVar(&count, "count", 0, "end after so many events; 0: never")
	f.BoolVar(&past, "history", false, "begin with the oldest change that is kept")
	f.BoolVar(&how.group, "group", false, "print the changes of a revision together; --count counts revisions")
	f.BoolVar(&list, "list", false, "print what is there first, and what changes from then on")
	f.BoolVar(&opts.Progress, "progress", false, "say how far the watch has come when it is idle")
	return c
}

// oldest is the position before the oldest change that can be replayed.
func oldest(ctx context.Context, s *client.Client) (*messages.Position, error) {
	status, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	return client.AfterRevision(status.GetCompactRevision()), nil
}

// hintHistory says, of changes that are gone, how to begin with those that are not.
func (a *app) hintHistory(err error) error {
	if messages.CodeOf(err) == messages.Code_CODE_COMPACTED {
		a.note("concord: --history begins with the oldest change that is kept")
	}
	return err
}

// watchPrinting is how a watch is printed.
type watchPrinting struct {
	keysOnly, group bool
	count           int // end after so many events, or revisions in groups; 0: never
}

func (a *app) printBatches(ctx context.Context, w *client.Watcher, how watchPrinting) error {
	seen := 0
	for b, err := range w.Batches(ctx) {
		if err != nil {
			return err
		}
		switch {
		case len(b.Events) == 0:
			err = a.print(object{"progress": positionObject(b.To)}, func() { a.printf("%d\tprogress\n", b.To.GetRevision()) })
		case how.group:
			err = a.printGroup(b, how)
			seen++
		default:
			for _, e := range b.Events {
				if err = a.print(eventObject(e), func() { a.printf("%s\n", eventLine(e, how.keysOnly)) }); err != nil {
					return err
				}
				if seen++; seen == how.count {
					return nil
				}
			}
		}
		if err != nil || seen > 0 && seen == how.count {
			return err
		}
	}
	return nil
}

// printGroup prints what one revision did: in JSON one object, for people a line with
// the revision and the changes below it.
func (a *app) printGroup(b client.WatchBatch, how watchPrinting) error {
	revision := b.Events[0].GetRevision()
	o := object{"revision": revision, "events": eventObjects(b.Events), "last": b.Last, "to": positionObject(b.To)}
	return a.print(o, func() {
		a.printf("%d\t%d changes\n", revision, len(b.Events))
		for _, e := range b.Events {
			a.printf("  %s\n", eventLine(e, how.keysOnly))
		}
	})
}

func (a *app) changesCommand() *cobra.Command {
	var (
		sel   selection
		opts  client.ChangesOptions
		types []string
		after uint64
		op    uint32
		past  bool
		all   bool
	)
	c := &cobra.Command{
		Use:   "changes [KEY] | changes --prefix KEY | changes --range START END",
		Short: "Print the changes after a revision and end",
		Args:  cobra.MaximumNArgs(2),
	}
	c.RunE = a.with(func(ctx context.Context, s *client.Client, args []string) error {
		selector, err := sel.selector(args, true)
		if err != nil {
			return err
		}
		if opts.Types, err = eventTypes(types); err != nil {
			return err
		}
		position := client.AfterRevision(after)
		if c.Flags().Changed("after-op") {
			position.OpIndex = op
		}
		if past {
			if after != 0 {
				return messages.InvalidField("history", "not together with --after")
			}
			if position, err = oldest(ctx, s); err != nil {
				return err
			}
		}
		for {
			r, err := s.Changes(ctx, selector, position, opts)
			if err != nil {
				return a.hintHistory(err)
			}
			o := object{"events": eventObjects(r.Events), "next": positionObject(r.Next), "has_more": r.HasMore}
			err = a.print(o, func() {
				for _, e := range r.Events {
					a.printf("%s\n", eventLine(e, opts.KeysOnly))
				}
				if r.HasMore && !all {
					a.note("concord: there is more: --after %d --after-op %d", r.Next.GetRevision(), r.Next.GetOpIndex())
				}
			})
			if err != nil || !all || !r.HasMore {
				return err
			}
			position = r.Next
		}
	})
	sel.flags(c, true)
	f := c.Flags()
	f.Uint64Var(&after, "after", 0, "the last revision that is known")
	f.Uint32Var(&op, "after-op", 0, "the last operation of that revision that is known; default all of them")
	f.BoolVar(&past, "history", false, "begin with the oldest change that is kept")
	f.BoolVar(&all, "all", false, "go on to the end, page by page; in JSON an object a page")
	f.Uint32Var(&opts.Limit, "limit", 0, "at most so many; with --all, in a page")
	f.BoolVar(&opts.KeysOnly, "keys-only", false, "print no values")
	f.BoolVar(&opts.Prev, "prev", false, "with the record that was replaced (JSON)")
	f.StringSliceVar(&types, "type", nil, "put or delete; default both")
	return c
}
