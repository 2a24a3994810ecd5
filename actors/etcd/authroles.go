package etcd

import (
	"bytes"
	"context"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/concord-kv/concord/messages"
)

// RoleAdd adds a role. "root" is there already: adding it changes nothing.
func (s *authServer) RoleAdd(ctx context.Context, r *pb.AuthRoleAddRequest) (*pb.AuthRoleAddResponse, error) {
	switch r.Name {
	case "":
		return nil, rpctypes.ErrGRPCRoleEmpty
	case rootRole:
		return &pb.AuthRoleAddResponse{Header: s.header(s.cfg.Facts().Revision)}, nil
	}
	h, err := s.change(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_AddRole{AddRole: &messages.AddRole{Name: r.Name}}})
	if err != nil {
		return nil, err
	}
	return &pb.AuthRoleAddResponse{Header: h}, nil
}

func (s *Server) role(ctx context.Context, name string) (*messages.Role, error) {
	q, err := s.sessions.query(ctx, &messages.Query{Query: &messages.Query_RoleList{RoleList: &messages.RoleListRequest{Name: name}}})
	if err != nil {
		return nil, err
	}
	for _, r := range q.GetRoleList().GetRoles() {
		if r.GetName() == name {
			return r, nil
		}
	}
	return nil, rpctypes.ErrGRPCRoleNotFound
}

// RoleGet tells the permissions of a role.
func (s *authServer) RoleGet(ctx context.Context, r *pb.AuthRoleGetRequest) (*pb.AuthRoleGetResponse, error) {
	resp := &pb.AuthRoleGetResponse{Header: s.header(s.cfg.Facts().Revision)}
	if r.Role == rootRole {
		resp.Perm = []*authpb.Permission{{PermType: authpb.Permission_READWRITE, RangeEnd: []byte{0}}}
		return resp, nil
	}
	role, err := s.role(ctx, r.Role)
	if err != nil {
		return nil, toStatus(err)
	}
	for _, g := range role.GetGrants() {
		if p := permissionOf(g); p != nil {
			resp.Perm = append(resp.Perm, p)
		}
	}
	return resp, nil
}

// RoleList names the roles.
func (s *authServer) RoleList(ctx context.Context, _ *pb.AuthRoleListRequest) (*pb.AuthRoleListResponse, error) {
	if err := s.mayAdminister(ctx); err != nil {
		return nil, toStatus(err)
	}
	resp := &pb.AuthRoleListResponse{}
	for after, more := "", true; more; {
		q, err := s.sessions.query(ctx, &messages.Query{Query: &messages.Query_RoleList{RoleList: &messages.RoleListRequest{AfterName: after}}})
		if err != nil {
			return nil, toStatus(err)
		}
		list := q.GetRoleList()
		for _, r := range list.GetRoles() {
			resp.Roles = append(resp.Roles, r.GetName())
			after = r.GetName()
		}
		resp.Header, more = s.header(q.Revision), list.GetHasMore()
	}
	return resp, nil
}

// RoleDelete deletes a role, and takes it from every user.
func (s *authServer) RoleDelete(ctx context.Context, r *pb.AuthRoleDeleteRequest) (*pb.AuthRoleDeleteResponse, error) {
	if r.Role == rootRole {
		if err := s.mayAdminister(ctx); err != nil {
			return nil, toStatus(err)
		}
		return nil, rpctypes.ErrGRPCInvalidAuthMgmt
	}
	h, err := s.change(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_DeleteRole{DeleteRole: &messages.DeleteRole{Name: r.Role}}})
	if err != nil {
		return nil, err
	}
	return &pb.AuthRoleDeleteResponse{Header: h}, nil
}

// RoleGrantPermission gives a role a permission over a range, in place of the one that it
// has over exactly that range.
func (s *authServer) RoleGrantPermission(ctx context.Context, r *pb.AuthRoleGrantPermissionRequest) (*pb.AuthRoleGrantPermissionResponse, error) {
	if r.Perm == nil {
		return nil, rpctypes.ErrGRPCPermissionNotGiven
	}
	sel, empty := grantSelector(r.Perm.Key, r.Perm.RangeEnd)
	if empty || len(r.Perm.Key) == 0 {
		return nil, rpctypes.ErrGRPCInvalidAuthMgmt
	}
	read, write := r.Perm.PermType != authpb.Permission_WRITE, r.Perm.PermType != authpb.Permission_READ
	h, err := s.change(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_GrantRights{GrantRights: &messages.GrantRights{
		Role: r.Name, Grant: &messages.Grant{Selector: sel, Read: read, Write: write, Lease: write},
	}}})
	if err == nil && (!read || !write) {
		// Ours add up; etcd's replace.
		h, err = s.change(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_RevokeRights{RevokeRights: &messages.RevokeRights{
			Role: r.Name, Grant: &messages.Grant{Selector: sel, Read: !read, Write: !write, Lease: !write},
		}}})
	}
	if err != nil {
		return nil, err
	}
	return &pb.AuthRoleGrantPermissionResponse{Header: h}, nil
}

// grantSelector is selectorOf for permissions: every key has one form only.
func grantSelector(key, end []byte) (*messages.Selector, bool) {
	if everything(end) && bytes.Equal(key, []byte{0}) {
		return &messages.Selector{By: &messages.Selector_Prefix{}}, false
	}
	return selectorOf(key, end)
}

// RoleRevokePermission takes the permission over exactly a range away.
func (s *authServer) RoleRevokePermission(ctx context.Context, r *pb.AuthRoleRevokePermissionRequest) (*pb.AuthRoleRevokePermissionResponse, error) {
	role, err := s.role(ctx, r.Role)
	if err != nil {
		return nil, toStatus(err)
	}
	for _, g := range role.GetGrants() {
		p := permissionOf(g)
		if p == nil || !bytes.Equal(p.Key, r.Key) || !bytes.Equal(p.RangeEnd, r.RangeEnd) {
			continue
		}
		h, err := s.change(ctx, &messages.ChangeAuth{Change: &messages.ChangeAuth_RevokeRights{RevokeRights: &messages.RevokeRights{
			Role: r.Role, Grant: &messages.Grant{Selector: g.Selector, Read: true, Write: true, Lease: true},
		}}})
		if err != nil {
			return nil, err
		}
		return &pb.AuthRoleRevokePermissionResponse{Header: h}, nil
	}
	return nil, rpctypes.ErrGRPCPermissionNotGranted
}
