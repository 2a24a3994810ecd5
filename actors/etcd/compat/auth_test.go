package compat

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// guarded is a server, etcd's or ours, whose authorization is under test.
type guarded struct {
	conn   *grpc.ClientConn
	auth   pb.AuthClient
	tokens map[string]string // by user
}

func newGuarded(c *grpc.ClientConn) *guarded {
	return &guarded{c, pb.NewAuthClient(c), map[string]string{}}
}

// as is the context of a call of a user; "" is nobody, "forged" has a token that nobody
// was given.
func (g *guarded) as(ctx context.Context, user string) context.Context {
	token := g.tokens[user]
	if user == "forged" {
		token = "forged.1"
	}
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}

// shown is what a call came to, without what always differs.
func shown(m proto.Message, err error) string {
	if err != nil {
		s := status.Convert(err)
		return s.Code().String() + ": " + s.Message()
	}
	switch r := m.(type) {
	case *pb.AuthRoleGetResponse:
		return fmt.Sprint("ok ", r.Perm)
	case *pb.AuthUserGetResponse:
		return fmt.Sprint("ok ", r.Roles)
	case *pb.AuthUserListResponse:
		return fmt.Sprint("ok ", r.Users)
	case *pb.AuthRoleListResponse:
		return fmt.Sprint("ok ", r.Roles)
	case *pb.AuthStatusResponse:
		return fmt.Sprint("ok ", r.Enabled)
	}
	return "ok"
}

// authCalls are one after the other: how users, roles and permissions come and go. Those
// of after are made with authorization enabled, by root.
var authCalls = []struct {
	name string
	call func(ctx context.Context, a pb.AuthClient) (proto.Message, error)
}{
	{"disable before", func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.AuthDisable(ctx, &pb.AuthDisableRequest{})
	}},
	{"status", func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.AuthStatus(ctx, &pb.AuthStatusRequest{})
	}},
	{"authenticate before", func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.Authenticate(ctx, &pb.AuthenticateRequest{Name: "root", Password: "rootpassword"})
	}},
	{"enable without root", enable},
	{"a user without a name", userAdd("", "password1")},
	{"root", userAdd("root", "rootpassword")},
	{"root twice", userAdd("root", "rootpassword")},
	{"enable without the role", enable},
	{"a role that is not", grantRole("root", "nothing")},
	{"a user that is not", grantRole("nobody", "root")},
	{"role root", roleAdd("root")},
	{"root to root", grantRole("root", "root")},
	{"root to root twice", grantRole("root", "root")},
	{"a role without a name", roleAdd("")},
	{"writer", roleAdd("writer")},
	{"writer twice", roleAdd("writer")},
	{"reader", roleAdd("reader")},
	{"get a role that is not", roleGet("nothing")},
	{"delete a role that is not", roleDelete("nothing")},
	{"get a user that is not", userGet("nobody")},
	{"delete a user that is not", userDelete("nobody")},
	{"a password of nobody", func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.UserChangePassword(ctx, &pb.AuthUserChangePasswordRequest{Name: "nobody", Password: "password1"})
	}},
	{"permission of no role", grantPermission("nothing", authpb.Permission_READ, "/w/", "/w0")},
	{"no permission", func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{Name: "writer"})
	}},
	{"read over a range", grantPermission("writer", authpb.Permission_READ, "/w/", "/w0")},
	{"read, write in its place", grantPermission("writer", authpb.Permission_READWRITE, "/w/", "/w0")},
	{"write in its place", grantPermission("writer", authpb.Permission_WRITE, "/w/", "/w0")},
	{"read, write again", grantPermission("writer", authpb.Permission_READWRITE, "/w/", "/w0")},
	{"one key", grantPermission("writer", authpb.Permission_WRITE, "/one", "")},
	{"from a key on", grantPermission("writer", authpb.Permission_READ, "/z", "\x00")},
	{"get", roleGet("writer")},
	{"revoke one key", revokePermission("writer", "/one", "")},
	{"revoke from a key on", revokePermission("writer", "/z", "\x00")},
	{"revoke what is not", revokePermission("writer", "/other", "")},
	{"revoke of no role", revokePermission("nothing", "/w/", "/w0")},
	{"get again", roleGet("writer")},
	{"an empty range", grantPermission("writer", authpb.Permission_READ, "b", "a")},
	{"an empty range of no role", grantPermission("nothing", authpb.Permission_READ, "b", "a")},
	{"no key", grantPermission("writer", authpb.Permission_READ, "", "\x00")},
	{"reader's", grantPermission("reader", authpb.Permission_READ, "/w/", "/w0")},
	{"get reader", roleGet("reader")},
	{"ann", userAdd("ann", "annspassword")},
	{"bob", userAdd("bob", "bobspassword")},
	{"carl", userAdd("carl", "carlspassword")},
	{"ann writes", grantRole("ann", "writer")},
	{"bob reads", grantRole("bob", "reader")},
	{"ann has it", userGet("ann")},
	{"revoke what bob has not", func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.UserRevokeRole(ctx, &pb.AuthUserRevokeRoleRequest{Name: "bob", Role: "writer"})
	}},
	{"users", func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.UserList(ctx, &pb.AuthUserListRequest{})
	}},
	{"enable", enable},
}

func enable(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
	return a.AuthEnable(ctx, &pb.AuthEnableRequest{})
}

type authCall = func(ctx context.Context, a pb.AuthClient) (proto.Message, error)

func userAdd(name, password string) authCall {
	return func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.UserAdd(ctx, &pb.AuthUserAddRequest{Name: name, Password: password, Options: &authpb.UserAddOptions{}})
	}
}

func userGet(name string) authCall {
	return func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.UserGet(ctx, &pb.AuthUserGetRequest{Name: name})
	}
}

func userDelete(name string) authCall {
	return func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.UserDelete(ctx, &pb.AuthUserDeleteRequest{Name: name})
	}
}

func grantRole(user, role string) authCall {
	return func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: user, Role: role})
	}
}

func roleAdd(name string) authCall {
	return func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: name})
	}
}

func roleGet(name string) authCall {
	return func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.RoleGet(ctx, &pb.AuthRoleGetRequest{Role: name})
	}
}

func roleDelete(name string) authCall {
	return func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.RoleDelete(ctx, &pb.AuthRoleDeleteRequest{Role: name})
	}
}

func grantPermission(role string, kind authpb.Permission_Type, key, end string) authCall {
	return func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{
			Name: role, Perm: &authpb.Permission{PermType: kind, Key: []byte(key), RangeEnd: []byte(end)},
		})
	}
}

func revokePermission(role, key, end string) authCall {
	return func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.RoleRevokePermission(ctx, &pb.AuthRoleRevokePermissionRequest{Role: role, Key: []byte(key), RangeEnd: []byte(end)})
	}
}

// authDiffers are the calls that we answer otherwise, ours first, then etcd's. With us a
// lease costs a right to attach keys, others' leases are only for whoever may read all
// their keys, and a list of leases leaves out those of others.
var authDiffers = func() map[string][2]string {
	const denied = "PermissionDenied: etcdserver: permission denied"
	d := map[string][2]string{}
	for _, user := range []string{"ann", "bob", "carl"} {
		d["what is left of others' lease as "+user] = [2]string{denied, "ok"}
		d["leases as "+user] = [2]string{"ok", denied}
		if user != "ann" {
			d["grant a lease as "+user] = [2]string{denied, "ok"}
		}
	}
	return d
}()

// TestAuthLikeEtcd makes the same calls to etcd and to us, then asks each verb as each
// kind of user: codes and messages are the same.
func TestAuthLikeEtcd(t *testing.T) {
	ctx := deadline(t, 3*time.Minute)
	we, they := newGuarded(dial(t, startNode(t).EtcdAddr())), newGuarded(dial(t, startEtcd(t, t.Chdir, true)))
	for _, c := range authCalls {
		compareShown(t, c.name, shown2(c.call(ctx, we.auth)), shown2(c.call(ctx, they.auth)))
	}
	for user, password := range map[string]string{"root": "rootpassword", "ann": "annspassword", "bob": "bobspassword", "carl": "carlspassword"} {
		for _, g := range []*guarded{we, they} {
			g.tokens[user] = need(g.auth.Authenticate(ctx, &pb.AuthenticateRequest{Name: user, Password: password}))(t).Token
		}
	}
	for _, bad := range []*pb.AuthenticateRequest{{Name: "ann", Password: "another"}, {Name: "nobody", Password: "annspassword"}, {Name: "ann"}, {}} {
		compareShown(t, fmt.Sprint("authenticate ", bad), shown2(we.auth.Authenticate(ctx, bad)), shown2(they.auth.Authenticate(ctx, bad)))
	}
	leases := map[*guarded]int64{}
	for _, g := range []*guarded{we, they} {
		root := g.as(ctx, "root")
		leases[g] = need(pb.NewLeaseClient(g.conn).LeaseGrant(root, &pb.LeaseGrantRequest{TTL: 600, ID: 77}))(t).ID
		need(pb.NewKVClient(g.conn).Put(root, &pb.PutRequest{Key: []byte("/other/leased"), Lease: leases[g]}))(t)
		need(pb.NewKVClient(g.conn).Put(root, &pb.PutRequest{Key: []byte("/w/1"), Value: []byte("v")}))(t)
	}
	for _, verb := range guardedVerbs {
		for _, user := range []string{"ann", "bob", "carl", "", "forged", "root"} {
			got, want := shown2(verb.call(we.as(ctx, user), we.conn)), shown2(verb.call(they.as(ctx, user), they.conn))
			compareShown(t, verb.name+" as "+user, got, want)
		}
	}
	for _, g := range []*guarded{we, they} {
		need(g.auth.AuthDisable(g.as(ctx, "root"), &pb.AuthDisableRequest{}))(t)
		need(pb.NewKVClient(g.conn).Range(ctx, &pb.RangeRequest{Key: []byte("/w/1")}))(t)
	}
}

func shown2[M proto.Message](m M, err error) string { return shown(m, err) }

func compareShown(t *testing.T, name, got, want string) {
	t.Helper()
	if d, ok := authDiffers[name]; ok {
		if got != d[0] || want != d[1] {
			t.Errorf("%s: we say %q, etcd %q, not as it is written down: %q", name, got, want, d)
		}
		return
	}
	if got != want {
		t.Errorf("%s: we say %q, etcd %q", name, got, want)
	}
}
