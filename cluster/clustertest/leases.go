package clustertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

// LeaseCheck holds leases through faults: a holder that keeps renewing never loses its
// own, and those that nobody renews end when they should, not earlier.
type LeaseCheck struct {
	t       testing.TB
	client  *client.Client
	holder  *session.Session
	watcher *client.Watcher
	cancel  context.CancelFunc
	group   sync.WaitGroup

	mu        sync.Mutex
	abandoned map[string]*abandoned // by key
}

type abandoned struct {
	asked, granted, gone time.Time
	cause                messages.EventCause
}

const (
	holderTTL    = 15 * time.Second
	abandonedTTL = 2 * time.Second
)

// StartLeases begins to hold one lease and to abandon one every second.
func StartLeases(c *Cluster) *LeaseCheck {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	k := &LeaseCheck{t: c.t, client: c.Client(), cancel: cancel, abandoned: map[string]*abandoned{}}
	var err error
	if k.holder, err = session.Open(Deadline(c.t, time.Minute), k.client, session.Options{TTL: holderTTL}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := k.client.Put(Deadline(c.t, time.Minute), "/held", nil, client.PutOptions{LeaseID: k.holder.LeaseID()}); err != nil {
		c.t.Fatal(err)
	}
	k.watcher, err = k.client.Watch(ctx, Prefix("/abandoned/"), client.WatchOptions{Types: []messages.EventType{messages.EventType_EVENT_TYPE_DELETE}})
	if err != nil {
		c.t.Fatal(err)
	}
	k.group.Go(func() { k.watch(ctx) })
	k.group.Go(func() { k.grant(ctx) })
	c.t.Cleanup(k.stop)
	return k
}

func (k *LeaseCheck) stop() {
	k.cancel()
	k.group.Wait()
}

func (k *LeaseCheck) grant(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprintf("/abandoned/%04d", n)
		a := &abandoned{asked: time.Now()}
		l, err := k.client.Grant(ctx, abandonedTTL, client.GrantOptions{})
		a.granted = time.Now()
		if err == nil {
			k.mu.Lock()
			k.abandoned[key] = a
			k.mu.Unlock()
			if _, err = k.client.Put(ctx, key, nil, client.PutOptions{LeaseID: l.LeaseID}); err != nil {
				// It may have ended before, when the put took long.
				k.mu.Lock()
				delete(k.abandoned, key)
				k.mu.Unlock()
			}
		}
		pause(ctx, time.Second)
	}
}

func (k *LeaseCheck) watch(ctx context.Context) {
	for {
		b, err := k.watcher.Next(ctx)
		if err != nil {
			return
		}
		k.mu.Lock()
		for _, e := range b.Events {
			if a := k.abandoned[string(e.GetRecord().GetKey())]; a != nil {
				a.gone, a.cause = time.Now(), e.GetCause()
			}
		}
		k.mu.Unlock()
	}
}

// Check fails the test unless the holder still has its lease, no lease ended before its
// ttl had passed since it was asked for, and every other one has ended. trouble is how
// long, at most, the cluster was without a leader that could commit; a lease may live
// that much longer, and a tick.
func (k *LeaseCheck) Check(trouble time.Duration) {
	k.t.Helper()
	if err := k.holder.Lease().Err(); err != nil {
		k.t.Errorf("the holder that kept renewing lost its lease: %v", err)
	}
	info, err := k.client.LeaseInfo(Deadline(k.t, time.Minute), k.holder.LeaseID(), client.LeaseInfoOptions{Keys: true})
	if err != nil {
		k.t.Errorf("the lease that was kept alive: %v", err)
	} else if len(info.Keys) != 1 {
		k.t.Errorf("the lease that was kept alive has keys %q", info.Keys)
	}
	slack := trouble + 3*time.Second
	pause(k.t.Context(), abandonedTTL+slack)
	k.mu.Lock()
	defer k.mu.Unlock()
	latest, count := time.Duration(0), 0
	for key, a := range k.abandoned {
		if a.gone.IsZero() {
			if time.Since(a.granted) > abandonedTTL+slack {
				k.t.Errorf("%s is still there %v after its grant", key, time.Since(a.granted))
			}
			continue
		}
		count++
		if a.cause != messages.EventCause_EVENT_CAUSE_EXPIRED {
			k.t.Errorf("%s ended by %v", key, a.cause)
		}
		if d := a.gone.Sub(a.asked); d < abandonedTTL {
			k.t.Errorf("%s ended %v after it was asked for, before its ttl of %v", key, d, abandonedTTL)
		}
		latest = max(latest, a.gone.Sub(a.granted)-abandonedTTL)
	}
	if latest > slack {
		k.t.Errorf("a lease outlived its ttl by %v; the cluster was in trouble for %v at most", latest, trouble)
	}
	k.t.Logf("%d abandoned leases ended, the latest %v after its ttl", count, latest)
}
