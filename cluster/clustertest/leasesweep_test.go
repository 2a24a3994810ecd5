package clustertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// TestKeepAliveAcrossTheDeadline sends one keep-alive to each of many leases, from well
// before its deadline to well after, in steps of 10 ms. There are two outcomes: it was
// renewed and its key lives on for the whole ttl, or it is not found and its key goes.
// What was not found once is never found again.
func TestKeepAliveAcrossTheDeadline(t *testing.T) {
	const (
		ttl  = 2 * time.Second
		step = 10 * time.Millisecond
		side = 30
	)
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	k := c.Client()
	ctx := Deadline(t, 3*time.Minute)
	w, err := k.Watch(ctx, Prefix("/sweep/"), client.WatchOptions{Types: []messages.EventType{messages.EventType_EVENT_TYPE_DELETE}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var mu sync.Mutex
	gone := map[string]chan time.Time{}
	go func() {
		for {
			b, err := w.Next(ctx)
			if err != nil {
				return
			}
			now := time.Now()
			mu.Lock()
			for _, e := range b.Events {
				gone[string(e.GetRecord().GetKey())] <- now
			}
			mu.Unlock()
		}
	}()
	var group sync.WaitGroup
	renewed, lost := 0, 0
	for i := -side; i <= side; i++ {
		key, over := fmt.Sprintf("/sweep/%d", i), make(chan time.Time, 2)
		mu.Lock()
		gone[key] = over
		mu.Unlock()
		group.Go(func() {
			ok, err := sweep(ctx, k, key, ttl, time.Duration(i)*step, over)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Errorf("%v from the deadline: %v", time.Duration(i)*step, err)
			case ok:
				renewed++
			default:
				lost++
			}
		})
	}
	group.Wait()
	t.Logf("%d were renewed, %d were not found", renewed, lost)
	if lost == 0 {
		t.Error("none was late: nothing was tested")
	}
}

// sweep grants a lease with a key, renews it once at an offset from its deadline, and
// waits for the end of the key.
func sweep(ctx context.Context, k *client.Client, key string, ttl, offset time.Duration, gone <-chan time.Time) (renewed bool, err error) {
	g, err := k.Grant(ctx, ttl, client.GrantOptions{})
	if err != nil {
		return false, err
	}
	granted := time.Now()
	if _, err := k.Put(ctx, key, nil, client.PutOptions{LeaseID: g.LeaseID}); messages.CodeOf(err) == messages.Code_CODE_UNKNOWN_LEASE {
		return false, nil // so slow a machine that it was over before the put
	} else if err != nil {
		return false, err
	}
	pause(ctx, time.Until(granted.Add(ttl+offset)))
	sent := time.Now()
	r, err := k.KeepAlive(ctx, g.LeaseID, 0)
	switch messages.CodeOf(err) {
	case messages.Code_CODE_OK:
		if r.TTL != ttl || r.Remaining <= 0 || r.Remaining > ttl {
			return true, fmt.Errorf("renewed for %v, of which %v remain", r.TTL, r.Remaining)
		}
		select {
		case at := <-gone:
			if lived := at.Sub(sent); lived < ttl {
				return true, fmt.Errorf("it was renewed for %v and was gone after %v", ttl, lived)
			}
		case <-ctx.Done():
			return true, fmt.Errorf("it stays: %w", ctx.Err())
		}
		return true, nil
	case messages.Code_CODE_LEASE_NOT_FOUND:
		if _, err := k.KeepAlive(ctx, g.LeaseID, 0); messages.CodeOf(err) != messages.Code_CODE_LEASE_NOT_FOUND {
			return false, fmt.Errorf("not found, and then: %w", err)
		}
		select {
		case <-gone:
			return false, nil
		case <-ctx.Done():
			return false, fmt.Errorf("not found, and its key stays: %w", ctx.Err())
		}
	}
	return false, err
}
