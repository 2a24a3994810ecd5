package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// ConnectionsMax bounds the connections that a load of many clients shares, as the
// benchmarks of other systems do.
const ConnectionsMax = 100

// Target is where a workload goes: connections that its clients share.
type Target struct {
	clients []*client.Client
}

// Dial opens up to n connections (at most ConnectionsMax), each with its own
// exactly-once session. The caller closes the target.
func Dial(cfg client.Config, n int) (*Target, error) {
	t := &Target{}
	for range min(max(n, 1), ConnectionsMax) {
		c, err := client.New(cfg)
		if err != nil {
			t.Close()
			return nil, err
		}
		t.clients = append(t.clients, c)
	}
	return t, nil
}

// Close closes the connections.
func (t *Target) Close() {
	for _, c := range t.clients {
		_ = c.Close()
	}
}

// of returns the connection of a client.
func (t *Target) of(client int) *client.Client { return t.clients[client%len(t.clients)] }

// Keys says which records a workload touches. Keys have 12 bytes up to a hundred
// million of them.
type Keys struct {
	Prefix     string
	Count      int
	ValueBytes int
}

// DefaultKeys are 10,000 keys with values of 256 bytes.
var DefaultKeys = Keys{Prefix: "key/", Count: 10_000, ValueBytes: 256}

func (k Keys) key(i int) string { return fmt.Sprintf("%s%08d", k.Prefix, i%k.Count) }

func (k Keys) random() string { return k.key(rand.IntN(k.Count)) }

// value returns bytes that do not compress.
func (k Keys) value() []byte {
	b := make([]byte, k.ValueBytes)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// Put overwrites random keys.
func (t *Target) Put(k Keys) Op {
	value := k.value()
	return func(ctx context.Context, c int, _ uint64) error {
		_, err := t.of(c).Put(ctx, k.random(), value, client.PutOptions{NoPrev: true})
		return err
	}
}

// Get reads random keys, linearizably or stale.
func (t *Target) Get(k Keys, stale bool) Op {
	return func(ctx context.Context, c int, _ uint64) error {
		_, err := t.of(c).Get(ctx, k.random(), client.GetOptions{Stale: stale})
		return err
	}
}

// Fill puts every key once, pipelined.
func (t *Target) Fill(ctx context.Context, k Keys) error {
	const clients = 256
	value := k.value()
	errs := make(chan error, clients)
	for c := range clients {
		go func() {
			for i := c; i < k.Count; i += clients {
				if _, err := t.of(c).Put(ctx, k.key(i), value, client.PutOptions{NoPrev: true}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var first error
	for range clients {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// KeepAlive renews one lease for each client, made at its first operation.
func (t *Target) KeepAlive(clients int, ttl time.Duration) Op {
	leases := make([]uint64, clients)
	return func(ctx context.Context, c int, _ uint64) error {
		if leases[c] == 0 {
			g, err := t.of(c).Grant(ctx, ttl, client.GrantOptions{})
			if err != nil {
				return err
			}
			leases[c] = g.LeaseID
		}
		_, err := t.of(c).KeepAlive(ctx, leases[c], 0)
		return err
	}
}
