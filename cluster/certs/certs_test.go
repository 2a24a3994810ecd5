package certs

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func mustPair(t *testing.T, a *Authority, r Request) (Pair, tls.Certificate) {
	t.Helper()
	p, err := a.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

func mustAuthority(t *testing.T, name string) *Authority {
	t.Helper()
	a, err := NewAuthority(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shake runs one handshake and returns both sides' errors.
func shake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	deadline := time.Now().Add(10 * time.Second)
	a.SetDeadline(deadline)
	b.SetDeadline(deadline)
	done := make(chan error, 1)
	go func() {
		s := tls.Server(a, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("."))
		}
		a.Close()
		done <- err
	}()
	c := tls.Client(b, client)
	if clientErr = c.Handshake(); clientErr == nil {
		_, clientErr = c.Read(make([]byte, 1)) // a refused certificate shows here
	}
	b.Close()
	return <-done, clientErr
}

func TestMutualTLS(t *testing.T) {
	a, stranger := mustAuthority(t, "dev"), mustAuthority(t, "other")
	_, node := mustPair(t, a, Request{Name: "node-1", Hosts: []string{"node-1.test", "127.0.0.1", "::1"}})
	_, client := mustPair(t, a, Request{Name: "app"})
	_, alien := mustPair(t, stranger, Request{Name: "app"})
	_, late := mustPair(t, a, Request{Name: "app", Valid: time.Nanosecond})

	for _, c := range []struct {
		what   string
		client *tls.Config
		host   string
		ok     bool
	}{
		{"by name", ClientTLS(a.Pool(), &client), "node-1.test", true},
		{"by IPv4", ClientTLS(a.Pool(), &client), "127.0.0.1", true},
		{"by IPv6", ClientTLS(a.Pool(), &client), "::1", true},
		{"by another name", ClientTLS(a.Pool(), &client), "node-2.test", false},
		{"without a certificate", ClientTLS(a.Pool(), nil), "node-1.test", false},
		{"with a certificate of another authority", ClientTLS(a.Pool(), &alien), "node-1.test", false},
		{"trusting another authority", ClientTLS(stranger.Pool(), &client), "node-1.test", false},
		{"with an expired certificate", ClientTLS(a.Pool(), &late), "node-1.test", false},
	} {
		c.client.ServerName = c.host
		se, ce := shake(t, ServerTLS(node, a.Pool()), c.client)
		if ok := se == nil && ce == nil; ok != c.ok {
			t.Errorf("%s: server %v, client %v", c.what, se, ce)
		}
	}
}

func TestNamesAddress(t *testing.T) {
	a := mustAuthority(t, "dev")
	_, byURI := mustPair(t, a, Request{Name: "app", Addresses: []string{"10.0.0.1:7000", "app.test:7000", "[::1]:7"}})
	_, byName := mustPair(t, a, Request{Name: "app.test:7000"})
	_, byHost := mustPair(t, a, Request{Name: "app", Hosts: []string{"app.test"}})
	for _, c := range []struct {
		cert            *x509.Certificate
		address         string
		strict, anyPort bool
	}{
		{byURI.Leaf, "10.0.0.1:7000", true, true},
		{byURI.Leaf, "app.test:7000", true, true},
		{byURI.Leaf, "[::1]:7", true, true},
		{byURI.Leaf, "app.test:7001", false, true},
		{byURI.Leaf, "other.test:7000", false, false},
		{byName.Leaf, "app.test:7000", true, true},
		{byName.Leaf, "app.test:7001", false, false},
		{byHost.Leaf, "app.test:7000", false, true},
		{byHost.Leaf, "app.test", false, false},
		{byHost.Leaf, "", false, false},
		{byHost.Leaf, ":7000", false, false},
	} {
		if ok := NamesAddress(c.cert, c.address, false) == nil; ok != c.strict {
			t.Errorf("%s for %q: %v", c.cert.Subject.CommonName, c.address, ok)
		}
		if ok := NamesAddress(c.cert, c.address, true) == nil; ok != c.anyPort {
			t.Errorf("%s for %q on any port: %v", c.cert.Subject.CommonName, c.address, ok)
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	a := mustAuthority(t, "dev")
	if err := a.Pair().Save(dir, "ca"); err != nil {
		t.Fatal(err)
	}
	if err := a.Pair().Save(dir, "ca"); !os.IsExist(err) {
		t.Fatalf("overwrote an authority: %v", err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "ca.key")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Fatalf("key file: %v %v", fi, err)
	}
	p, err := Load(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadAuthority(p)
	if err != nil {
		t.Fatal(err)
	}
	leaf, cert := mustPair(t, again, Request{Name: "node"})
	pool, err := PoolOf(p.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadAuthority(leaf); err == nil {
		t.Fatal("a node's certificate passed for an authority")
	}
	if _, err := PoolOf([]byte("nothing")); err == nil {
		t.Fatal("no certificate, no error")
	}
	if _, err := again.Issue(Request{}); err == nil {
		t.Fatal("a certificate without a name")
	}
	if _, err := again.Issue(Request{Name: "x", Addresses: []string{"no-port"}}); err == nil {
		t.Fatal("an address without a port")
	}
}
