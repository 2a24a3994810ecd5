package compat

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/concord-kv/concord/actors/node"
)

// user is a client that gives a name and a password.
func user(t testing.TB, name, password string, addresses ...string) *clientv3.Client {
	t.Helper()
	c := need(clientv3.New(clientv3.Config{Endpoints: addresses, DialTimeout: time.Minute, Username: name, Password: password}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// guard makes root, and ann, who may read and write below /ann/, and enables authorization.
func guard(t testing.TB, ctx context.Context, c *clientv3.Client) {
	t.Helper()
	need(c.UserAdd(ctx, "root", "rootpassword"))(t)
	need(c.UserGrantRole(ctx, "root", "root"))(t)
	need(c.UserAdd(ctx, "ann", "annspassword"))(t)
	need(c.RoleAdd(ctx, "ann"))(t)
	need(c.RoleGrantPermission(ctx, "ann", "/ann/", clientv3.GetPrefixRangeEnd("/ann/"), clientv3.PermissionType(clientv3.PermReadWrite)))(t)
	need(c.UserGrantRole(ctx, "ann", "ann"))(t)
	need(c.AuthEnable(ctx))(t)
}

// TestTokensAreRenewed: etcd's client outlives its tokens, which are good for a second:
// its calls, its watch, without a gap and without a repeat, its lease and its lock.
func TestTokensAreRenewed(t *testing.T) {
	n := need(node.Start(node.Config{Dir: t.TempDir(), Etcd: &node.Etcd{Address: "127.0.0.1:0", TokenTTL: time.Second}}))(t)
	t.Cleanup(func() { _ = n.Close() })
	ctx := deadline(t, 3*time.Minute)
	guard(t, ctx, client(t, n.EtcdAddr()))
	c := user(t, "ann", "annspassword", n.EtcdAddr())
	s := need(concurrency.NewSession(c, concurrency.WithTTL(60)))(t)
	m := concurrency.NewMutex(s, "/ann/lock")
	if err := m.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	w := c.Watch(ctx, "/ann/k", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if r := <-w; r.Err() != nil {
		t.Fatal(r.Err())
	}
	next, last := 0, int64(0)
	end := time.Now().Add(4 * time.Second) // the tokens of four seconds
	for puts := 0; time.Now().Before(end) || next < puts; {
		if time.Now().Before(end) {
			need(c.Put(ctx, fmt.Sprintf("/ann/k%05d", puts), "v"))(t)
			puts++
		}
		if next == puts {
			continue
		}
		r, ok := <-w
		if !ok || r.Err() != nil {
			t.Fatalf("the watch ended: %v", r.Err())
		}
		for _, e := range r.Events {
			if want := fmt.Sprintf("/ann/k%05d", next); string(e.Kv.Key) != want || e.Kv.ModRevision <= last {
				t.Fatalf("%s at %d after revision %d, want %s", e.Kv.Key, e.Kv.ModRevision, last, want)
			}
			last = e.Kv.ModRevision
			next++
		}
	}
	select {
	case <-s.Done():
		t.Fatal("the session is lost")
	default:
	}
	if err := m.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, "/other"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Fatal(err)
	}
}

// TestRightsGoWhileWatching: a watch ends when its rights do, the client's others go on;
// after another password nothing goes on.
func TestRightsGoWhileWatching(t *testing.T) {
	n := startNode(t)
	ctx := deadline(t, 2*time.Minute)
	guard(t, ctx, client(t, n.EtcdAddr()))
	root, c := user(t, "root", "rootpassword", n.EtcdAddr()), user(t, "ann", "annspassword", n.EtcdAddr())
	need(root.RoleAdd(ctx, "more"))(t)
	need(root.RoleGrantPermission(ctx, "more", "/more", "", clientv3.PermissionType(clientv3.PermRead)))(t)
	need(root.UserGrantRole(ctx, "ann", "more"))(t)
	own := c.Watch(ctx, "/ann/1", clientv3.WithCreatedNotify())
	more := c.Watch(ctx, "/more", clientv3.WithCreatedNotify())
	for _, w := range []clientv3.WatchChan{own, more} {
		if r := <-w; r.Err() != nil {
			t.Fatal(r.Err())
		}
	}
	need(root.UserRevokeRole(ctx, "ann", "more"))(t)
	need(root.Put(ctx, "/more", "secret"))(t)
	if r, ok := <-more; ok { // etcd's client closes the channel of a watch that the server cancels
		t.Fatalf("%v %v", r, r.Err())
	}
	need(root.Put(ctx, "/ann/1", "v"))(t)
	if r := <-own; r.Err() != nil || len(r.Events) != 1 {
		t.Fatalf("%v %v", r, r.Err())
	}
	need(root.UserChangePassword(ctx, "ann", "anotherpassword"))(t)
	if _, err := c.Put(ctx, "/ann/1", "v"); !errors.Is(err, rpctypes.ErrAuthFailed) {
		t.Fatalf("after another password: %v", err)
	}
	need(root.AuthDisable(ctx))(t)
}
