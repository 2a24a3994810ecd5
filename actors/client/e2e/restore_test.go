package e2e

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/snapfile"
)

// standing is a node's clock whose ticks can be kept from it, so that what is due does
// not happen.
type standing struct {
	*recipetest.Clock
	still atomic.Bool
}

func (c *standing) Every(interval time.Duration, fn func()) (stop func()) {
	return c.Clock.Every(interval, func() {
		if !c.still.Load() {
			fn()
		}
	})
}

// backup reads a backup as `concord backup` does.
func backup(t *testing.T, ctx context.Context, c *client.Client) []byte {
	t.Helper()
	var all bytes.Buffer
	r := &messages.BackupRequest{}
	for {
		reply, err := c.Operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_Backup{Backup: r}})
		if err != nil {
			t.Fatal(err)
		}
		b := reply.GetBackup()
		all.Write(b.GetData())
		if b.GetLast() {
			return all.Bytes()
		}
		r = &messages.BackupRequest{BackupId: b.GetBackupId(), Piece: b.GetPiece() + 1}
	}
}

// A backup that has every kind of lease in it is read by the tools as a node would read
// it. What it restores ends the leases that somebody held, with their keys, before the
// first client comes; keys with a ttl of their own keep what remained of it and then go;
// new leases end in time.
func TestB027BackupOfLeasedKeys(t *testing.T) {
	clock := &standing{Clock: recipetest.NewClock()}
	n := startNodeWith(t, t.TempDir(), "", func(cfg *node.Config) { cfg.Clock = clock })
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	grant := func() uint64 {
		g, err := c.Grant(ctx, time.Hour, client.GrantOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return g.LeaseID
	}
	held, revoked := grant(), grant()
	for _, p := range []struct {
		key  string
		opts client.PutOptions
	}{
		{"/plain", client.PutOptions{}},
		{"/held", client.PutOptions{LeaseID: held}},
		{"/revoked", client.PutOptions{LeaseID: revoked}},
		{"/deleted", client.PutOptions{}},
		{"/later", client.PutOptions{TTL: time.Hour}},
		{"/due", client.PutOptions{TTL: 40 * time.Second}},
	} {
		mustPut(t, c, p.key, p.opts)
	}
	mustDelete(t, c, "/deleted")
	if keys, err := c.Revoke(ctx, revoked); err != nil || keys != 1 {
		t.Fatal(keys, err)
	}
	clock.still.Store(true)
	clock.Jump(2 * time.Minute)
	if g, err := c.Get(ctx, "/due", client.GetOptions{}); err != nil || g.Record == nil {
		t.Fatal("nothing can have removed it, past its ttl though it is:", g, err)
	}
	saved := backup(t, ctx, c)
	before, err := c.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	clock.still.Store(false)

	info, err := snapfile.Inspect(bytes.NewReader(saved))
	if err != nil || info.Header.GetRevision() != before.Revision {
		t.Fatal(info, err)
	}
	dir := t.TempDir()
	seed, err := node.Restore(bytes.NewReader(saved), node.RestoreOptions{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	restored := recipetest.NewClock()
	n = startNodeWith(t, dir, "", func(cfg *node.Config) { cfg.ClusterName, cfg.Clock = seed.Name(), restored })
	c = newClient(t, n.Addr())
	l, err := c.List(ctx, client.PrefixSelector("/"), client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*messages.Record{}
	for _, r := range l.Records {
		found[string(r.Key)] = r
	}
	if len(found) != 3 || found["/plain"].GetLeaseId() != 0 || found["/due"].GetLeaseId() == 0 || found["/later"].GetLeaseId() == 0 {
		t.Fatal(l.Records)
	}
	later, err := c.LeaseInfo(ctx, found["/later"].LeaseId, client.LeaseInfoOptions{})
	if err != nil || later.RemainingTtlMs <= 0 || later.RemainingTtlMs > time.Hour.Milliseconds() {
		t.Fatal(later, err)
	}
	for _, id := range []uint64{held, revoked} {
		if _, err := c.LeaseInfo(ctx, id, client.LeaseInfoOptions{}); messages.CodeOf(err) != messages.Code_CODE_LEASE_NOT_FOUND {
			t.Fatal(id, err)
		}
	}
	if g := grant(); g <= held || g <= revoked {
		t.Fatal("an id came again: ", g)
	}
	restored.Jump(41 * time.Second)
	mustPut(t, c, "/new", client.PutOptions{TTL: 200 * time.Millisecond})
	recipetest.Eventually(t, "what is due goes, and no more", func() bool {
		g, err := c.GetMany(ctx, []string{"/due", "/new", "/later"}, client.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(g.Records) == 3 && g.Records[0] == nil && g.Records[1] == nil && g.Records[2] != nil
	})
}
