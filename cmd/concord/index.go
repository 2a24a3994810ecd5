package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func (a *app) indexCommand() *cobra.Command {
	return group("index", "Secondary indexes over JSON values",
		a.indexCreateCommand(), a.indexDropCommand(), a.indexListCommand(), a.indexLookupCommand())
}

func (a *app) indexCreateCommand() *cobra.Command {
	var (
		prefix string
		x      extractorFlags
	)
	c := &cobra.Command{Use: "create NAME", Short: "Index the whole value, or a part of a JSON value", Args: cobra.ExactArgs(1)}
	c.RunE = a.with(func(ctx context.Context, s *client.Client, args []string) error {
		extractor, err := x.extractor(c)
		if err != nil {
			return err
		}
		i, err := s.CreateIndex(ctx, &messages.IndexDefinition{Name: args[0], Prefix: []byte(prefix), Extractor: extractor})
		if err != nil {
			return err
		}
		return a.print(indexObject(i), func() { a.printIndex(i) })
	})
	c.Flags().StringVar(&prefix, "prefix", "", "index keys with this prefix; default every key")
	c.Flags().StringVar(&x.field, "field", "", "one member of a JSON object")
	c.Flags().StringVar(&x.path, "path", "", "members of nested JSON objects, as a.b.c")
	c.Flags().Uint32Var(&x.element, "element", 0, "one element of a JSON array, from 0")
	return a.withKey(c)
}

func (a *app) indexDropCommand() *cobra.Command {
	return a.withKey(&cobra.Command{Use: "drop NAME", Short: "Remove an index", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			if _, err := s.DropIndex(ctx, args[0]); err != nil {
				return err
			}
			return a.print(object{"dropped": args[0]}, func() { a.printf("dropped %s\n", args[0]) })
		})})
}

func indexObject(i *messages.IndexInfo) object {
	d := i.GetDefinition()
	o := object{"name": d.GetName(), "extractor": extractorText(d.GetExtractor()), "building": i.GetBuilding(), "entries": i.GetEntries()}
	o.setBytes("prefix", d.GetPrefix())
	return o
}

func extractorText(x *messages.Extractor) string {
	switch by := x.GetBy().(type) {
	case *messages.Extractor_Field:
		return "field " + by.Field
	case *messages.Extractor_Path_:
		return "path " + strings.Join(by.Path.GetNames(), ".")
	case *messages.Extractor_Element:
		return "element " + number(uint64(by.Element))
	}
	return "identity"
}

func (a *app) printIndex(i *messages.IndexInfo) {
	d := i.GetDefinition()
	state := "ready"
	if i.GetBuilding() {
		state = "building"
	}
	a.printf("%s\tprefix %s\t%s\t%s\t%d entries\n", quote([]byte(d.GetName())), quote(d.GetPrefix()), extractorText(d.GetExtractor()), state, i.GetEntries())
}

func (a *app) indexListCommand() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the indexes", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			indexes, err := s.Indexes(ctx)
			if err != nil {
				return err
			}
			objects := make([]object, len(indexes))
			for n, i := range indexes {
				objects[n] = indexObject(i)
			}
			return a.print(object{"indexes": objects}, func() {
				for _, i := range indexes {
					a.printIndex(i)
				}
			})
		})}
}

func (a *app) indexLookupCommand() *cobra.Command {
	var (
		opts            client.LookupOptions
		equal, low, top string
		after           string
	)
	c := &cobra.Command{
		Use:   "lookup NAME (--equal JSON | --min JSON --max JSON)",
		Short: "Find records by an indexed value, written as JSON: '\"text\"', 7, true",
		Args:  cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			for _, v := range []struct {
				name, text string
				to         *[]byte
			}{{"equal", equal, &opts.Equal}, {"min", low, &opts.Min}, {"max", top, &opts.Max}} {
				if v.text == "" {
					continue
				}
				if !json.Valid([]byte(v.text)) {
					return messages.InvalidField(v.name, "%s is not JSON; text needs quotes of its own", v.text)
				}
				*v.to = []byte(v.text)
			}
			var err error
			if opts.After, err = base64.StdEncoding.DecodeString(after); err != nil {
				return messages.InvalidField("after", "not what an answer gave")
			}
			r, err := s.Lookup(ctx, args[0], opts)
			if err != nil {
				return err
			}
			o := object{"records": recordObjects(r.Records), "has_more": r.HasMore, "revision": r.Revision}
			if r.HasMore {
				o["after"] = base64.StdEncoding.EncodeToString(r.After)
			}
			return a.print(o, func() {
				for _, rec := range r.Records {
					a.printLine(rec, opts.KeysOnly)
				}
				if r.HasMore {
					a.note("concord: there is more: --after %s", base64.StdEncoding.EncodeToString(r.After))
				}
			})
		}),
	}
	f := c.Flags()
	f.StringVar(&equal, "equal", "", "this value")
	f.StringVar(&low, "min", "", "this value or more")
	f.StringVar(&top, "max", "", "less than this value")
	f.Uint32Var(&opts.Limit, "limit", 0, "at most so many")
	f.BoolVar(&opts.KeysOnly, "keys-only", false, "print no values")
	f.StringVar(&after, "after", "", "continue, with what the last answer gave")
	return c
}
