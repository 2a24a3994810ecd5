package clustertest

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/messages"
)

// hostileNode is a node process with every listener that there is, all under TLS but the
// administrators' HTTP.
type hostileNode struct {
	*Node
	listeners map[string]string
	tls       *tls.Config // of an honest client
	nodes     *tls.Config // of another node
	client    *client.Client
}

func newHostileNode(t *testing.T) *hostileNode {
	t.Helper()
	dir := t.TempDir()
	ca, err := certs.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	nodeCA, err := certs.NewAuthority("nodes")
	if err != nil {
		t.Fatal(err)
	}
	h := &hostileNode{listeners: map[string]string{}}
	for _, name := range []string{"raft", "peers", "actors", "admin", "etcd"} {
		h.listeners[name] = FreePort(t)
	}
	save := func(name string, r certs.Request) certs.Pair {
		t.Helper()
		r.Name = name
		from := ca
		if name == "member" {
			from = nodeCA
		}
		p, err := from.Issue(r)
		if err == nil {
			err = p.Save(dir, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if err := ca.Pair().Save(dir, "ca"); err != nil {
		t.Fatal(err)
	}
	if err := nodeCA.Pair().Save(dir, "nodes"); err != nil {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.1", "localhost"}
	member, err := save("member", certs.Request{Hosts: hosts}).TLS()
	if err != nil {
		t.Fatal(err)
	}
	h.nodes = certs.ClientTLS(nodeCA.Pool(), &member)
	save("node", certs.Request{Hosts: hosts, Addresses: []string{h.listeners["actors"]}})
	pair, err := save("honest", certs.Request{Hosts: hosts}).TLS()
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	h.Node = NewNode(t,
		"--tls-cert", file("node.crt"), "--tls-key", file("node.key"), "--tls-client-ca", file("ca.crt"),
		"--node-ca", file("nodes.crt"), "--node-cert", file("member.crt"), "--node-key", file("member.key"),
		"--actors", h.listeners["actors"], "--actors-ca", file("ca.crt"), "--actors-cert", file("node.crt"), "--actors-key", file("node.key"),
		"--admin", h.listeners["admin"], "--etcd", h.listeners["etcd"])
	h.listeners["client"] = h.Listen
	h.args = append(h.args, "--member", fmt.Sprintf("1=%s,%s,%s", h.listeners["raft"], h.listeners["peers"], h.Listen))
	h.tls = certs.ClientTLS(ca.Pool(), &pair)
	if h.client, err = client.New(client.Config{Endpoints: []string{h.Listen}, TLS: h.tls, OneShot: true, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.client.Close() })
	h.Start()
	h.mustServe(t, "at the start")
	return h
}

// mustServe has an honest client write and read.
func (h *hostileNode) mustServe(t *testing.T, when string) {
	t.Helper()
	if !h.Running() && when != "at the start" {
		t.Fatalf("%s: the node has ended:\n%s", when, tail(h.Output(), 4_000))
	}
	if _, err := h.client.Put(t.Context(), "/honest", []byte(when), client.PutOptions{}); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	r, err := h.client.Get(t.Context(), "/honest", client.GetOptions{})
	if err != nil || string(r.Record.GetValue()) != when {
		t.Fatalf("%s: %v, %v", when, r.Record, err)
	}
}

// rssMiB is the memory that a process has.
func rssMiB(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kib >> 10
		}
	}
	return 0
}

// rounds is how many times each thing is done: few in CI, for so many seconds with
// CONCORD_HOSTILE_SECONDS.
func hostileRounds(t *testing.T, few int, each func(r *rand.Rand)) int {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("CONCORD_HOSTILE_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("CONCORD_HOSTILE_SEED=%d", seed)
	seconds, _ := strconv.Atoi(os.Getenv("CONCORD_HOSTILE_SECONDS"))
	deadline := time.Now().Add(time.Duration(seconds) * time.Second)
	var done atomic.Int64
	var wg sync.WaitGroup
	const workers = 8
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := 0; i < few/workers+1 || time.Now().Before(deadline); i++ {
				each(r)
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return int(done.Load())
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// firstBytes are what a stranger may say first: noise, and beginnings of what a listener
// understands, with some bytes changed.
func firstBytes(r *rand.Rand) []byte {
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	var b []byte
	switch r.IntN(9) {
	case 0:
		return noise(r.IntN(4096))
	case 1:
		b = append([]byte(preface), noise(r.IntN(2048))...)
	case 2: // a frame of HTTP/2 with any length, type, flags and stream
		b = append([]byte(preface), noise(9)...)
		b = append(b, noise(r.IntN(64))...)
	case 3: // TLS, a client hello or not
		b = append([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), noise(r.IntN(1024))...)
	case 4: // TLS record of the largest length
		b = append([]byte("\x17\x03\x03\xff\xff"), noise(r.IntN(1024))...)
	case 5:
		b = fmt.Appendf(nil, "GET /%s HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("a", r.IntN(5000)), strings.Repeat("b", r.IntN(50_000)))
	case 6:
		b = fmt.Appendf(nil, "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", uint64(1)<<r.IntN(63))
	case 7: // the consensus library's magic numbers, and a size
		b = binary.BigEndian.AppendUint32([]byte{0xAE, 0x7D}, r.Uint32())
		b = append(b, noise(r.IntN(64))...)
	case 8:
		b = binary.LittleEndian.AppendUint64(nil, r.Uint64())
	}
	for range r.IntN(4) {
		if len(b) > 0 {
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
	}
	return b
}

// TestSecurityFirstBytes: whatever a stranger says first to whichever listener, the node
// lives, its memory is bounded, and honest clients are served.
func TestSecurityFirstBytes(t *testing.T) {
	h := newHostileNode(t)
	for name, address := range h.listeners {
		t.Run(name, func(t *testing.T) {
			n := hostileRounds(t, 200, func(r *rand.Rand) {
				c, err := net.DialTimeout("tcp", address, 10*time.Second)
				if err != nil {
					return // its backlog is full: that is a refusal too
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(50 * time.Millisecond))
				_, _ = c.Write(firstBytes(r)) // the node may have closed already
				_, _ = io.Copy(io.Discard, io.LimitReader(c, 64<<10))
			})
			h.mustServe(t, "after first bytes to "+name)
			t.Logf("%d connections to %s, node at %d MiB", n, name, rssMiB(h.Pid()))
		})
	}
	if rss := rssMiB(h.Pid()); rss > 1024 {
		t.Errorf("the node has %d MiB", rss)
	}
}

// TestSecurityListenersAreApart: a client's certificate opens neither the peers' listener
// nor Raft's, and a node's opens no listener of clients.
func TestSecurityListenersAreApart(t *testing.T) {
	h := newHostileNode(t)
	// shakes reports whether the listener takes the certificate: it says so, or not, in
	// what it sends first.
	// One that takes a wrong certificate would say so within the time that is given to those.
	shakes := func(address string, show, trust *tls.Config, within time.Duration) error {
		t.Helper()
		config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: show.Certificates, RootCAs: trust.RootCAs, NextProtos: []string{"h2"}}
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: within}, "tcp", address, config)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(2 * time.Second))
		_, err = c.Read(make([]byte, 1))
		if n, ok := err.(net.Error); err == io.EOF || ok && n.Timeout() {
			return nil // it waits for our first word
		}
		return err
	}
	for _, c := range []struct {
		listener    string
		show, trust *tls.Config
		refused     bool
	}{
		{"peers", h.nodes, h.nodes, false},
		{"peers", h.tls, h.nodes, true},
		{"raft", h.nodes, h.nodes, false},
		{"raft", h.tls, h.nodes, true},
		{"client", h.tls, h.tls, false},
		{"client", h.nodes, h.tls, true},
		{"actors", h.nodes, h.tls, true},
		{"etcd", h.nodes, h.tls, true},
	} {
		within := 30 * time.Second
		if c.refused {
			within = 3 * time.Second
		}
		if err := shakes(h.listeners[c.listener], c.show, c.trust, within); (err != nil) != c.refused {
			t.Errorf("%s: %v, want refused %v", c.listener, err, c.refused)
		}
	}
	h.mustServe(t, "after the wrong certificates")
}

// rawFrames sends bytes where a client sends messages.
type rawFrames struct{}

func (rawFrames) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawFrames) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawFrames) Name() string                         { return "proto" }

// TestSecurityFrames: after a valid start, frames with bytes changed, operations of every
// kind among them, and of any size. The stream may end; nothing else may.
func TestSecurityFrames(t *testing.T) {
	h := newHostileNode(t)
	cc, err := grpc.NewClient("passthrough:///"+h.Listen, grpc.WithTransportCredentials(credentials.NewTLS(h.tls)),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawFrames{}), grpc.MaxCallSendMsgSize(200<<20)))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	desc := &grpc.StreamDesc{StreamName: "Connect", ClientStreams: true, ServerStreams: true}
	hello, err := proto.Marshal(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: &messages.ClientHello{Protocol: messages.ProtocolVersion, ClientEpoch: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	n := hostileRounds(t, 200, func(r *rand.Rand) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		s, err := cc.NewStream(ctx, desc, "/concord.v1.Sessions/Connect")
		if err != nil {
			return
		}
		if s.SendMsg(hello) != nil || s.RecvMsg(nil) != nil {
			return
		}
		for call := range 1 + r.IntN(6) {
			if s.SendMsg(badFrame(r, uint64(call+1))) != nil {
				return
			}
		}
		if s.CloseSend() == nil {
			for s.RecvMsg(nil) == nil {
			}
		}
	})
	large, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s, err := cc.NewStream(large, desc, "/concord.v1.Sessions/Connect"); err == nil {
		_ = s.SendMsg(hello)
		_ = s.SendMsg(make([]byte, 100<<20)) // refused: by an error here, or on the other side
		for s.RecvMsg(nil) == nil {
		}
	}
	h.mustServe(t, "after bad frames")
	rss := rssMiB(h.Pid())
	t.Logf("%d streams of bad frames, node at %d MiB", n, rss)
	if rss > 1024 {
		t.Errorf("the node has %d MiB", rss)
	}
}

// badFrame is a frame of a random operation of the matrix, with some bytes changed.
func badFrame(r *rand.Rand, call uint64) []byte {
	v := securityVerbs[r.IntN(len(securityVerbs))]
	if strings.HasPrefix(v.name, "remove_member") || v.name == "change_auth" {
		v = securityVerbs[0]
	}
	f := &messages.Frame{ClientEpoch: 1, FirstCall: call, TimeoutMs: 1_000, Operations: []*messages.Operation{v.op(&securityFixture{lease: r.Uint64N(4), unique: r.IntN(1_000)})}}
	b, err := proto.Marshal(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: f}})
	if err != nil {
		return nil
	}
	for range r.IntN(6) {
		switch i := r.IntN(len(b)); r.IntN(3) {
		case 0:
			b[i] ^= 1 << r.IntN(8)
		case 1:
			b = append(b[:i], b[i+r.IntN(len(b)-i):]...)
		default:
			b = append(b[:i:i], append([]byte{byte(r.Uint32())}, b[i:]...)...)
		}
		if len(b) == 0 {
			break
		}
	}
	return b
}
