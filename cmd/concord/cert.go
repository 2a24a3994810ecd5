package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/messages"
)

// certCommand makes certificates for development. Production brings its own authority.
func (a *app) certCommand() *cobra.Command {
	var dir string
	authority := &cobra.Command{
		Use: "authority", Short: "Make an authority: ca.crt and ca.key", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ca, err := certs.NewAuthority("concord development")
			if err != nil {
				return err
			}
			return a.saved(ca.Pair(), dir, "ca")
		},
	}
	var (
		r     certs.Request
		valid time.Duration
	)
	issue := &cobra.Command{
		Use:   "issue NAME",
		Short: "Make a certificate of the authority: NAME.crt and NAME.key",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] == "" || filepath.Base(args[0]) != args[0] || args[0] == "ca" {
				return messages.InvalidField("name", "%q cannot be the name of a file beside ca", args[0])
			}
			if valid <= 0 {
				return messages.InvalidField("valid", "must be more than 0")
			}
			pair, err := certs.Load(dir, "ca")
			if err != nil {
				return messages.InvalidField("dir", "no authority: %v", err)
			}
			ca, err := certs.LoadAuthority(pair)
			if err != nil {
				return messages.InvalidField("dir", "%v", err)
			}
			r.Name, r.Valid = args[0], valid
			issued, err := ca.Issue(r)
			if err != nil {
				return messages.InvalidField("host", "%v", err)
			}
			return a.saved(issued, dir, args[0])
		},
	}
	f := issue.Flags()
	f.StringSliceVar(&r.Hosts, "host", []string{"localhost", "127.0.0.1"}, "names and addresses that the holder is dialled by")
	f.StringSliceVar(&r.Addresses, "actor-address", nil, "HOST:PORT that the holder's actors are reached at")
	f.DurationVar(&valid, "valid", 365*24*time.Hour, "how long it holds")
	c := group("cert", "Make certificates for development", authority, issue)
	c.PersistentFlags().StringVar(&dir, "dir", ".", "where the files are")
	return c
}

// saved writes a certificate and its key; it overwrites nothing.
func (a *app) saved(p certs.Pair, dir, name string) error {
	if err := p.Save(dir, name); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return messages.InvalidField("dir", "%s is there already", filepath.Join(dir, name+".key"))
		}
		return messages.InvalidField("dir", "%v", err)
	}
	cert, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	return a.print(object{"certificate": cert, "key": key}, func() { a.printf("%s\n%s\n", cert, key) })
}
