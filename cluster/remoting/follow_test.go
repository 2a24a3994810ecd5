package remoting

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"testing"

	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/cluster/transport"
)

// TestCertificatesAreReplacedWhileListening: the node's certificate and the authority of
// its services change under its feet. Who comes from then on needs the new ones; who is
// there stays.
func TestCertificatesAreReplacedWhileListening(t *testing.T) {
	old, fresh := newWorld(t), newWorld(t)
	both := x509.NewCertPool()
	for _, w := range []*world{old, fresh} {
		both.AppendCertsFromPEM(w.ca.Pair().Cert)
	}
	var mu sync.Mutex
	var cert tls.Certificate
	roots := old.ca.Pool()
	n := old.node(func(s transport.ServerStream) {
		for {
			if _, err := s.Recv(); err != nil {
				return
			}
		}
	}, func(c *Config) {
		cert = c.Certificate
		c.Follow = func() (tls.Certificate, *x509.CertPool) {
			mu.Lock()
			defer mu.Unlock()
			return cert, roots
		}
	})
	shakes := func(w *world) error {
		show := w.issue("app", "127.0.0.1:1")
		config := certs.ClientTLS(both, &show)
		config.NextProtos = []string{"h2"}
		ctx, cancel := context.WithTimeout(t.Context(), waitMax)
		defer cancel()
		c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", n.Address())
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Read(make([]byte, 1)) // the node speaks first, or refuses
		return err
	}
	if err := shakes(old); err != nil {
		t.Fatalf("before: %v", err)
	}
	if shakes(fresh) == nil {
		t.Fatal("a stranger was let in")
	}
	renewed := fresh.issue("node", n.Address())
	mu.Lock()
	cert, roots = renewed, fresh.ca.Pool()
	mu.Unlock()
	if err := shakes(fresh); err != nil {
		t.Fatalf("after: %v", err)
	}
	if shakes(old) == nil {
		t.Fatal("the old authority still counts")
	}
}
