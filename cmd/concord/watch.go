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
			if opts.Types, err = eventTypes(types); err != nil {
				return err
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
				return err
			}
			defer w.Close()
			a.note("concord: watching from revision %d", w.Start().FromRevision)
			return a.printBatches(ctx, w, count, opts)
		}),
	}
	sel.flags(c, true)
	f := c.Flags()
	f.Uint64Var(&opts.From, "from", 0, "first revision to print; 0 is from now, a future one waits")
	f.BoolVar(&opts.Prev, "prev", false, "with the record that was replaced (JSON)")
	f.BoolVar(&opts.KeysOnly, "keys-only", false, "print no values")
	f.StringSliceVar(&types, "type", nil, "put or delete; default both")
	f.IntVar(&count, "count", 0, "end after so many events; 0: never")
	f.BoolVar(&list, "list", false, "print what is there first, and what changes from then on")
	f.BoolVar(&opts.Progress, "progress", false, "say how far the watch has come when it is idle")
	return c
}

func (a *app) printBatches(ctx context.Context, w *client.Watcher, count int, opts client.WatchOptions) error {
	seen := 0
	for b, err := range w.Batches(ctx) {
		if err != nil {
			return err
		}
		for _, e := range b.Events {
			if err := a.print(eventObject(e), func() { a.printf("%s\n", eventLine(e, opts.KeysOnly)) }); err != nil {
				return err
			}
			if seen++; seen == count {
				return nil
			}
		}
		if len(b.Events) == 0 {
			err := a.print(object{"progress": positionObject(b.To)}, func() { a.printf("%d\tprogress\n", b.To.GetRevision()) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *app) changesCommand() *cobra.Command {
	var (
		sel   selection
		opts  client.ChangesOptions
		types []string
		after uint64
		op    uint32
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
		r, err := s.Changes(ctx, selector, position, opts)
		if err != nil {
			return err
		}
		o := object{"events": eventObjects(r.Events), "next": positionObject(r.Next), "has_more": r.HasMore}
		return a.print(o, func() {
			for _, e := range r.Events {
				a.printf("%s\n", eventLine(e, opts.KeysOnly))
			}
			if r.HasMore {
				a.note("concord: there is more: --after %d --after-op %d", r.Next.GetRevision(), r.Next.GetOpIndex())
			}
		})
	})
	sel.flags(c, true)
	f := c.Flags()
	f.Uint64Var(&after, "after", 0, "the last revision that is known")
	f.Uint32Var(&op, "after-op", 0, "the last operation of that revision that is known; default all of them")
	f.Uint32Var(&opts.Limit, "limit", 0, "at most so many")
	f.BoolVar(&opts.KeysOnly, "keys-only", false, "print no values")
	f.BoolVar(&opts.Prev, "prev", false, "with the record that was replaced (JSON)")
	f.StringSliceVar(&types, "type", nil, "put or delete; default both")
	return c
}
