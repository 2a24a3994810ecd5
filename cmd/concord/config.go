package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "The replicated configuration", a.configGetCommand(), a.configSetCommand(),
		group("cluster", "The same: this configuration is the cluster's", a.configGetCommand(), a.configSetCommand()))
}

func (a *app) configGetCommand() *cobra.Command {
	return &cobra.Command{Use: "get [NAME...]", Short: "Print settings; all of them without a name", Args: cobra.ArbitraryArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			for _, name := range args {
				if _, err := settingOf(name); err != nil {
					return err
				}
			}
			c, err := s.ClusterConfig(ctx)
			if err != nil {
				return err
			}
			return a.printConfig(c, args)
		})}
}

func (a *app) configSetCommand() *cobra.Command {
	return a.withKey(&cobra.Command{
		Use:   "set NAME=VALUE...",
		Short: "Change settings, all at once; protected_prefixes=A,B replaces the list",
		Args:  cobra.MinimumNArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			c := &messages.ClusterConfig{}
			var names []string
			for _, arg := range args {
				name, value, ok := strings.Cut(arg, "=")
				if !ok {
					return messages.InvalidField("arguments", "%q is not NAME=VALUE", arg)
				}
				if err := setSetting(c, name, value); err != nil {
					return err
				}
				names = append(names, name)
			}
			all, err := s.SetClusterConfig(ctx, c, names...)
			if err != nil {
				return err
			}
			return a.printConfig(all, names)
		})})
}

func settingOf(name string) (protoreflect.FieldDescriptor, error) {
	f := (*messages.ClusterConfig)(nil).ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
	if f == nil {
		if name == "" {
			name = "arguments"
		}
		return nil, messages.InvalidField(name, "no setting has this name")
	}
	return f, nil
}

func setSetting(c *messages.ClusterConfig, name, value string) error {
	f, err := settingOf(name)
	if err != nil {
		return err
	}
	if f.IsList() {
		for p := range strings.SplitSeq(value, ",") {
			if p != "" {
				c.ProtectedPrefixes = append(c.ProtectedPrefixes, &messages.ProtectedPrefix{Prefix: []byte(p)})
			}
		}
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return messages.InvalidField(name, "%q is not a whole number from 0", value)
	}
	v := protoreflect.ValueOfUint64(uint64(n))
	if f.Kind() == protoreflect.Int64Kind {
		v = protoreflect.ValueOfInt64(n)
	}
	c.ProtoReflect().Set(f, v)
	return nil
}

// printConfig prints the named settings, all of them without a name.
func (a *app) printConfig(c *messages.ClusterConfig, names []string) error {
	o := object{}
	fields := c.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := string(f.Name())
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		v := c.ProtoReflect().Get(f).Interface()
		if f.IsList() {
			v = prefixObjects(c.ProtectedPrefixes)
		}
		o[name] = v
		if !a.json() {
			if f.IsList() {
				v = prefixText(c.ProtectedPrefixes)
			}
			a.printf("%s=%v\n", name, v)
		}
	}
	if !a.json() {
		return nil
	}
	return a.printJSON(o)
}

func prefixObjects(prefixes []*messages.ProtectedPrefix) []object {
	all := make([]object, len(prefixes))
	for i, p := range prefixes {
		all[i] = object{"floor": p.GetFloor()}
		all[i].setBytes("prefix", p.GetPrefix())
	}
	return all
}

func prefixText(prefixes []*messages.ProtectedPrefix) string {
	var all []string
	for _, p := range prefixes {
		all = append(all, quote(p.GetPrefix()))
	}
	return strings.Join(all, ",")
}
