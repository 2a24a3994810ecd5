package etcd_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/certs"
)

// TestAuth: with TLS and authorization on, a client is who its token or its certificate
// says, and nobody without one; over gRPC, in watches and over HTTP.
func TestAuth(t *testing.T) {
	ca, err := certs.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string) tls.Certificate {
		p, err := ca.Issue(certs.Request{Name: name, Hosts: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.TLS()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	server := certs.ServerTLS(issue("node"), ca.Pool())
	server.ClientAuth = tls.VerifyClientCertIfGiven
	n, err := node.Start(node.Config{Dir: t.TempDir(), Etcd: &node.Etcd{Address: "127.0.0.1:0", TLS: server}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	dial := func(cert *tls.Certificate) *grpc.ClientConn {
		c, err := grpc.NewClient(n.EtcdAddr(), grpc.WithTransportCredentials(credentials.NewTLS(certs.ClientTLS(ca.Pool(), cert))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ann := issue("ann")
	nobody, annConn := dial(nil), dial(&ann)
	auth := pb.NewAuthClient(nobody)

	if _, err := auth.AuthEnable(ctx, &pb.AuthEnableRequest{}); !same(err, rpctypes.ErrGRPCRootUserNotExist) {
		t.Fatalf("without root: %v", err)
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: "root", Password: "rootpassword"}))
	if _, err := auth.AuthEnable(ctx, &pb.AuthEnableRequest{}); !same(err, rpctypes.ErrGRPCRootRoleNotExist) {
		t.Fatalf("without the role: %v", err)
	}
	must(auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"}))
	must(auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: "ann", Options: &authpb.UserAddOptions{NoPassword: true}}))
	must(auth.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: "reader"}))
	grant := func(kind authpb.Permission_Type) {
		t.Helper()
		must(auth.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{
			Name: "reader", Perm: &authpb.Permission{PermType: kind, Key: []byte("/ann/"), RangeEnd: []byte("/ann0")},
		}))
	}
	grant(authpb.Permission_READWRITE)
	grant(authpb.Permission_READ) // in its place
	role, err := auth.RoleGet(ctx, &pb.AuthRoleGetRequest{Role: "reader"})
	if err != nil || len(role.Perm) != 1 || role.Perm[0].PermType != authpb.Permission_READ {
		t.Fatalf("%v %v", role, err)
	}
	must(auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: "ann", Role: "reader"}))
	must(auth.AuthEnable(ctx, &pb.AuthEnableRequest{}))

	get := func(ctx context.Context, c *grpc.ClientConn, key string) error {
		_, err := pb.NewKVClient(c).Range(ctx, &pb.RangeRequest{Key: []byte(key)})
		return err
	}
	put := func(ctx context.Context, c *grpc.ClientConn, key string) error {
		_, err := pb.NewKVClient(c).Put(ctx, &pb.PutRequest{Key: []byte(key)})
		return err
	}
	token, err := auth.Authenticate(ctx, &pb.AuthenticateRequest{Name: "root", Password: "rootpassword"})
	if err != nil {
		t.Fatal(err)
	}
	with := func(token string) context.Context {
		return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
	}
	_, wrong := auth.Authenticate(ctx, &pb.AuthenticateRequest{Name: "root", Password: "not the password"})
	for name, c := range map[string]struct{ got, want error }{
		"nobody":                      {get(ctx, nobody, "/ann/1"), rpctypes.ErrGRPCUserEmpty},
		"a certificate, its keys":     {get(ctx, annConn, "/ann/1"), nil},
		"a certificate, other keys":   {get(ctx, annConn, "/other"), rpctypes.ErrGRPCPermissionDenied},
		"a certificate, to write":     {put(ctx, annConn, "/ann/1"), rpctypes.ErrGRPCPermissionDenied},
		"a token":                     {put(with(token.Token), nobody, "/other"), nil},
		"a token goes first":          {put(with(token.Token), annConn, "/other"), nil},
		"not a token":                 {get(with("forged"), nobody, "/ann/1"), rpctypes.ErrGRPCInvalidAuthToken},
		"another password":            {wrong, rpctypes.ErrGRPCAuthFailed},
		"only root changes users":     {second(pb.NewAuthClient(annConn).UserAdd(ctx, &pb.AuthUserAddRequest{Name: "x", Password: "xxxxxxxxx"})), rpctypes.ErrGRPCPermissionDenied},
		"only root takes snapshots":   {snapshotError(ctx, annConn), rpctypes.ErrGRPCPermissionDenied},
		"a delete of others' keys":    {deleteError(ctx, annConn), rpctypes.ErrGRPCPermissionDenied},
		"a transaction of other keys": {txnError(ctx, annConn), rpctypes.ErrGRPCPermissionDenied},
	} {
		if !same(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	stream, err := pb.NewWatchClient(annConn).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for key, created := range map[string]string{"/other": rpctypes.ErrGRPCPermissionDenied.Error(), "/ann/1": ""} {
		err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte(key)}}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := stream.Recv(); err != nil || r.CancelReason != created || r.Canceled != (created != "") {
			t.Fatalf("%s: %v %v", key, r, err)
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: certs.ClientTLS(ca.Pool(), nil)}}
	for auth, code := range map[string]int{"": http.StatusBadRequest, token.Token: http.StatusOK, "forged": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+n.EtcdAddr()+"/v3/kv/range", strings.NewReader(`{"key":"YQ=="}`))
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
	must(auth.AuthDisable(with(token.Token), &pb.AuthDisableRequest{}))
	if err := get(ctx, nobody, "/other"); err != nil {
		t.Fatal(err)
	}
}

func same(a, b error) bool {
	x, y := status.Convert(a), status.Convert(b)
	return x.Code() == y.Code() && x.Message() == y.Message()
}

func snapshotError(ctx context.Context, c *grpc.ClientConn) error {
	s, err := pb.NewMaintenanceClient(c).Snapshot(ctx, &pb.SnapshotRequest{})
	if err == nil {
		_, err = s.Recv()
	}
	return err
}

func deleteError(ctx context.Context, c *grpc.ClientConn) error {
	_, err := pb.NewKVClient(c).DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("/other")})
	return err
}

// txnError compares a range that reaches beyond the client's keys: whether it holds would
// tell what is there.
func txnError(ctx context.Context, c *grpc.ClientConn) error {
	_, err := pb.NewKVClient(c).Txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: []byte("/ann/1"), RangeEnd: []byte{0}, Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{Version: 3}}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("/ann/1")}}}},
	})
	return err
}
