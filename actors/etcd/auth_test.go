package etcd_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/cluster/certs"
)

// TestAuthEnable: authorization is enabled once root is there and has its role; a
// permission over a range takes the place of the one before.
func TestAuthEnable(t *testing.T) {
	g := startGuarded(t)
	if _, err := g.auth.AuthEnable(g.ctx, &pb.AuthEnableRequest{}); !same(err, rpctypes.ErrGRPCRootUserNotExist) {
		t.Fatalf("without root: %v", err)
	}
	g.must(g.auth.UserAdd(g.ctx, &pb.AuthUserAddRequest{Name: "root", Password: "rootpassword"}))
	if _, err := g.auth.AuthEnable(g.ctx, &pb.AuthEnableRequest{}); !same(err, rpctypes.ErrGRPCRootRoleNotExist) {
		t.Fatalf("without the role: %v", err)
	}
	g.must(g.auth.RoleAdd(g.ctx, &pb.AuthRoleAddRequest{Name: "ann"}))
	for _, kind := range []authpb.Permission_Type{authpb.Permission_READWRITE, authpb.Permission_WRITE, authpb.Permission_READ} {
		g.grant("ann", kind)
		role, err := g.auth.RoleGet(g.ctx, &pb.AuthRoleGetRequest{Role: "ann"})
		if err != nil || len(role.Perm) != 1 || role.Perm[0].PermType != kind {
			t.Fatalf("%v %v", role, err)
		}
	}
	for name, p := range map[string]*authpb.Permission{"an empty range": {Key: []byte("b"), RangeEnd: []byte("a")}, "no key": {RangeEnd: []byte{0}}} {
		_, err := g.auth.RoleGrantPermission(g.ctx, &pb.AuthRoleGrantPermissionRequest{Name: "ann", Perm: p})
		if !same(err, rpctypes.ErrGRPCInvalidAuthMgmt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.must(g.auth.UserGrantRole(g.ctx, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"}))
	g.must(g.auth.AuthEnable(g.ctx, &pb.AuthEnableRequest{}))
	if r, err := g.auth.AuthStatus(g.ctx, &pb.AuthStatusRequest{}); err != nil || !r.Enabled {
		t.Fatalf("asked by nobody: %v %v", r, err)
	}
	g.must(g.auth.AuthDisable(g.with(g.authenticate()), &pb.AuthDisableRequest{}))
	g.must(g.auth.UserList(g.ctx, &pb.AuthUserListRequest{}))
}

// TestIdentity: a client is who its token or its certificate says, the token first, and
// nobody without one; over gRPC and over HTTP.
func TestIdentity(t *testing.T) {
	g := startGuarded(t)
	g.enable()
	_, wrong := g.auth.Authenticate(g.ctx, &pb.AuthenticateRequest{Name: "root", Password: "not the password"})
	for name, c := range map[string]struct{ got, want error }{
		"nobody":                  {getError(g.ctx, g.nobody, "/ann/1"), rpctypes.ErrGRPCUserEmpty},
		"a certificate":           {getError(g.ctx, g.ann, "/ann/1"), nil},
		"a certificate of nobody": {getError(g.ctx, g.dial("stranger"), "/ann/1"), rpctypes.ErrGRPCPermissionDenied},
		"a token":                 {putError(g.with(g.token), g.nobody, "/other"), nil},
		"a token goes first":      {putError(g.with(g.token), g.ann, "/other"), nil},
		"not a token":             {getError(g.with("forged"), g.nobody, "/ann/1"), rpctypes.ErrGRPCInvalidAuthToken},
		"another password":        {wrong, rpctypes.ErrGRPCAuthFailed},
	} {
		if !same(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: certs.ClientTLS(g.ca.Pool(), nil)}}
	for auth, code := range map[string]int{"": http.StatusBadRequest, g.token: http.StatusOK, "forged": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(g.ctx, http.MethodPost, "https://"+g.node.EtcdAddr()+"/v3/kv/range", strings.NewReader(`{"key":"YQ=="}`))
		if err != nil {
			t.Fatal(err)
		}
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close() // it has been answered
		if a.StatusCode != code {
			t.Errorf("HTTP with %q: %s, want %d", auth, a.Status, code)
		}
	}
	client.CloseIdleConnections()
}

// TestTokenEnds: a token is refused once its time is over, in the words after which
// etcd's clients get themselves another one; a watch that was opened with it ends so that
// they resume it.
func TestTokenEnds(t *testing.T) {
	g := startGuarded(t)
	g.enable()
	s, r := g.watching(g.with(g.token), g.nobody, "/ann/1")
	if r.Canceled {
		t.Fatalf("%v", r)
	}
	g.must(nil, getError(g.with(g.token), g.nobody, "/ann/1"))
	g.later.Add(2 * time.Hour.Milliseconds())
	if err := getError(g.with(g.token), g.nobody, "/ann/1"); !same(err, rpctypes.ErrGRPCInvalidAuthToken) {
		t.Fatalf("after its time: %v", err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.Unavailable {
		t.Fatalf("the watch: %v", err)
	}
	if _, r := g.watching(g.with(g.token), g.nobody, "/ann/1"); r.CancelReason != rpctypes.ErrGRPCInvalidAuthToken.Error() {
		t.Fatalf("another watch: %v", r)
	}
	fresh := g.authenticate()
	g.must(nil, getError(g.with(fresh), g.nobody, "/ann/1"))
	g.must(g.auth.UserChangePassword(g.with(fresh), &pb.AuthUserChangePasswordRequest{Name: "root", Password: "anotherpassword"}))
	if err := getError(g.with(fresh), g.nobody, "/ann/1"); !same(err, rpctypes.ErrGRPCInvalidAuthToken) {
		t.Fatalf("after another password: %v", err)
	}
}

// TestWatchLosesItsRights: a watch whose rights are taken away is cancelled before the next
// event; the others of its stream go on.
func TestWatchLosesItsRights(t *testing.T) {
	g := startGuarded(t)
	g.enable()
	root := g.with(g.token)
	g.must(g.auth.RoleAdd(root, &pb.AuthRoleAddRequest{Name: "more"}))
	g.must(g.auth.RoleGrantPermission(root, &pb.AuthRoleGrantPermissionRequest{Name: "more", Perm: &authpb.Permission{Key: []byte("/more")}}))
	g.must(g.auth.UserGrantRole(root, &pb.AuthUserGrantRoleRequest{User: "ann", Role: "more"}))
	s, r := g.watching(g.ctx, g.ann, "/more")
	if other := g.watchMore(s, "/ann/1"); r.Canceled || other.Canceled {
		t.Fatalf("%v %v", r, other)
	}
	g.must(g.auth.UserRevokeRole(root, &pb.AuthUserRevokeRoleRequest{Name: "ann", Role: "more"}))
	g.must(nil, putError(root, g.nobody, "/more"))
	if r, err := s.Recv(); err != nil || r.WatchId != 0 || !r.Canceled || r.CancelReason != rpctypes.ErrGRPCPermissionDenied.Error() || len(r.Events) != 0 {
		t.Fatalf("%v %v", r, err)
	}
	g.must(nil, putError(root, g.nobody, "/ann/1"))
	if r, err := s.Recv(); err != nil || r.WatchId != 1 || len(r.Events) != 1 {
		t.Fatalf("%v %v", r, err)
	}
}
