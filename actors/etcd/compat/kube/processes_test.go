package kube

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// output is what a process has printed.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
	// over is closed when the process has ended.
	over chan struct{}
}

func (o *output) ended() bool {
	select {
	case <-o.over:
		return true
	default:
		return false
	}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// program starts a program that ends with the test; what it printed is told when the test
// fails.
func program(t *testing.T, name string, args ...string) *output {
	t.Helper()
	cmd := exec.Command(name, args...)
	out := &output{over: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // it may be interrupted
		close(out.over)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended by itself
		late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		<-out.over
		late.Stop()
		if text := out.String(); t.Failed() {
			t.Logf("%s printed\n%s", filepath.Base(name), text[max(0, len(text)-6_000):])
		}
	})
	return out
}

// until waits for what must come.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(4 * time.Minute); ; {
		if is() {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatal(what)
		}
	}
}

// startNode starts a node and returns where clients of etcd connect.
func startNode(t *testing.T, concord string) string {
	out := program(t, concord, "serve", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--etcd", "127.0.0.1:0")
	said := regexp.MustCompile(`etcd clients on (\S+)`)
	until(t, "the node does not start", func() bool { return said.MatchString(out.String()) || out.ended() })
	if out.ended() {
		t.Fatal("the node has ended")
	}
	return said.FindStringSubmatch(out.String())[1]
}

const token = "token-of-the-test"

// startAPI starts a kube-apiserver whose storage is at an etcd endpoint, and returns its URL.
func startAPI(t *testing.T, apiserver, etcd string) string {
	dir := t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"sa.key":     pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"tokens.csv": []byte(token + ",admin,1,system:masters\n"),
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close() // the apiserver takes its place
	_, port, _ := strings.Cut(address, ":")
	out := program(t, apiserver,
		"--etcd-servers=http://"+etcd, "--bind-address=127.0.0.1", "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none", "--secure-port="+port, "--cert-dir="+dir,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+filepath.Join(dir, "sa.key"),
		"--service-account-signing-key-file="+filepath.Join(dir, "sa.key"), "--token-auth-file="+filepath.Join(dir, "tokens.csv"),
		"--authorization-mode=AlwaysAllow", "--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.0.0.0/24",
		"--etcd-compaction-interval=20s")
	api := "https://" + address
	until(t, "the apiserver does not become ready", func() bool {
		if out.ended() {
			t.Fatal("the apiserver has ended")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		r, err := request(ctx, http.MethodGet, api+"/readyz", nil)
		if err != nil {
			return false
		}
		_ = r.Body.Close() // its status says all
		return r.StatusCode == http.StatusOK
	})
	return api
}
