package etcd_test

import (
	"context"
	"crypto/tls"
	"sync/atomic"
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

// guarded is a node whose etcd endpoint has TLS, where certificates may be shown. Its users
// are root, with a password, and, by their certificates, ann, who may read and write below
// /ann/, and bob, who may read there.
type guarded struct {
	t    *testing.T
	ctx  context.Context
	ca   *certs.Authority
	node *node.Node
	// later is added to the time of day, in milliseconds.
	later *atomic.Int64

	nobody, ann, bob *grpc.ClientConn
	auth             pb.AuthClient // of nobody
	token            string        // root's, once authorization is enabled
}

// lateClock is the machine's, some time later in the day.
type lateClock struct {
	node.Clock
	later *atomic.Int64
}

func (c lateClock) WallMs() int64 { return c.Clock.WallMs() + c.later.Load() }

// startGuarded starts it with authorization disabled.
func startGuarded(t *testing.T) *guarded {
	t.Helper()
	ca, err := certs.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{t: t, ca: ca, later: &atomic.Int64{}}
	server := certs.ServerTLS(g.issue("node"), ca.Pool())
	server.ClientAuth = tls.VerifyClientCertIfGiven
	g.node, err = node.Start(node.Config{
		Dir: t.TempDir(), Clock: lateClock{node.SystemClock(), g.later},
		Etcd: &node.Etcd{Address: "127.0.0.1:0", TLS: server, TokenTTL: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.node.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	g.ctx = ctx
	g.nobody, g.ann, g.bob = g.dial(""), g.dial("ann"), g.dial("bob")
	g.auth = pb.NewAuthClient(g.nobody)
	return g
}

func (g *guarded) issue(name string) tls.Certificate {
	g.t.Helper()
	p, err := g.ca.Issue(certs.Request{Name: name, Hosts: []string{"127.0.0.1"}})
	if err != nil {
		g.t.Fatal(err)
	}
	c, err := p.TLS()
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// dial connects with a certificate of that name, "" for none.
func (g *guarded) dial(name string) *grpc.ClientConn {
	g.t.Helper()
	var cert *tls.Certificate
	if name != "" {
		one := g.issue(name)
		cert = &one
	}
	c, err := grpc.NewClient(g.node.EtcdAddr(), grpc.WithTransportCredentials(credentials.NewTLS(certs.ClientTLS(g.ca.Pool(), cert))))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (g *guarded) must(_ any, err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// grant gives a role a permission below /ann/.
func (g *guarded) grant(role string, kind authpb.Permission_Type) {
	g.t.Helper()
	g.must(g.auth.RoleGrantPermission(g.ctx, &pb.AuthRoleGrantPermissionRequest{
		Name: role, Perm: &authpb.Permission{PermType: kind, Key: []byte("/ann/"), RangeEnd: []byte("/ann0")},
	}))
}

// enable makes the users, enables authorization, and authenticates root.
func (g *guarded) enable() {
	g.t.Helper()
	g.must(g.auth.UserAdd(g.ctx, &pb.AuthUserAddRequest{Name: "root", Password: "rootpassword"}))
	g.must(g.auth.UserGrantRole(g.ctx, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"}))
	for name, kind := range map[string]authpb.Permission_Type{"ann": authpb.Permission_READWRITE, "bob": authpb.Permission_READ} {
		g.must(g.auth.UserAdd(g.ctx, &pb.AuthUserAddRequest{Name: name, Options: &authpb.UserAddOptions{NoPassword: true}}))
		g.must(g.auth.RoleAdd(g.ctx, &pb.AuthRoleAddRequest{Name: name}))
		g.grant(name, kind)
		g.must(g.auth.UserGrantRole(g.ctx, &pb.AuthUserGrantRoleRequest{User: name, Role: name}))
	}
	g.must(g.auth.AuthEnable(g.ctx, &pb.AuthEnableRequest{}))
	g.token = g.authenticate()
}

// authenticate returns a token of root's.
func (g *guarded) authenticate() string {
	g.t.Helper()
	r, err := g.auth.Authenticate(g.ctx, &pb.AuthenticateRequest{Name: "root", Password: "rootpassword"})
	if err != nil {
		g.t.Fatal(err)
	}
	return r.Token
}

// with is the context of a call with a token.
func (g *guarded) with(token string) context.Context {
	return metadata.AppendToOutgoingContext(g.ctx, rpctypes.TokenFieldNameGRPC, token)
}

func getError(ctx context.Context, c *grpc.ClientConn, key string) error {
	return second(pb.NewKVClient(c).Range(ctx, &pb.RangeRequest{Key: []byte(key)}))
}

func putError(ctx context.Context, c *grpc.ClientConn, key string) error {
	return second(pb.NewKVClient(c).Put(ctx, &pb.PutRequest{Key: []byte(key)}))
}

func same(a, b error) bool {
	x, y := status.Convert(a), status.Convert(b)
	return x.Code() == y.Code() && x.Message() == y.Message()
}

// watching opens a stream with one watch that has been answered.
func (g *guarded) watching(ctx context.Context, c *grpc.ClientConn, key string) (pb.Watch_WatchClient, *pb.WatchResponse) {
	g.t.Helper()
	s, err := pb.NewWatchClient(c).Watch(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	return s, g.watchMore(s, key)
}

func (g *guarded) watchMore(s pb.Watch_WatchClient, key string) *pb.WatchResponse {
	g.t.Helper()
	err := s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte(key)}}})
	if err != nil {
		g.t.Fatal(err)
	}
	r, err := s.Recv()
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}
