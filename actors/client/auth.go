package client

import (
	"context"
	"time"

	"github.com/concord-kv/concord/cluster/credential"
	"github.com/concord-kv/concord/messages"
)

// ChangeAuth changes one thing of who may do what. Refusals: permission_denied without
// the right admin; user_exists, user_not_found, role_exists, role_not_found with the
// field; no_administrator where nobody could administer the cluster any more.
func (c *Client) ChangeAuth(ctx context.Context, change *messages.ChangeAuth) (*messages.AuthResult, error) {
	r, err := c.Write(ctx, &messages.Write{Op: &messages.Write_ChangeAuth{ChangeAuth: change}})
	if err != nil {
		return nil, err
	}
	return r.GetAuth(), nil
}

// EnableAuth begins to ask everybody for their rights, at once, on open connections too.
func (c *Client) EnableAuth(ctx context.Context) (*messages.AuthResult, error) {
	return c.ChangeAuth(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_Enable{Enable: &messages.EnableAuth{}}})
}

// DisableAuth lets everybody do everything. Users and roles stay.
func (c *Client) DisableAuth(ctx context.Context) (*messages.AuthResult, error) {
	return c.ChangeAuth(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_Disable{Disable: &messages.DisableAuth{}}})
}

// AddUser makes a user; without a password it is who shows a client certificate of this
// name. The password is hashed here: it does not leave the process.
func (c *Client) AddUser(ctx context.Context, name, password string, roles ...string) (*messages.User, error) {
	a := &messages.AddUser{Name: name, Roles: roles}
	if password != "" {
		hash, err := credential.HashPassword(password, 0)
		if err != nil {
			return nil, err
		}
		a.PasswordHash = hash
	}
	r, err := c.ChangeAuth(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_AddUser{AddUser: a}})
	return r.GetUser(), err
}

// SetPassword gives a user a new password, or with "" none, and ends their tokens.
func (c *Client) SetPassword(ctx context.Context, name, password string) (*messages.User, error) {
	s := &messages.SetPassword{Name: name}
	if password != "" {
		hash, err := credential.HashPassword(password, 0)
		if err != nil {
			return nil, err
		}
		s.PasswordHash = hash
	}
	r, err := c.ChangeAuth(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_SetPassword{SetPassword: s}})
	return r.GetUser(), err
}

// IssueToken returns a token for a user: "" is whoever the client is; for others the
// right admin is needed. ttl 0 is an hour, at most 90 days. A client that has shown a
// token itself gets none that outlives it.
func (c *Client) IssueToken(ctx context.Context, user string, ttl time.Duration) (*messages.TokenReply, error) {
	request := &messages.TokenRequest{User: user, TtlMs: ttl.Milliseconds()}
	if err := messages.ValidateTokenRequest(request); err != nil {
		return nil, err
	}
	r, err := c.do(ctx, &messages.Operation{Operation: &messages.Operation_Token{Token: request}})
	if err != nil {
		return nil, err
	}
	return r.GetToken(), nil
}

// AuthStatus says whether authorization is enabled, and who the client is to it.
func (c *Client) AuthStatus(ctx context.Context) (*messages.AuthStatusReply, error) {
	r, err := c.Query(ctx, &messages.Query{Query: &messages.Query_AuthStatus{AuthStatus: &messages.AuthStatusRequest{}}})
	return r.GetAuthStatus(), err
}

// Users lists users by name, all of them; with a name that one, or user_not_found.
func (c *Client) Users(ctx context.Context, name string) (all []*messages.User, err error) {
	request := &messages.UserListRequest{Name: name}
	for {
		r, err := c.Query(ctx, &messages.Query{Query: &messages.Query_UserList{UserList: request}})
		if err != nil {
			return nil, err
		}
		page := r.GetUserList()
		all = append(all, page.GetUsers()...)
		if !page.GetHasMore() || len(page.GetUsers()) == 0 {
			return all, nil
		}
		request = &messages.UserListRequest{AfterName: all[len(all)-1].GetName()}
	}
}

// Roles lists roles by name, all of them; with a name that one, or role_not_found.
func (c *Client) Roles(ctx context.Context, name string) (all []*messages.Role, err error) {
	request := &messages.RoleListRequest{Name: name}
	for {
		r, err := c.Query(ctx, &messages.Query{Query: &messages.Query_RoleList{RoleList: request}})
		if err != nil {
			return nil, err
		}
		page := r.GetRoleList()
		all = append(all, page.GetRoles()...)
		if !page.GetHasMore() || len(page.GetRoles()) == 0 {
			return all, nil
		}
		request = &messages.RoleListRequest{AfterName: all[len(all)-1].GetName()}
	}
}

// Audit lists audit records: one page.
func (c *Client) Audit(ctx context.Context, request *messages.AuditRequest) (*messages.AuditReply, error) {
	r, err := c.Query(ctx, &messages.Query{Query: &messages.Query_Audit{Audit: request}})
	return r.GetAudit(), err
}
