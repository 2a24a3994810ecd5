package certs

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCertificatesAreReplaced replaces the authority and the certificates of a listener
// and of a dialer under their feet: old clients are refused then, new ones come in, and a
// file that is only half there changes nothing.
func TestCertificatesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	issue := func(ca *Authority, name string) {
		t.Helper()
		p, err := ca.Issue(Request{Name: name, Hosts: []string{"localhost"}})
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string][]byte{name + ".crt": p.Cert, name + ".key": p.Key} {
			if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	authority := func() *Authority {
		t.Helper()
		ca, err := NewAuthority("test")
		if err != nil {
			t.Fatal(err)
		}
		return ca
	}
	first, second := authority(), authority()
	caFile := filepath.Join(dir, "ca.crt")
	replace := func(ca *Authority) {
		t.Helper()
		issue(ca, "server")
		issue(ca, "client")
		if err := os.WriteFile(caFile, ca.Pair().Cert, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace(first)
	files := func(name, ca string) Files {
		return Files{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"), CA: ca}
	}
	server, err := files("server", caFile).ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	client, err := files("client", caFile).ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	lis, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	go func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if c.(*tls.Conn).Handshake() == nil {
					c.Write([]byte("!"))
				}
			}()
		}
	}()
	dial := func(config *tls.Config) error {
		config = config.Clone()
		config.ServerName = "localhost"
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", lis.Addr().String(), config)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = c.Read(make([]byte, 1)) // a client that is refused hears of it here
		return err
	}
	old := func() *tls.Config {
		p, err := first.Issue(Request{Name: "old"})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := p.TLS()
		if err != nil {
			t.Fatal(err)
		}
		pool := first.Pool()
		pool.AppendCertsFromPEM(second.Pair().Cert)
		return ClientTLS(pool, &pair)
	}()
	if err := dial(client()); err != nil {
		t.Fatalf("before: %v", err)
	}
	if err := dial(old); err != nil {
		t.Fatalf("the old one, before: %v", err)
	}
	wrong := client()
	wrong.RootCAs = second.Pool()
	if dial(wrong) == nil {
		t.Fatal("a server of another authority was accepted")
	}

	if err := os.WriteFile(filepath.Join(dir, "server.crt"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(lookEvery * 3)
	next := time.NewTicker(50 * time.Millisecond)
	defer next.Stop()
	for time.Now().Before(until) {
		<-next.C
		if err := dial(client()); err != nil {
			t.Fatalf("with a file that is half there: %v", err)
		}
	}
	replace(second)
	deadline := time.Now().Add(time.Minute)
	for dial(old) == nil || dial(client()) != nil {
		<-next.C
		if time.Now().After(deadline) {
			t.Fatalf("never both: the old client is refused (%v) and the new one is not (%v)", dial(old), dial(client()))
		}
	}
}
