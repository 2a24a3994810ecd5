package clustertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// secret is the value that nobody but root may see.
const secret = "T0P-S3CRET-VALUE"

// securityNode is a node in this process with TLS, users, and something to hide.
type securityNode struct {
	t    *testing.T
	node *node.Node
	ca   *certs.Authority
	root *client.Client
}

const securityPassword = "a password for all"

func newSecurityNode(t *testing.T) *securityNode {
	t.Helper()
	ca, err := certs.NewAuthority("clients")
	if err != nil {
		t.Fatal(err)
	}
	s := &securityNode{t: t, ca: ca}
	server := s.tls("node", nil)
	config := certs.ServerTLS(server.Certificates[0], ca.Pool())
	config.ClientAuth = tls.VerifyClientCertIfGiven
	s.node, err = node.Start(node.Config{Dir: t.TempDir(), ClientAddress: "127.0.0.1:0", ClientTLS: config, AdminAddress: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.node.Close() })
	s.root = s.client("root", nil)
	s.populate()
	return s
}

// tls is what a client of this name shows; ca nil is the one that the node trusts.
func (s *securityNode) tls(name string, ca *certs.Authority) *tls.Config {
	s.t.Helper()
	if ca == nil {
		ca = s.ca
	}
	return s.tlsOf(certs.Request{Name: name, Hosts: []string{"127.0.0.1"}}, ca)
}

func (s *securityNode) tlsOf(r certs.Request, ca *certs.Authority) *tls.Config {
	s.t.Helper()
	p, err := ca.Issue(r)
	if err != nil {
		s.t.Fatal(err)
	}
	pair, err := p.TLS()
	if err != nil {
		s.t.Fatal(err)
	}
	return certs.ClientTLS(s.ca.Pool(), &pair)
}

func (s *securityNode) client(name string, credentials client.CredentialSource) *client.Client {
	s.t.Helper()
	cfg := client.Config{Endpoints: []string{s.node.Addr()}, TLS: certs.ClientTLS(s.ca.Pool(), nil), Credentials: credentials, OneShot: true, Timeout: time.Minute}
	if name != "" {
		cfg.TLS = s.tls(name, nil)
	}
	c, err := client.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

func (s *securityNode) change(c *messages.ChangeAuth) {
	s.t.Helper()
	if _, err := s.root.ChangeAuth(s.t.Context(), c); err != nil {
		s.t.Fatalf("%v: %v", c, err)
	}
}

func (s *securityNode) grant(role string, g *messages.Grant) {
	s.t.Helper()
	s.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_GrantRights{GrantRights: &messages.GrantRights{Role: role, Grant: g}}})
}

// populate stores something, and makes the users of securityUsers with roles of their
// names.
func (s *securityNode) populate() {
	s.t.Helper()
	ctx := s.t.Context()
	for i := range 6 {
		for _, key := range []string{"/a/1", "/secret/1"} {
			value := "public"
			if key == "/secret/1" {
				value = fmt.Sprintf(`"%s"`, secret)
			}
			if _, err := s.root.Put(ctx, key, fmt.Appendf(nil, "%s", value), client.PutOptions{ContentType: "application/json"}); err != nil {
				s.t.Fatalf("put %d: %v", i, err)
			}
		}
	}
	if _, err := s.root.CreateIndex(ctx, &messages.IndexDefinition{Name: "secrets", Extractor: &messages.Extractor{By: &messages.Extractor_Identity{Identity: true}}}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.root.AddUser(ctx, "root", securityPassword, messages.RootRole); err != nil {
		s.t.Fatal(err)
	}
	everyKey := &messages.Selector{By: &messages.Selector_Prefix{}}
	for _, name := range securityUsers {
		s.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_AddRole{AddRole: &messages.AddRole{Name: name}}})
		s.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_AddUser{AddUser: &messages.AddUser{Name: name, Roles: []string{name}}}})
	}
	s.grant("reader", &messages.Grant{Selector: prefixA, Read: true})
	s.grant("writer", &messages.Grant{Selector: prefixA, Write: true})
	s.grant("leaser", &messages.Grant{Selector: prefixA, Write: true, Lease: true})
	s.grant("admin", &messages.Grant{Selector: everyKey, Admin: true})
	if _, err := s.root.EnableAuth(ctx); err != nil {
		s.t.Fatal(err)
	}
	lease, err := s.root.Grant(ctx, time.Hour, client.GrantOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.root.OpenCursor(ctx, "roots", lease.LeaseID, 1); err != nil {
		s.t.Fatal(err)
	}
}

// fixture makes what verbs refer to, as root.
func (s *securityNode) fixture() *securityFixture {
	s.t.Helper()
	ctx := s.t.Context()
	lease, err := s.root.Grant(ctx, time.Hour, client.GrantOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.root.Delete(ctx, &messages.Selector{By: &messages.Selector_Key{Key: []byte("/a/leased")}}, client.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.root.Put(ctx, "/a/leased", []byte("public"), client.PutOptions{LeaseID: lease.LeaseID}); err != nil {
		s.t.Fatal(err)
	}
	r, err := s.root.Write(ctx, &messages.Write{Op: &messages.Write_OpenSession{OpenSession: &messages.OpenSession{TtlMs: 3_600_000}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return &securityFixture{lease: lease.LeaseID, session: r.GetOpenSession().GetSessionId()}
}

// wire is a bare session: it shows every byte that the node sends.
type wire struct {
	t    *testing.T
	s    transport.ClientStream
	call uint64
	seen bytes.Buffer
}

// open says hello and returns the node's answer.
func (s *securityNode) open(config *tls.Config, credentials *messages.Credentials) (*wire, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	stream, err := transport.NewGRPCDialer(transport.DialerOptions{TLS: config}).Dial(ctx, s.node.Addr())
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { stream.Close() })
	w := &wire{t: s.t, s: stream}
	hello := &messages.ClientHello{Protocol: messages.ProtocolVersion, ClientEpoch: 1, Credentials: credentials}
	if err := stream.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: hello}}); err != nil {
		return nil, err
	}
	m, err := w.receive()
	if err != nil {
		return nil, err
	}
	if g := m.GetGoodbye(); g != nil {
		return nil, messages.ErrorFrom(g.GetReason())
	}
	if m.GetHello() == nil {
		s.t.Fatalf("no hello: %v", m)
	}
	return w, nil
}

func (w *wire) receive() (*messages.ServerMessage, error) {
	m, err := w.s.Recv()
	if err == nil {
		b, _ := proto.Marshal(m)
		w.seen.Write(b)
	}
	return m, err
}

// ask returns the code that an operation is answered with.
func (w *wire) ask(op *messages.Operation) messages.Code {
	w.t.Helper()
	w.call++
	f := &messages.Frame{ClientEpoch: 1, FirstCall: w.call, TimeoutMs: 60_000, Operations: []*messages.Operation{op}}
	if err := w.s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: f}}); err != nil {
		w.t.Fatalf("%v: %v", op, err)
	}
	for {
		m, err := w.receive()
		if err != nil {
			w.t.Fatalf("%v: %v", op, err)
		}
		for _, r := range m.GetReplies().GetReplies() {
			if r.Call != w.call {
				continue
			}
			if e := r.GetResult().GetError(); e != nil {
				return e.GetCode()
			}
			return r.GetError().GetCode()
		}
	}
}

// TestSecurityMatrix asks for every verb as every kind of client.
func TestSecurityMatrix(t *testing.T) {
	s := newSecurityNode(t)
	missing(t)
	const denied, nobody = messages.Code_CODE_PERMISSION_DENIED, messages.Code_CODE_UNAUTHENTICATED
	for letter, name := range securityUsers {
		t.Run(name, func(t *testing.T) {
			f := s.fixture()
			w, err := s.open(s.tls(name, nil), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range securityVerbs {
				code := w.ask(v.op(f))
				if allowed := strings.ContainsRune(v.may, letter); allowed != (code != denied) || code == nobody {
					t.Errorf("%s as %s: %v, want allowed %v", v.name, name, code, allowed)
				}
			}
			if bytes.Contains(w.seen.Bytes(), []byte(secret)) || bytes.Contains(w.seen.Bytes(), []byte("/secret/1")) {
				t.Errorf("%s was told of what it must not see", name)
			}
		})
	}
	t.Run("root", func(t *testing.T) {
		f := s.fixture()
		w, err := s.open(s.tls("root", nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range securityVerbs {
			if strings.Contains(v.may, "-") {
				continue // it would end what the others need
			}
			if code := w.ask(v.op(f)); code == denied || code == nobody {
				t.Errorf("%s as root: %v", v.name, code)
			}
		}
		if !bytes.Contains(w.seen.Bytes(), []byte(secret)) {
			t.Error("the test does not see what it looks for")
		}
	})
	other, err := certs.NewAuthority("strangers")
	if err != nil {
		t.Fatal(err)
	}
	reader := s.token("reader", time.Hour)
	for _, k := range []struct {
		name        string
		tls         *tls.Config
		credentials *messages.Credentials
		code        messages.Code
	}{
		{"no certificate", certs.ClientTLS(s.ca.Pool(), nil), nil, nobody},
		{"wrong authority", s.tls("root", other), nil, nobody},
		{"expired certificate", s.tlsOf(certs.Request{Name: "root", Hosts: []string{"127.0.0.1"}, Valid: time.Nanosecond}, s.ca), nil, nobody},
		{"right authority, wrong name", s.tls("stranger", nil), nil, nobody},
		{"a made up token", certs.ClientTLS(s.ca.Pool(), nil), &messages.Credentials{Token: "cct1.e30.e30"}, nobody},
		{"wrong password", certs.ClientTLS(s.ca.Pool(), nil), &messages.Credentials{User: "root", Password: "guess guess"}, nobody},
		{"password of nobody", certs.ClientTLS(s.ca.Pool(), nil), &messages.Credentials{User: "ghost", Password: securityPassword}, nobody},
		{"password", certs.ClientTLS(s.ca.Pool(), nil), &messages.Credentials{User: "root", Password: securityPassword}, 0},
		{"token", certs.ClientTLS(s.ca.Pool(), nil), &messages.Credentials{Token: reader}, 0},
		{"a token goes before the certificate", s.tls("root", nil), &messages.Credentials{Token: reader}, 0},
	} {
		t.Run(k.name, func(t *testing.T) {
			w, err := s.open(k.tls, k.credentials)
			// Under TLS 1.3 a client writes before it hears that its certificate is refused;
			// when the write fails first, it learns of it at a later attempt.
			for tries := 0; k.code == nobody && messages.CodeOf(err) == messages.Code_CODE_UNAVAILABLE && tries < 50; tries++ {
				w, err = s.open(k.tls, k.credentials)
			}
			if messages.CodeOf(err) != k.code {
				t.Fatalf("%v, want %v", err, k.code)
			}
			if err == nil && k.credentials.GetToken() != "" {
				if a, b := w.ask(securityVerbNamed("get")), w.ask(securityVerbNamed("put")); a != 0 || b != denied {
					t.Fatalf("as reader: get %v, put %v", a, b)
				}
			}
		})
	}
	t.Run("token expires and is renewed", func(t *testing.T) { s.tokenRunsOut(t) })
}

// tokenRunsOut: every verb is refused then, and served again after a renewal on the
// same stream.
func (s *securityNode) tokenRunsOut(t *testing.T) {
	w, err := s.open(certs.ClientTLS(s.ca.Pool(), nil), &messages.Credentials{Token: s.token("leaser", 1500*time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	f := s.fixture()
	deadline := time.Now().Add(time.Minute)
	for w.ask(securityVerbNamed("revision")) != messages.Code_CODE_UNAUTHENTICATED {
		if time.Now().After(deadline) {
			t.Fatal("the token never ran out")
		}
	}
	for _, v := range securityVerbs {
		if code := w.ask(v.op(f)); code != messages.Code_CODE_UNAUTHENTICATED {
			t.Errorf("%s with a token that has run out: %v", v.name, code)
		}
	}
	renewal := &messages.Credentials{Token: s.token("leaser", time.Hour)}
	if err := w.s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Credentials{Credentials: renewal}}); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := w.receive()
		if err != nil {
			t.Fatal(err)
		}
		if a := m.GetAuthenticated(); a != nil {
			if a.GetError() != nil || a.GetUser() != "leaser" {
				t.Fatal(a)
			}
			break
		}
	}
	if code := w.ask(securityVerbNamed("put")); code != 0 {
		t.Fatalf("put after the renewal: %v", code)
	}
}

func (s *securityNode) token(user string, ttl time.Duration) string {
	s.t.Helper()
	r, err := s.root.IssueToken(s.t.Context(), user, ttl)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.GetToken()
}

func securityVerbNamed(name string) *messages.Operation {
	for _, v := range securityVerbs {
		if v.name == name {
			return v.op(&securityFixture{})
		}
	}
	panic(name)
}

// missing fails for an operation that the matrix does not have.
func missing(t *testing.T) {
	t.Helper()
	have := map[protoreflect.FullName]bool{}
	note := func(m proto.Message) {
		r := m.ProtoReflect()
		oneofs := r.Descriptor().Oneofs()
		for i := range oneofs.Len() {
			if fd := r.WhichOneof(oneofs.Get(i)); fd != nil {
				have[fd.FullName()] = true
			}
		}
	}
	for _, v := range securityVerbs {
		op := v.op(&securityFixture{})
		note(op)
		note(op.GetWrite())
		note(op.GetQuery())
		note(op.GetAdmin())
	}
	for _, m := range []proto.Message{&messages.Operation{}, &messages.Write{}, &messages.Query{}, &messages.AdminRequest{}} {
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if fd := fields.Get(i); fd.ContainingOneof() != nil && !have[fd.FullName()] {
				t.Errorf("%s is not in the matrix", fd.FullName())
			}
		}
	}
}

// TestSecurityRightsTakenAway: while root writes without a pause, rights are taken from a
// user who watches. No event of the watch is later in the log than the change, and it
// ends with permission_denied; the session's next command is refused.
func TestSecurityRightsTakenAway(t *testing.T) {
	s := newSecurityNode(t)
	ctx := t.Context()
	c := s.client("reader", nil)
	w, err := c.Watch(ctx, prefixA, client.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if _, err := s.root.Put(ctx, "/a/1", fmt.Appendf(nil, "%d", i), client.PutOptions{}); err != nil {
					t.Errorf("root's put: %v", err)
					return
				}
			}
		}
	}()
	if _, err := w.Next(ctx); err != nil {
		t.Fatal(err)
	}
	r, err := s.root.Write(ctx, &messages.Write{Op: &messages.Write_ChangeAuth{ChangeAuth: &messages.ChangeAuth{
		Change: &messages.ChangeAuth_RevokeRights{RevokeRights: &messages.RevokeRights{Role: "reader", Grant: &messages.Grant{Selector: prefixA}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var last uint64
	for {
		b, err := w.Next(ctx)
		if err != nil {
			if messages.CodeOf(err) != messages.Code_CODE_PERMISSION_DENIED {
				t.Fatalf("the watch ended with %v", err)
			}
			break
		}
		last = b.To.GetRevision()
		if last > r.GetRevision() {
			t.Fatalf("an event of revision %d was delivered; rights were taken away at %d", last, r.GetRevision())
		}
	}
	if _, err := c.Get(ctx, "/a/1", client.GetOptions{}); messages.CodeOf(err) != messages.Code_CODE_PERMISSION_DENIED {
		t.Fatalf("get: %v", err)
	}
	close(stop)
	<-stopped
}
