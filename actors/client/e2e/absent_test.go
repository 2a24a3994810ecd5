package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// leave brings a key to an end, each in another way.
var leave = map[string]func(t *testing.T, c *client.Client, key string){
	"never there": func(*testing.T, *client.Client, string) {},
	"deleted": func(t *testing.T, c *client.Client, key string) {
		mustPut(t, c, key, client.PutOptions{})
		mustDelete(t, c, key)
	},
	"deleted and compacted": func(t *testing.T, c *client.Client, key string) {
		mustPut(t, c, key, client.PutOptions{})
		if _, err := c.Compact(testContext(t), mustDelete(t, c, key)); err != nil {
			t.Fatal(err)
		}
	},
	"expired": func(t *testing.T, c *client.Client, key string) {
		w, err := c.Watch(testContext(t), client.KeySelector(key), client.WatchOptions{Types: []messages.EventType{messages.EventType_EVENT_TYPE_DELETE}})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		mustPut(t, c, key, client.PutOptions{TTL: 200 * time.Millisecond})
		if _, err := w.Next(testContext(t)); err != nil {
			t.Fatal(err)
		}
	},
	"revoked": func(t *testing.T, c *client.Client, key string) {
		g, err := c.Grant(testContext(t), time.Minute, client.GrantOptions{})
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, c, key, client.PutOptions{LeaseID: g.LeaseID})
		if _, err := c.Revoke(testContext(t), g.LeaseID); err != nil {
			t.Fatal(err)
		}
	},
}

func mustPut(t *testing.T, c *client.Client, key string, opts client.PutOptions) {
	t.Helper()
	if _, err := c.Put(testContext(t), key, []byte("old"), opts); err != nil {
		t.Fatal(err)
	}
}

func mustDelete(t *testing.T, c *client.Client, key string) uint64 {
	t.Helper()
	d, err := c.Delete(testContext(t), client.KeySelector(key), client.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d.Revision
}

// However a key ended, of many that create it one wins.
func TestB089CreateAfterDelete(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	for how, end := range leave {
		key := "/b089/" + how
		end(t, c, key)
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				r, err := c.Create(ctx, key, fmt.Append(nil, i), client.PutOptions{})
				if err != nil {
					t.Error(err)
				}
				if r.Done {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%s: %d won", how, won.Load())
		}
	}
}

// However a key ended, it looks like one that never was, and begins anew.
func TestB090AbsentLooksTheSame(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	for how, end := range leave {
		t.Run(how, func(t *testing.T) {
			key := "/b090/" + how
			end(t, c, key)
			g, err := c.Get(ctx, key, client.GetOptions{})
			if err != nil || g.Record != nil {
				t.Fatal(g, err)
			}
			x, err := client.If(
				client.Exists(key, false), client.Version(key, client.Equal, 0), client.CreateRevision(key, client.Equal, 0),
				client.ModRevision(key, client.Equal, 0), client.LeaseOf(key, client.Equal, 0), client.Value(key, client.NotEqual, []byte("old")),
			).Then(client.OpGet(client.KeySelector(key), 10)).Commit(ctx, c)
			if err != nil || !x.Succeeded || len(x.Responses[0].GetGet().GetRecords()) != 0 {
				t.Fatal(x, err)
			}
			r, err := c.Create(ctx, key, []byte("new"), client.PutOptions{})
			if err != nil || !r.Done {
				t.Fatal(r, err)
			}
			g, err = c.Get(ctx, key, client.GetOptions{})
			want := &messages.Record{Key: []byte(key), Value: []byte("new"), CreateRevision: r.Revision, ModRevision: r.Revision, Version: 1}
			if err != nil || !proto.Equal(g.Record, want) {
				t.Fatal(g.Record, err)
			}
		})
	}
}
