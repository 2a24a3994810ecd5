package clustertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// TestGarbageOnThePort throws bytes of every kind at the client port: random ones,
// another protocol, a valid start of HTTP/2 with random frames behind it, frames
// that announce 16 MiB. The node stays as it was and honest clients notice nothing.
func TestGarbageOnThePort(t *testing.T) {
	n := NewNode(t)
	n.Start()
	c := n.Client()
	n.WaitReady(c)
	ctx := Deadline(t, 2*time.Minute)
	if _, err := c.Put(ctx, "/a", []byte("1"), client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	before := status(t, c)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	noise := func(size int) []byte {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for i := range 200 {
		var b []byte
		switch i % 5 {
		case 0:
			b = noise(rng.IntN(4096))
		case 1:
			b = []byte("GET /v1/kv/a HTTP/1.1\r\nHost: x\r\n\r\n")
		case 2:
			b = append([]byte(preface), noise(rng.IntN(4096))...)
		case 3:
			b = append([]byte(preface), 0xFF, 0xFF, 0xFF, 0, 0)
			b = binary.BigEndian.AppendUint32(b, 1)
			b = append(b, noise(1024)...)
		case 4:
			b = bytes.Repeat([]byte{0}, rng.IntN(1<<16))
		}
		conn, err := net.DialTimeout("tcp", n.Listen, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = conn.Write(b)
		_ = conn.Close()
	}
	after := status(t, c)
	if !n.Running() || after.Digest != before.Digest || after.Revision != before.Revision || after.UptimeMs < before.UptimeMs {
		t.Errorf("before %v\nafter %v", before, after)
	}
	if strings.Contains(n.Output(), "panic") {
		t.Error(n.Output())
	}
}

// TestBadInput: every bad request gets a code and names its field, and nothing
// changes.
func TestBadInput(t *testing.T) {
	n := NewNode(t)
	n.Start()
	c := n.Client()
	n.WaitReady(c)
	ctx := Deadline(t, time.Minute)
	if _, err := c.Put(ctx, "/a", []byte("1"), client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	before := status(t, c)
	long := strings.Repeat("k", 5<<10)
	for name, try := range map[string]struct {
		call  func() error
		code  messages.Code
		field string
	}{
		"empty key": {func() error { _, err := c.Put(ctx, "", nil, client.PutOptions{}); return err },
			messages.Code_CODE_INVALID_ARGUMENT, "key"},
		"5 KB key": {func() error { _, err := c.Put(ctx, long, nil, client.PutOptions{}); return err },
			messages.Code_CODE_INVALID_ARGUMENT, "key"},
		"get of a 5 KB key": {func() error { _, err := c.Get(ctx, long, client.GetOptions{}); return err },
			messages.Code_CODE_INVALID_ARGUMENT, "key"},
		"2 MiB value": {func() error { _, err := c.Put(ctx, "/b", make([]byte, 2<<20), client.PutOptions{}); return err },
			messages.Code_CODE_TOO_LARGE, "value"},
		"ttl 0": {func() error { _, err := c.Grant(ctx, 0, client.GrantOptions{}); return err },
			messages.Code_CODE_INVALID_ARGUMENT, "ttl_ms"},
		"unknown lease": {func() error { _, err := c.Put(ctx, "/b", nil, client.PutOptions{LeaseID: 404}); return err },
			messages.Code_CODE_UNKNOWN_LEASE, ""},
		"keep-alive of an unknown lease": {func() error { _, err := c.KeepAlive(ctx, 404, 0); return err },
			messages.Code_CODE_LEASE_NOT_FOUND, ""},
		"revoke of an unknown lease": {func() error { _, err := c.Revoke(ctx, 404); return err },
			messages.Code_CODE_LEASE_NOT_FOUND, ""},
		"future revision": {func() error { _, err := c.Get(ctx, "/a", client.GetOptions{Revision: 1 << 40}); return err },
			messages.Code_CODE_FUTURE_REVISION, ""},
		"list at a future revision": {func() error {
			_, err := c.List(ctx, Prefix("/"), client.ListOptions{Revision: 1 << 40})
			return err
		}, messages.Code_CODE_FUTURE_REVISION, ""},
		"negative revision": {func() error { _, err := c.Get(ctx, "/a", client.GetOptions{Revision: ^uint64(0)}); return err },
			messages.Code_CODE_INVALID_ARGUMENT, "revision"},
		"limit": {func() error { _, err := c.List(ctx, Prefix("/"), client.ListOptions{Limit: 10_001}); return err },
			messages.Code_CODE_INVALID_ARGUMENT, "limit"},
	} {
		err := try.call()
		var e *messages.Error
		if !errors.As(err, &e) || e.Code() != try.code || (try.field != "" && e.Detail.Field != try.field) {
			t.Errorf("%s: %v, want %s (%s)", name, err, messages.CodeName(try.code), try.field)
			continue
		}
		if e.Outcome() != messages.Outcome_OUTCOME_NOT_APPLIED {
			t.Errorf("%s: outcome %s", name, messages.OutcomeName(e.Outcome()))
		}
	}
	if after := status(t, c); after.Revision != before.Revision || after.Keys != before.Keys {
		t.Errorf("before %v\nafter %v", before, after)
	}
}

func status(t *testing.T, c *client.Client) *messages.StatusReply {
	t.Helper()
	s, err := c.Status(Deadline(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
