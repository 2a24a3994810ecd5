package etcd

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/concord-kv/concord/messages"
)

// authServer is etcd's Auth service, on our users, roles and grants. A permission to write
// is a right to write and to attach leases. The role "root" is built in.
type authServer struct {
	*Server
	pb.UnsafeAuthServer
}

const rootRole = "root"

// change proposes one change of users, roles or grants.
func (s *Server) change(ctx context.Context, c *messages.ChangeAuth) (*pb.ResponseHeader, error) {
	r, err := s.sessions.write(ctx, &messages.Write{Op: &messages.Write_ChangeAuth{ChangeAuth: c}})
	if err != nil {
		return nil, toStatus(err)
	}
	return s.header(r.Revision), nil
}

func (s *Server) authStatus(ctx context.Context) (*messages.AuthStatusReply, error) {
	q, err := s.sessions.query(ctx, &messages.Query{Query: &messages.Query_AuthStatus{AuthStatus: &messages.AuthStatusRequest{}}})
	return q.GetAuthStatus(), err
}

// mayAdminister refuses who has not the right to administer, before anything about the
// request is told. It is for what this endpoint does by itself; the session checks the rest.
func (s *Server) mayAdminister(ctx context.Context) error {
	a, err := s.authStatus(ctx)
	if err != nil || !a.GetEnabled() {
		return err
	}
	if slices.Contains(a.GetUser().GetRoles(), rootRole) || slices.ContainsFunc(a.GetGrants(), (*messages.Grant).GetAdmin) {
		return nil
	}
	return rpctypes.ErrGRPCPermissionDenied
}

// AuthEnable turns authorization on. There must be a user with the role root who can
// authenticate.
func (s *authServer) AuthEnable(ctx context.Context, _ *pb.AuthEnableRequest) (*pb.AuthEnableResponse, error) {
	r, err := s.sessions.write(ctx, &messages.Write{Op: &messages.Write_ChangeAuth{ChangeAuth: &messages.ChangeAuth{
		Change: &messages.ChangeAuth_Enable{Enable: &messages.EnableAuth{}},
	}}})
	switch {
	case refused(err, messages.Code_CODE_NO_ADMINISTRATOR):
		if _, missing := s.user(ctx, "root"); missing != nil {
			return nil, rpctypes.ErrGRPCRootUserNotExist
		}
		return nil, rpctypes.ErrGRPCRootRoleNotExist
	case err != nil:
		return nil, toStatus(err)
	}
	return &pb.AuthEnableResponse{Header: s.header(r.Revision)}, nil
}

// AuthDisable turns authorization off.
func (s *authServer) AuthDisable(ctx context.Context, _ *pb.AuthDisableRequest) (*pb.AuthDisableResponse, error) {
	h, err := s.change(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_Disable{Disable: &messages.DisableAuth{}}})
	if err != nil {
		return nil, err
	}
	return &pb.AuthDisableResponse{Header: h}, nil
}

// AuthStatus tells whether it is on, also to those who are nobody.
func (s *authServer) AuthStatus(ctx context.Context, _ *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	a, err := s.authStatus(ctx)
	if errors.Is(err, rpctypes.ErrGRPCUserEmpty) {
		a, err = &messages.AuthStatusReply{Enabled: true}, nil // nobody is asked for a name otherwise
	}
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.AuthStatusResponse{Header: s.header(s.cfg.Facts().Revision), Enabled: a.GetEnabled(), AuthRevision: a.GetAuthRevision()}, nil
}

// Authenticate hands out a token for a user's password.
func (s *authServer) Authenticate(ctx context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	stream, err := s.cfg.Dial(ctx, Client{})
	if err != nil {
		return nil, toStatus(err)
	}
	c := newConn(stream, nil)
	switch err := c.open("etcd authenticate", &messages.Credentials{User: r.Name, Password: r.Password}); {
	case refused(err, messages.Code_CODE_UNAUTHENTICATED) || refused(err, messages.Code_CODE_INVALID_ARGUMENT):
		return nil, rpctypes.ErrGRPCAuthFailed
	case err != nil:
		return nil, toStatus(err)
	}
	defer c.close()
	t, err := c.do(ctx, &messages.Operation{Operation: &messages.Operation_Token{Token: &messages.TokenRequest{TtlMs: s.cfg.TokenTTL.Milliseconds()}}})
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.AuthenticateResponse{Header: s.header(s.cfg.Facts().Revision), Token: t.GetToken().GetToken()}, nil
}

// hash returns what is stored of a password; empty for none.
func (s *Server) hash(password string, none bool) (string, error) {
	switch {
	case none:
		return "", nil
	case s.cfg.HashPassword == nil:
		return "", messages.NewError(messages.Code_CODE_UNSUPPORTED, "this endpoint takes no passwords")
	}
	return s.cfg.HashPassword(password)
}

// UserAdd adds a user.
func (s *authServer) UserAdd(ctx context.Context, r *pb.AuthUserAddRequest) (*pb.AuthUserAddResponse, error) {
	if r.Name == "" {
		return nil, rpctypes.ErrGRPCUserEmpty
	}
	hash, err := s.hash(r.Password, r.GetOptions().GetNoPassword())
	if err != nil {
		return nil, toStatus(err)
	}
	h, err := s.change(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_AddUser{AddUser: &messages.AddUser{Name: r.Name, PasswordHash: hash}}})
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserAddResponse{Header: h}, nil
}

func (s *Server) user(ctx context.Context, name string) (*messages.User, error) {
	q, err := s.sessions.query(ctx, &messages.Query{Query: &messages.Query_UserList{UserList: &messages.UserListRequest{Name: name}}})
	if err != nil {
		return nil, err
	}
	for _, u := range q.GetUserList().GetUsers() {
		if u.GetName() == name {
			return u, nil
		}
	}
	return nil, rpctypes.ErrGRPCUserNotFound
}

// UserGet tells the roles of a user.
func (s *authServer) UserGet(ctx context.Context, r *pb.AuthUserGetRequest) (*pb.AuthUserGetResponse, error) {
	u, err := s.user(ctx, r.Name)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.AuthUserGetResponse{Header: s.header(s.cfg.Facts().Revision), Roles: u.GetRoles()}, nil
}

// UserList names the users.
func (s *authServer) UserList(ctx context.Context, _ *pb.AuthUserListRequest) (*pb.AuthUserListResponse, error) {
	if err := s.mayAdminister(ctx); err != nil {
		return nil, toStatus(err)
	}
	resp := &pb.AuthUserListResponse{}
	for after, more := "", true; more; {
		q, err := s.sessions.query(ctx, &messages.Query{Query: &messages.Query_UserList{UserList: &messages.UserListRequest{AfterName: after}}})
		if err != nil {
			return nil, toStatus(err)
		}
		list := q.GetUserList()
		for _, u := range list.GetUsers() {
			resp.Users = append(resp.Users, u.GetName())
			after = u.GetName()
		}
		resp.Header, more = s.header(q.Revision), list.GetHasMore()
	}
	return resp, nil
}

// UserDelete deletes a user.
func (s *authServer) UserDelete(ctx context.Context, r *pb.AuthUserDeleteRequest) (*pb.AuthUserDeleteResponse, error) {
	h, err := s.change(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_DeleteUser{DeleteUser: &messages.DeleteUser{Name: r.Name}}})
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserDeleteResponse{Header: h}, nil
}

// UserChangePassword gives a user another password; the tokens of the old one are void.
func (s *authServer) UserChangePassword(ctx context.Context, r *pb.AuthUserChangePasswordRequest) (*pb.AuthUserChangePasswordResponse, error) {
	hash, err := s.hash(r.Password, false)
	if err != nil {
		return nil, toStatus(err)
	}
	h, err := s.change(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_SetPassword{SetPassword: &messages.SetPassword{Name: r.Name, PasswordHash: hash}}})
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserChangePasswordResponse{Header: h}, nil
}

// UserGrantRole gives a user a role.
func (s *authServer) UserGrantRole(ctx context.Context, r *pb.AuthUserGrantRoleRequest) (*pb.AuthUserGrantRoleResponse, error) {
	h, err := s.change(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_GrantRole{GrantRole: &messages.GrantRole{User: r.User, Role: r.Role}}})
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserGrantRoleResponse{Header: h}, nil
}

// UserRevokeRole takes it away.
func (s *authServer) UserRevokeRole(ctx context.Context, r *pb.AuthUserRevokeRoleRequest) (*pb.AuthUserRevokeRoleResponse, error) {
	u, err := s.user(ctx, r.Name)
	if err != nil {
		return nil, toStatus(err)
	}
	has := false
	for _, role := range u.GetRoles() {
		has = has || role == r.Role
	}
	if !has {
		return nil, rpctypes.ErrGRPCRoleNotGranted
	}
	h, err := s.change(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_RevokeRole{RevokeRole: &messages.RevokeRole{User: r.Name, Role: r.Role}}})
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserRevokeRoleResponse{Header: h}, nil
}

// permissionOf returns a grant as etcd's permission; nil for one that etcd has no word for.
func permissionOf(g *messages.Grant) *authpb.Permission {
	p := &authpb.Permission{}
	switch {
	case g.GetRead() && g.GetWrite():
		p.PermType = authpb.Permission_READWRITE
	case g.GetWrite():
		p.PermType = authpb.Permission_WRITE
	case g.GetRead():
		p.PermType = authpb.Permission_READ
	default:
		return nil
	}
	switch by := g.GetSelector().GetBy().(type) {
	case *messages.Selector_Key:
		p.Key = by.Key
	case *messages.Selector_Prefix:
		p.Key, p.RangeEnd = []byte{0}, []byte{0}
		if len(by.Prefix) > 0 {
			p.Key, p.RangeEnd = by.Prefix, endOfPrefix(by.Prefix)
		}
	case *messages.Selector_Range:
		p.Key, p.RangeEnd = by.Range.GetStart(), by.Range.GetEnd()
		if len(p.RangeEnd) == 0 {
			p.RangeEnd = []byte{0}
		}
	}
	return p
}

// endOfPrefix is the range_end of the keys with a prefix.
func endOfPrefix(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xFF {
			end := append([]byte(nil), prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return []byte{0}
}
