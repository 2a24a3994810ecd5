package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func (a *app) authUserCommand() *cobra.Command {
	return group("user", "Users", a.userAddCommand(), a.userPasswordCommand(), a.userListCommand(),
		a.authChange("delete NAME", "Remove a user; one who is made again is another one", 1, func(args []string) (*messages.ChangeAuth, string) {
			return &messages.ChangeAuth{Change: &messages.ChangeAuth_DeleteUser{DeleteUser: &messages.DeleteUser{Name: args[0]}}}, "deleted " + args[0]
		}),
		a.authChange("grant NAME ROLE", "Give a user a role", 2, func(args []string) (*messages.ChangeAuth, string) {
			return &messages.ChangeAuth{Change: &messages.ChangeAuth_GrantRole{GrantRole: &messages.GrantRole{User: args[0], Role: args[1]}}}, args[0] + " has " + args[1]
		}),
		a.authChange("revoke NAME ROLE", "Take a role from a user", 2, func(args []string) (*messages.ChangeAuth, string) {
			return &messages.ChangeAuth{Change: &messages.ChangeAuth_RevokeRole{RevokeRole: &messages.RevokeRole{User: args[0], Role: args[1]}}}, args[0] + " no longer has " + args[1]
		}))
}

func (a *app) authRoleCommand() *cobra.Command {
	return group("role", "Roles; root is built in, and may do everything", a.roleListCommand(),
		a.authChange("add NAME", "Make a role, which grants nothing yet", 1, func(args []string) (*messages.ChangeAuth, string) {
			return &messages.ChangeAuth{Change: &messages.ChangeAuth_AddRole{AddRole: &messages.AddRole{Name: args[0]}}}, "added " + args[0]
		}),
		a.authChange("delete NAME", "Remove a role, and take it from every user", 1, func(args []string) (*messages.ChangeAuth, string) {
			return &messages.ChangeAuth{Change: &messages.ChangeAuth_DeleteRole{DeleteRole: &messages.DeleteRole{Name: args[0]}}}, "deleted " + args[0]
		}))
}

// authChange is a command that changes one thing of who may do what.
func (a *app) authChange(use, short string, args int, make func(args []string) (*messages.ChangeAuth, string)) *cobra.Command {
	return a.withKey(&cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(args),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			change, what := make(args)
			r, err := s.ChangeAuth(ctx, change)
			if err != nil {
				return err
			}
			return a.printAuth(r, what)
		})})
}

func (a *app) userAddCommand() *cobra.Command {
	var (
		roles    []string
		password passwordFlags
	)
	c := a.withKey(&cobra.Command{Use: "add NAME", Short: "Make a user; the password comes from stdin or a file", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			secret, err := password.read(a)
			if err != nil {
				return err
			}
			u, err := s.AddUser(ctx, args[0], secret, roles...)
			if err != nil {
				return err
			}
			return a.print(userObject(u), func() { a.printUser(u) })
		})})
	c.Flags().StringArrayVar(&roles, "role", nil, "a role to begin with; may be repeated")
	password.add(c)
	return c
}

func (a *app) userPasswordCommand() *cobra.Command {
	var password passwordFlags
	c := a.withKey(&cobra.Command{Use: "password NAME", Short: "Change a password, which ends the user's tokens; one's own too", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			secret, err := password.read(a)
			if err != nil {
				return err
			}
			u, err := s.SetPassword(ctx, args[0], secret)
			if err != nil {
				return err
			}
			return a.print(userObject(u), func() { a.printUser(u) })
		})})
	password.add(c)
	return c
}

func (a *app) userListCommand() *cobra.Command {
	return &cobra.Command{Use: "list [NAME]", Short: "Print users; without the right admin oneself", Args: cobra.MaximumNArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			all, err := s.Users(ctx, strings.Join(args, ""))
			if err != nil {
				return err
			}
			for _, u := range all {
				if err := a.print(userObject(u), func() { a.printUser(u) }); err != nil {
					return err
				}
			}
			return nil
		})}
}

func (a *app) roleListCommand() *cobra.Command {
	return &cobra.Command{Use: "list [NAME]", Short: "Print roles and what they grant", Args: cobra.MaximumNArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			all, err := s.Roles(ctx, strings.Join(args, ""))
			if err != nil {
				return err
			}
			for _, r := range all {
				if err := a.print(roleObject(r), func() {
					a.printf("%s\n", quote([]byte(r.GetName())))
					for _, g := range r.GetGrants() {
						a.printf("  %s\n", grantText(g))
					}
				}); err != nil {
					return err
				}
			}
			return nil
		})}
}

// grantFlags name the keys of a grant.
type grantFlags struct {
	key, prefix string
	keyRange    bool
	all         bool
}

func (g *grantFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&g.key, "key", "", "one key")
	c.Flags().StringVar(&g.prefix, "prefix", "", "the keys with this prefix")
	c.Flags().BoolVar(&g.keyRange, "range", false, "the keys from START to before END: two more arguments")
	c.Flags().BoolVar(&g.all, "all", false, "every key; what admin needs")
}

// grant makes a grant of ROLE RIGHTS [START END] and flags.
func (g *grantFlags) grant(args []string) (*messages.Grant, error) {
	out := &messages.Grant{}
	for right := range strings.SplitSeq(args[1], ",") {
		switch right {
		case "read":
			out.Read = true
		case "write":
			out.Write = true
		case "lease":
			out.Lease = true
		case "admin":
			out.Admin = true
		default:
			return nil, messages.InvalidField("rights", "%q is none of read, write, lease and admin", right)
		}
	}
	given := 0
	for _, one := range []bool{g.key != "", g.prefix != "", g.keyRange, g.all} {
		if one {
			given++
		}
	}
	if given != 1 || g.keyRange != (len(args) == 4) {
		return nil, messages.InvalidField("selector", "one of --key KEY, --prefix PREFIX, --range with START END, and --all is needed")
	}
	switch {
	case g.key != "":
		out.Selector = &messages.Selector{By: &messages.Selector_Key{Key: []byte(g.key)}}
	case g.keyRange:
		out.Selector = &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: []byte(args[2]), End: []byte(args[3])}}}
	default:
		out.Selector = &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte(g.prefix)}}
	}
	return out, nil
}

func (a *app) authGrantCommand() *cobra.Command {
	var flags grantFlags
	c := a.withKey(&cobra.Command{Use: "grant ROLE RIGHTS [START END]", Short: "Grant a role read, write, lease (as read,write) over keys, or admin", Args: cobra.RangeArgs(2, 4),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			g, err := flags.grant(args)
			if err != nil {
				return err
			}
			r, err := s.ChangeAuth(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_GrantRights{GrantRights: &messages.GrantRights{Role: args[0], Grant: g}}})
			if err != nil {
				return err
			}
			return a.printAuth(r, args[0]+" grants "+grantText(g))
		})})
	flags.add(c)
	return c
}

func (a *app) authRevokeCommand() *cobra.Command {
	var flags grantFlags
	c := a.withKey(&cobra.Command{Use: "revoke ROLE RIGHTS [START END]", Short: "Take rights over exactly these keys from a role", Args: cobra.RangeArgs(2, 4),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			g, err := flags.grant(args)
			if err != nil {
				return err
			}
			r, err := s.ChangeAuth(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_RevokeRights{RevokeRights: &messages.RevokeRights{Role: args[0], Grant: g}}})
			if err != nil {
				return err
			}
			return a.printAuth(r, args[0]+" no longer grants "+grantText(g))
		})})
	flags.add(c)
	return c
}

func userObject(u *messages.User) object {
	roles := u.GetRoles()
	if roles == nil {
		roles = []string{}
	}
	return object{"name": u.GetName(), "id": u.GetId(), "roles": roles, "has_password": u.GetHasPassword(), "credential_revision": u.GetCredentialRevision()}
}

func (a *app) printUser(u *messages.User) {
	password := "no password"
	if u.GetHasPassword() {
		password = "password"
	}
	a.printf("%s\t%s\t%s\n", quote([]byte(u.GetName())), password, strings.Join(u.GetRoles(), ","))
}

func roleObject(r *messages.Role) object {
	grants := make([]object, len(r.GetGrants()))
	for i, g := range r.GetGrants() {
		grants[i] = grantObject(g)
	}
	return object{"name": r.GetName(), "grants": grants}
}

func grantObject(g *messages.Grant) object {
	o := object{"read": g.GetRead(), "write": g.GetWrite(), "lease": g.GetLease(), "admin": g.GetAdmin()}
	switch by := g.GetSelector().GetBy().(type) {
	case *messages.Selector_Key:
		o.setBytes("key", by.Key)
	case *messages.Selector_Prefix:
		o.setBytes("prefix", by.Prefix)
	case *messages.Selector_Range:
		o.setBytes("start", by.Range.GetStart())
		o.setBytes("end", by.Range.GetEnd())
	}
	return o
}
