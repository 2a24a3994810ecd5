package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func (a *app) delCommand() *cobra.Command {
	var (
		sel       selection
		prev, all bool
		revision  uint64
	)
	c := &cobra.Command{
		Use:   "del KEY | del --prefix KEY | del --range START END | del --all",
		Short: "Delete keys at one revision; one key that does not exist is an error",
		Args:  cobra.MaximumNArgs(2),
	}
	c.RunE = a.with(func(ctx context.Context, s *client.Client, args []string) error {
		switch {
		case all && (sel.prefix || sel.rng || len(args) > 0):
			return messages.InvalidField("all", "not together with a key, --prefix or --range")
		case sel.prefix && !sel.rng && (len(args) == 0 || args[0] == ""):
			// As of a variable that is not set.
			return messages.InvalidField("prefix", "must not be empty; --all deletes every key")
		}
		selector, err := sel.selector(args, all)
		if err != nil {
			return err
		}
		_, one := selector.By.(*messages.Selector_Key)
		if c.Flags().Changed("if-revision") {
			if !one {
				return messages.InvalidField("if-revision", "only for one key")
			}
			r, err := s.DeleteIf(ctx, args[0], revision, client.DeleteOptions{Prev: true})
			if err != nil {
				return err
			}
			return a.printConditional(r, prev)
		}
		r, err := s.Delete(ctx, selector, client.DeleteOptions{Prev: prev})
		if err != nil {
			return err
		}
		if one && r.Deleted == 0 {
			e := messages.NewError(messages.Code_CODE_KEY_NOT_FOUND, "%s", quote([]byte(args[0]))).WithField("key")
			e.Detail.CurrentRevision = r.Revision
			return e
		}
		o := object{"revision": r.Revision, "deleted": r.Deleted, "replayed": r.Replayed}
		if prev {
			o["prev"] = recordObjects(r.Prev)
		}
		return a.print(o, func() {
			a.printf("deleted %d at revision %d\n", r.Deleted, r.Revision)
			for _, p := range r.Prev {
				a.printf("%s\t%s\n", quote(p.Key), quote(p.Value))
			}
		})
	})
	sel.flags(c, true)
	c.Flags().BoolVar(&all, "all", false, "every key there is")
	c.Flags().BoolVar(&prev, "prev", false, "print what was deleted")
	c.Flags().Uint64Var(&revision, "if-revision", 0, "only if the key was last written at this revision")
	return a.withKey(c)
}
