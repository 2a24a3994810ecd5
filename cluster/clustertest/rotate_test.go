package clustertest

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/cluster/certs"
)

// rotation is the files of a cluster's certificates, and the processes that use them.
type rotation struct {
	t   *testing.T
	dir string
	c   *Cluster
	w   *Workload
}

// write replaces a file at once.
func (r *rotation) write(name string, texts ...[]byte) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	var all []byte
	for _, text := range texts {
		all = append(all, text...)
	}
	if err := os.WriteFile(path+".new", all, 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		r.t.Fatal(err)
	}
}

// issue replaces the certificates of nodes and of clients.
func (r *rotation) issue(ca *certs.Authority) {
	r.t.Helper()
	for _, name := range []string{"node", "client"} {
		p, err := ca.Issue(certs.Request{Name: name, Hosts: []string{"127.0.0.1"}})
		if err != nil {
			r.t.Fatal(err)
		}
		r.write(name+".crt", p.Cert)
		r.write(name+".key", p.Key)
	}
}

func (r *rotation) path(name string) string { return filepath.Join(r.dir, name) }

// meet breaks all connections between nodes, one node after the other, and has new clients
// come to each: everybody has to show certificates again. Files are looked at once a second.
func (r *rotation) meet(step string) {
	r.t.Helper()
	ctx := Deadline(r.t, time.Minute)
	pause(ctx, 1200*time.Millisecond)
	for _, m := range r.c.Members() {
		r.c.Net.Sever([]uint64{m.ID}, r.c.IDs())
		r.w.WaitWrites(20)
		r.c.Net.Heal()
		for _, one := range r.c.Members() {
			s := r.c.client(one.Listen)
			if _, err := s.Put(ctx, "/met/"+step, nil, client.PutOptions{}); err != nil {
				r.t.Errorf("%s: a new client of node %d: %v", step, one.ID, err)
			}
			_ = s.Close()
		}
		r.w.WaitWrites(20)
	}
}

// refuses tells whether a listener of TLS ends a connection with this configuration.
func refuses(address string, config *tls.Config) bool {
	config = config.Clone()
	config.NextProtos = []string{"h2"} // gRPC asks for it
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", address, config)
	if err != nil {
		return true
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
	_, err = c.Read(make([]byte, 1)) // with TLS 1.3 a client that is refused hears of it here
	return err != nil && !os.IsTimeout(err)
}

// TestCertificatesAreRotated replaces the authority and all certificates of a cluster under
// load, in three steps and without a restart: both authorities are trusted, everybody gets
// new certificates, the old authority goes. No call fails, leases and watches go on, and
// what the old authority has signed is refused at the end by every listener.
func TestCertificatesAreRotated(t *testing.T) {
	r := &rotation{t: t, dir: t.TempDir()}
	authority := func() *certs.Authority {
		ca, err := certs.NewAuthority("a cluster")
		if err != nil {
			t.Fatal(err)
		}
		return ca
	}
	older, newer := authority(), authority()
	r.write("ca.crt", older.Pair().Cert)
	r.issue(older)
	clientTLS, err := certs.Files{CA: r.path("ca.crt"), Cert: r.path("client.crt"), Key: r.path("client.key")}.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	before := clientTLS()
	r.c = NewCluster(t, ClusterOptions{Nodes: 3, Network: true, TLS: clientTLS, Flags: []string{
		"--node-ca", r.path("ca.crt"), "--node-cert", r.path("node.crt"), "--node-key", r.path("node.key"),
		"--tls-client-ca", r.path("ca.crt"), "--tls-cert", r.path("node.crt"), "--tls-key", r.path("node.key"),
	}})
	truth := map[string][]string{}
	for _, m := range r.c.Members() {
		truth[m.Listen] = []string{m.Address.Raft, m.Address.Peer}
		if refuses(m.Listen, before) {
			t.Fatal("a client is refused before anything has begun")
		}
	}
	leases := StartLeases(r.c)
	r.w = StartWorkload(r.c, 1, 4)
	r.w.WaitWrites(50)

	r.write("ca.crt", older.Pair().Cert, newer.Pair().Cert)
	r.meet("both")
	r.write("node.crt", []byte("half"))
	r.meet("half")
	r.issue(newer)
	r.meet("new")
	trusting := before.Clone()
	trusting.RootCAs = newer.Pool()
	if refuses(r.c.Endpoints()[0], trusting) {
		t.Error("what the older authority has signed is refused although it is trusted still")
	}
	r.write("ca.crt", newer.Pair().Cert)
	r.meet("end")
	r.w.Stop()

	for clients, others := range truth {
		for _, address := range append([]string{clients}, others...) {
			if !refuses(address, trusting) {
				t.Errorf("%s takes a certificate of the older authority", address)
			}
			if !refuses(address, before) {
				t.Errorf("%s shows a certificate of the older authority", address)
			}
		}
	}
	if n := len(r.w.Errors); n > 0 {
		t.Errorf("calls failed: %v", r.w.Errors)
	}
	leases.Check(10 * time.Second)
	leases.stop()
	r.c.CheckDigests()
	r.w.History.Check(t)
	for _, m := range r.c.Members() {
		for _, text := range []string{"the old ones stay", "TLS at the listener for clients", "TLS at the listener for peers", "TLS with 127.0.0.1"} {
			if !strings.Contains(m.Output(), text) {
				t.Errorf("node %d does not say %q", m.ID, text)
			}
		}
	}
}
