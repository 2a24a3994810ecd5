package transport

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/cluster/certs"
)

// TestRefusals: one word for each stranger and reason, however often; after a while how
// often it was; and what is remembered is bounded.
func TestRefusals(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	now := time.Unix(1, 0)
	r := &Refusals{now: func() time.Time { return now }}
	lines := func() int {
		defer out.Reset()
		return strings.Count(out.String(), "\n")
	}
	for range 1_000 {
		r.Add(log, "10.0.0.1", "a")
		r.Add(log, "10.0.0.1", "b")
		r.Add(log, "10.0.0.2", "a")
	}
	if n := lines(); n != 3 {
		t.Fatalf("%d words about three refusals", n)
	}
	now = now.Add(refusalsEvery)
	r.Add(log, "10.0.0.1", "a")
	if text := out.String(); !strings.Contains(text, "times=1000") || !strings.Contains(text, "client=10.0.0.1") {
		t.Fatalf("after a minute: %s", text)
	}
	lines()
	for i := range 3 * refusalsMax {
		r.Add(log, fmt.Sprint(i), "a")
	}
	if len(r.said) > refusalsMax {
		t.Fatalf("%d are remembered", len(r.said))
	}
}

// TestFailedHandshakesAreSaidOnce: whoever fails at TLS comes again at once. All of it is
// counted and one line is written.
func TestFailedHandshakesAreSaidOnce(t *testing.T) {
	ca, err := certs.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	p, err := ca.Issue(certs.Request{Name: "node", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := p.TLS()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	h := &Handshakes{listener: "tests"}
	creds := h.Credentials(certs.ServerTLS(pair, ca.Pool()), slog.New(slog.NewTextHandler(&out, nil)))
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: ca.Pool(), NextProtos: []string{"h2"}})
			if err == nil {
				_, _ = c.Read(make([]byte, 1)) // hears that it is refused
				_ = c.Close()
			}
		}()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := creds.Clone().ServerHandshake(c); err == nil {
			t.Error("a client without a certificate is let in")
		}
		_ = c.Close()
		_ = l.Close()
	}
	if n, lines := h.failed.Load(), strings.Count(out.String(), "\n"); n != 5 || lines != 1 {
		t.Errorf("%d failed handshakes of 5 were counted, in %d lines: %s", n, lines, out.String())
	}
}
