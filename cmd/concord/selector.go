package main

import (
	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// selection reads which keys a command is about: one key, --prefix, or --range with a
// start and an end.
type selection struct {
	prefix, rng bool
}

func (s *selection) flags(c *cobra.Command, withPrefix bool) {
	if withPrefix {
		c.Flags().BoolVar(&s.prefix, "prefix", false, "every key that begins with KEY")
	}
	c.Flags().BoolVar(&s.rng, "range", false, "the keys from START up to, not including, END")
}

// selector makes it of the arguments. Without any, all says whether every key is meant.
func (s *selection) selector(args []string, all bool) (*messages.Selector, error) {
	switch {
	case s.prefix && s.rng:
		return nil, messages.InvalidField("range", "not together with --prefix")
	case s.rng && len(args) == 2:
		return client.RangeSelector(args[0], args[1]), nil
	case s.rng:
		return nil, messages.InvalidField("range", "START and END are needed")
	case len(args) == 2:
		return nil, messages.InvalidField("arguments", "END needs --range")
	case len(args) == 0 && (all || s.prefix):
		return client.PrefixSelector(""), nil
	case len(args) == 0:
		return nil, messages.InvalidField("arguments", "a key is needed; --prefix alone is every key")
	case s.prefix:
		return client.PrefixSelector(args[0]), nil
	}
	return client.KeySelector(args[0]), nil
}
