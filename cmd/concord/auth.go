package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func (a *app) authCommand() *cobra.Command {
	c := group("auth", "Who may do what: users, roles and what they grant",
		a.authEnableCommand(), a.authDisableCommand(), a.authStatusCommand(), a.authUserCommand(), a.authRoleCommand(),
		a.authGrantCommand(), a.authRevokeCommand(), a.authTokenCommand(), a.authRecoverCommand())
	c.Long = `Who may do what. To begin:

  concord auth user add root --role root --password-file FILE
  concord auth enable

and from then on every command says who it is: by a client certificate of a user's
name (--cert, --key), by --token or --token-file (CONCORD_AUTH_TOKEN), or by --user
(CONCORD_USER) and --password-file (CONCORD_PASSWORD).

Rights, each over keys, except admin:
  read   get, list, history, changes, watch, lookup, conditions, and values replaced
  write  put, del, touch
  lease  attach keys to leases; with it over any key, grant leases and keep one's own
  admin  configuration, compaction, indexes, members, backups, users, roles, audit

Locked out? concord auth recover, on a node's machine.`
	return c
}

func (a *app) authEnableCommand() *cobra.Command {
	return a.withKey(&cobra.Command{Use: "enable", Short: "Ask everybody for their rights from now on", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			r, err := s.EnableAuth(ctx)
			if err != nil {
				return err
			}
			return a.printAuth(r, "authorization is enabled")
		})})
}

func (a *app) authDisableCommand() *cobra.Command {
	return a.withKey(&cobra.Command{Use: "disable", Short: "Ask nobody; users and roles stay", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			r, err := s.DisableAuth(ctx)
			if err != nil {
				return err
			}
			return a.printAuth(r, "authorization is disabled")
		})})
}

// printAuth prints what came of a change.
func (a *app) printAuth(r *messages.AuthResult, what string) error {
	o := object{"auth_revision": r.GetAuthRevision(), "enabled": r.GetEnabled()}
	if r.GetUser() != nil {
		o["user"] = userObject(r.GetUser())
	}
	if r.GetRole() != nil {
		o["role"] = roleObject(r.GetRole())
	}
	return a.print(o, func() { a.printf("%s\n", what) })
}

func (a *app) authStatusCommand() *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Is it enabled, and who am I?", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			r, err := s.AuthStatus(ctx)
			if err != nil {
				return err
			}
			grants := make([]object, len(r.GetGrants()))
			for i, g := range r.GetGrants() {
				grants[i] = grantObject(g)
			}
			o := object{
				"enabled": r.GetEnabled(), "auth_revision": r.GetAuthRevision(), "users": r.GetUsers(), "roles": r.GetRoles(), "grants": grants,
			}
			if r.GetUser() != nil {
				o["user"] = userObject(r.GetUser())
			}
			return a.print(o, func() {
				state := "disabled"
				if r.GetEnabled() {
					state = "enabled"
				}
				a.printf("%s, %d users, %d roles\n", state, r.GetUsers(), r.GetRoles())
				if r.GetUser() != nil {
					a.printf("you are %s, roles %s\n", quote([]byte(r.GetUser().GetName())), strings.Join(r.GetUser().GetRoles(), ", "))
				}
				for _, g := range r.GetGrants() {
					a.printf("  %s\n", grantText(g))
				}
			})
		})}
}

// passwordFlags say where a new password comes from: never from the command line, which
// every process of the machine can read.
type passwordFlags struct {
	file string
	none bool
}

func (p *passwordFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&p.file, "new-password-file", "", "file with the password in its first line; default stdin")
	c.Flags().BoolVar(&p.none, "no-password", false, "none: the user shows a client certificate, or a token")
}

func (p *passwordFlags) read(a *app) (string, error) {
	if p.none {
		if p.file != "" {
			return "", messages.InvalidField("new-password-file", "not together with --no-password")
		}
		return "", nil
	}
	return a.secret(p.file, "new-password-file")
}

// secret returns the first line of a file, or of stdin.
func (a *app) secret(file, field string) (string, error) {
	in := a.in
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return "", messages.InvalidField(field, "%v", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, messages.TokenBytesMax+2))
	if err != nil {
		return "", messages.InvalidField(field, "%v", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", messages.InvalidField(field, "it is empty")
	}
	return line, nil
}

func (a *app) authTokenCommand() *cobra.Command {
	var (
		user string
		ttl  time.Duration
	)
	c := &cobra.Command{Use: "token", Short: "Print a token for oneself, or, as an administrator, for another user", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			r, err := s.IssueToken(ctx, user, ttl)
			if err != nil {
				return err
			}
			o := object{"token": r.GetToken(), "user": r.GetUser(), "expires_unix_ms": r.GetExpiresUnixMs()}
			return a.print(o, func() { a.printf("%s\n", r.GetToken()) })
		})}
	c.Flags().StringVar(&user, "for", "", "the user whose token it is; default oneself")
	c.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long it holds, at most 90 days")
	var whose string
	var everybody bool
	revoke := &cobra.Command{Use: "revoke", Short: "End the tokens of a user, or of everybody", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			if (whose == "") != everybody {
				return messages.InvalidField("for", "one of --for USER and --everybody is needed")
			}
			r, err := s.ChangeAuth(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_RevokeTokens{
				RevokeTokens: &messages.RevokeTokens{User: whose},
			}})
			if err != nil {
				return err
			}
			return a.printAuth(r, "revoked")
		})}
	revoke.Flags().StringVar(&whose, "for", "", "the user")
	revoke.Flags().BoolVar(&everybody, "everybody", false, "a new key: no token that was ever issued holds any more")
	c.AddCommand(a.withKey(revoke))
	return c
}

func grantText(g *messages.Grant) string {
	var rights []string
	for _, r := range []struct {
		on   bool
		name string
	}{{g.GetRead(), "read"}, {g.GetWrite(), "write"}, {g.GetLease(), "lease"}, {g.GetAdmin(), "admin"}} {
		if r.on {
			rights = append(rights, r.name)
		}
	}
	what := strings.Join(rights, ",")
	switch by := g.GetSelector().GetBy().(type) {
	case *messages.Selector_Key:
		return fmt.Sprintf("%s --key %s", what, quote(by.Key))
	case *messages.Selector_Prefix:
		if len(by.Prefix) == 0 {
			return what + " --all"
		}
		return fmt.Sprintf("%s --prefix %s", what, quote(by.Prefix))
	case *messages.Selector_Range:
		return fmt.Sprintf("%s --range %s %s", what, quote(by.Range.GetStart()), quote(by.Range.GetEnd()))
	}
	return what
}
