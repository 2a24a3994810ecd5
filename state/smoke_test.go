package state

import (
	"bytes"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// TestSmoke goes once through the life of a key.
func TestSmoke(t *testing.T) {
	m := New()
	index := uint64(0)
	apply := func(stamp int64, op *messages.Command) *messages.Result {
		index++
		op.StampMs = stamp
		return m.Apply(index, &messages.Entry{Epoch: 1, ReplicaId: 1, Nonce: 9, Commands: []*messages.Command{op}})[0]
	}
	apply(0, &messages.Command{Op: &messages.Command_Bootstrap{Bootstrap: &messages.Bootstrap{ClusterId: []byte("c"), Incarnation: 1, ApplyVersion: 1}}})
	apply(0, &messages.Command{Op: &messages.Command_ClaimClock{ClaimClock: &messages.ClaimClock{ReplicaId: 1, Nonce: 9}}})
	lease := apply(1000, &messages.Command{Op: &messages.Command_GrantLease{GrantLease: &messages.GrantLease{TtlMs: 2000}}}).GetGrantLease().GetLeaseId()
	r := apply(1000, &messages.Command{Op: &messages.Command_Put{Put: &messages.Put{Key: []byte("/a"), Value: []byte("1"), LeaseId: lease}}})
	if r.Error != nil || r.Revision != 1 {
		t.Fatal(r)
	}
	pairs, _ := m.Due(3000, 10)
	r = apply(3000, &messages.Command{Op: &messages.Command_ExpireLeases{ExpireLeases: &messages.ExpireLeases{Pairs: pairs}}})
	if r.GetExpireLeases().GetExpired() != 1 || r.Revision != 2 {
		t.Fatal(r)
	}
	if m.Digest() != m.FullDigest() {
		t.Fatal("digest")
	}
	var file bytes.Buffer
	if err := m.View().Save(&file); err != nil {
		t.Fatal(err)
	}
	l, err := Load(&file)
	if err != nil {
		t.Fatal(err)
	}
	if l.Digest() != m.Digest() || l.FullDigest() != m.Digest() {
		t.Fatal("digest of the copy")
	}
}
