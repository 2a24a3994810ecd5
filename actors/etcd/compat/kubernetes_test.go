package compat

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The shapes in which the storage of the Kubernetes apiserver uses etcd.

// create stores an object that must not exist.
func create(t *testing.T, c *clientv3.Client, key, value string) (revision int64, ok bool) {
	t.Helper()
	r := need(c.Txn(deadline(t, time.Minute)).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, value)).
		Else(clientv3.OpGet(key)).Commit())(t)
	return r.Header.Revision, r.Succeeded
}

// update replaces an object that must be as it was read; otherwise it answers what is there.
func update(t *testing.T, c *clientv3.Client, key, value string, mod int64) *clientv3.TxnResponse {
	t.Helper()
	return need(c.Txn(deadline(t, time.Minute)).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", mod)).
		Then(clientv3.OpPut(key, value)).
		Else(clientv3.OpGet(key)).Commit())(t)
}

// TestKubernetesObjects: create, guaranteed update, conditional delete.
func TestKubernetesObjects(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	rev, ok := create(t, c, "/registry/pods/a", "1")
	if !ok || rev != 2 {
		t.Fatalf("created %v at %d", ok, rev)
	}
	if _, ok := create(t, c, "/registry/pods/a", "again"); ok {
		t.Fatal("created twice")
	}
	if r := update(t, c, "/registry/pods/a", "2", rev); !r.Succeeded {
		t.Fatal("the update did not take")
	}
	r := update(t, c, "/registry/pods/a", "3", rev)
	if r.Succeeded {
		t.Fatal("an update of what had changed took")
	}
	kv := r.Responses[0].GetResponseRange().Kvs[0]
	if string(kv.Value) != "2" || kv.ModRevision != rev+1 || kv.Version != 2 {
		t.Fatalf("the conflict answers %v", kv)
	}
	d := need(c.Txn(deadline(t, time.Minute)).
		If(clientv3.Compare(clientv3.ModRevision("/registry/pods/a"), "=", kv.ModRevision)).
		Then(clientv3.OpDelete("/registry/pods/a")).
		Else(clientv3.OpGet("/registry/pods/a")).Commit())(t)
	if !d.Succeeded || d.Responses[0].GetResponseDeleteRange().Deleted != 1 {
		t.Fatalf("delete: %v", d)
	}
}

// TestKubernetesList pages through a list at the revision of its first page while objects
// change, and is told when that revision is gone.
func TestKubernetesList(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	ctx := deadline(t, 2*time.Minute)
	const n, page = 230, 50
	for i := range n {
		create(t, c, fmt.Sprintf("/registry/pods/%04d", i), "v")
	}
	key, end := "/registry/pods/", clientv3.GetPrefixRangeEnd("/registry/pods/")
	var revision int64
	got := 0
	for {
		opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(page)}
		if revision != 0 {
			opts = append(opts, clientv3.WithRev(revision))
		}
		r := need(c.Get(ctx, key, opts...))(t)
		if revision == 0 {
			revision = r.Header.Revision
		}
		if r.Count != int64(n-got) {
			t.Fatalf("after %d objects count is %d", got, r.Count)
		}
		got += len(r.Kvs)
		// What happens meanwhile does not show.
		need(c.Put(ctx, fmt.Sprintf("/registry/pods/%04d-new", got), "v"))(t)
		if !r.More {
			break
		}
		key = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
	if got != n {
		t.Fatalf("%d objects of %d", got, n)
	}
	latest := need(c.Get(ctx, "/registry/pods/", clientv3.WithPrefix(), clientv3.WithCountOnly()))(t)
	need(c.Compact(ctx, latest.Header.Revision))(t)
	if _, err := c.Get(ctx, key, clientv3.WithRange(end), clientv3.WithRev(revision)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Fatalf("a page at a revision that is gone: %v", err)
	}
}

// TestKubernetesWatch lists and watches on from there: each change once, in order, with
// previous values; and a bookmark says how far an idle watch has come.
func TestKubernetesWatch(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	ctx := deadline(t, 2*time.Minute)
	create(t, c, "/registry/pods/a", "1")
	list := need(c.Get(ctx, "/registry/pods/", clientv3.WithPrefix()))(t)
	rev, _ := create(t, c, "/registry/pods/b", "1")
	w := c.Watch(clientv3.WithRequireLeader(ctx), "/registry/pods/", clientv3.WithPrefix(), clientv3.WithPrevKV(),
		clientv3.WithRev(list.Header.Revision+1), clientv3.WithProgressNotify())
	update(t, c, "/registry/pods/b", "2", rev)
	var events []*clientv3.Event
	for len(events) < 2 {
		r := <-w
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		events = append(events, r.Events...)
	}
	if !events[0].IsCreate() || !events[1].IsModify() || string(events[1].PrevKv.Value) != "1" {
		t.Fatalf("events: %v", events)
	}
	other := need(c.Put(ctx, "/registry/services/x", "1"))(t).Header.Revision
	for {
		if err := c.RequestProgress(clientv3.WithRequireLeader(ctx)); err != nil {
			t.Fatal(err)
		}
		if r := <-w; r.IsProgressNotify() && r.Header.Revision >= other {
			return
		}
	}
}

// TestKubernetesCompaction: of several apiservers one compacts in each round, by a key
// whose version says whose turn it is.
func TestKubernetesCompaction(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	ctx := deadline(t, time.Minute)
	const key = "compact_rev_key"
	turn := func(version, rev int64) (int64, int64, bool) {
		r := need(c.Txn(ctx).
			If(clientv3.Compare(clientv3.Version(key), "=", version)).
			Then(clientv3.OpPut(key, fmt.Sprint(rev))).
			Else(clientv3.OpGet(key)).Commit())(t)
		if !r.Succeeded {
			return r.Responses[0].GetResponseRange().Kvs[0].Version, r.Header.Revision, false
		}
		return version + 1, r.Header.Revision, true
	}
	version, rev, won := turn(0, 0)
	if !won {
		t.Fatal("nobody had a turn before")
	}
	if v, _, won := turn(0, 0); won || v != version {
		t.Fatalf("a second winner of one round: version %d", v)
	}
	for range 5 {
		need(c.Put(ctx, "k", "v"))(t)
	}
	before := rev
	if version, rev, won = turn(version, rev); !won {
		t.Fatal("the winner lost its turn")
	}
	need(c.Compact(ctx, before))(t)
	if _, err := c.Get(ctx, "k", clientv3.WithRev(before-1)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Fatal(err)
	}
}

// TestKubernetesLeases: events share a lease and go together.
func TestKubernetesLeases(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	ctx := deadline(t, time.Minute)
	l := need(c.Grant(ctx, 1))(t)
	w := c.Watch(ctx, "/registry/events/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-w
	for i := range 20 {
		need(c.Put(ctx, fmt.Sprint("/registry/events/", i), "e", clientv3.WithLease(l.ID)))(t)
	}
	deleted := map[int64]int{}
	for n := 0; n < 20; {
		for _, e := range (<-w).Events {
			if e.Type == clientv3.EventTypeDelete {
				deleted[e.Kv.ModRevision]++
				n++
			}
		}
	}
	if len(deleted) != 1 {
		t.Fatalf("the keys of one lease went at %d revisions", len(deleted))
	}
}
