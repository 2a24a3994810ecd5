package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
)

// authRecoverCommand is the way back in: whoever can write into a node's data directory
// owns the node, and proves it by a secret there.
func (a *app) authRecoverCommand() *cobra.Command {
	var (
		dir, admin string
		disable    bool
		password   passwordFlags
	)
	c := &cobra.Command{
		Use:   "recover",
		Short: "The way back in, on a node's machine: disable, or make an administrator",
		Long: "Whoever may write into the data directory of a running node may do everything. This command puts a secret there,\n" +
			"shows it to the node at --endpoint, does one thing, and takes it away again:\n\n" +
			"  concord auth recover --data-dir DIR --disable\n" +
			"  concord auth recover --data-dir DIR --administrator root --new-password-file FILE\n\n" +
			"The user is made if there is none, gets the role root, and a new password. It leaves an audit record.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if disable == (admin != "") {
				return messages.InvalidField("disable", "one of --disable and --administrator NAME is needed")
			}
			secret := ""
			if admin != "" {
				if secret, err = password.read(a); err != nil {
					return err
				}
			}
			if _, err := os.Stat(dir); err != nil {
				return messages.InvalidField("data-dir", "%v", err)
			}
			proof := make([]byte, 32)
			rand.Read(proof) // never fails
			path := filepath.Join(dir, node.RecoveryFile)
			_ = os.Remove(path) // of an attempt that was killed
			if err := os.WriteFile(path, []byte(hex.EncodeToString(proof)), 0o600); err != nil {
				return messages.InvalidField("data-dir", "%v", err)
			}
			defer os.Remove(path)
			cfg, err := a.clientConfig()
			if err != nil {
				return err
			}
			cfg.OneShot, cfg.Settle = true, a.timeout
			cfg.Credentials = client.RecoveryCredentials([]byte(hex.EncodeToString(proof)))
			s, err := client.New(cfg)
			if err != nil {
				return err
			}
			defer s.Close()
			if disable {
				r, err := s.DisableAuth(cmd.Context())
				if err != nil {
					return err
				}
				return a.printAuth(r, "authorization is disabled")
			}
			u, err := recoverAdministrator(cmd.Context(), s, admin, secret)
			if err != nil {
				return err
			}
			return a.print(userObject(u), func() { a.printUser(u) })
		},
	}
	c.Flags().StringVar(&dir, "data-dir", "data", "the node's data directory")
	c.Flags().BoolVar(&disable, "disable", false, "disable authorization")
	c.Flags().StringVar(&admin, "administrator", "", "the user to make an administrator")
	password.add(c)
	return c
}

func recoverAdministrator(ctx context.Context, s *client.Client, name, password string) (*messages.User, error) {
	u, err := s.AddUser(ctx, name, password, messages.RootRole)
	if messages.CodeOf(err) != messages.Code_CODE_USER_EXISTS {
		return u, err
	}
	if password != "" {
		if _, err := s.SetPassword(ctx, name, password); err != nil {
			return nil, err
		}
	}
	r, err := s.ChangeAuth(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_GrantRole{GrantRole: &messages.GrantRole{User: name, Role: messages.RootRole}}})
	return r.GetUser(), err
}
