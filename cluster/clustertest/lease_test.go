package clustertest

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// TestLeaseLapsesWithAThousandKeys: a lease of 3 s that nobody renews takes its
// 1,000 keys with it at one revision, 3 s to 4.5 s after the grant and never
// before; a watcher gets them as one batch that says they expired.
func TestLeaseLapsesWithAThousandKeys(t *testing.T) {
	const keys = 1_000
	n := NewNode(t)
	n.Start()
	c := n.Client()
	n.WaitReady(c)
	ctx := Deadline(t, time.Minute)

	w, err := c.Watch(ctx, Prefix("/w/"), client.WatchOptions{Types: []messages.EventType{messages.EventType_EVENT_TYPE_DELETE}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	asked := time.Now()
	lease, err := c.Grant(ctx, 3*time.Second, client.GrantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	granted := time.Now()
	for i := 0; i < keys; i += 500 {
		var puts []*messages.Put
		for j := i; j < i+500; j++ {
			puts = append(puts, client.PutOf(fmt.Sprintf("/w/%04d", j), []byte("v"), client.PutOptions{LeaseID: lease.LeaseID}))
		}
		if _, err := c.PutMany(ctx, puts...); err != nil {
			t.Fatal(err)
		}
	}
	batch, err := w.Next(ctx)
	gone := time.Now()
	if err != nil {
		t.Fatal(err)
	}
	if early := gone.Sub(asked); early < 3*time.Second {
		t.Errorf("gone after %s of 3 s", early)
	}
	if late := gone.Sub(granted); late > 20*time.Second { // the sweep and the bench measure how late; a loaded machine may be
		t.Errorf("gone only after %s", late)
	}
	t.Logf("gone %s after the grant was answered", gone.Sub(granted))
	if len(batch.Events) != keys {
		t.Fatalf("a batch of %d events", len(batch.Events))
	}
	for i, e := range batch.Events {
		if e.Revision != batch.Events[0].Revision || e.OpIndex != uint32(i) || e.Cause != messages.EventCause_EVENT_CAUSE_EXPIRED {
			t.Fatalf("event %d: revision %d, op_index %d, cause %s", i, e.Revision, e.OpIndex, e.Cause)
		}
	}
	l, err := c.List(ctx, Prefix("/w/"), client.ListOptions{CountOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if l.Count != 0 {
		t.Errorf("%d keys are left", l.Count)
	}
	if _, err := c.LeaseInfo(ctx, lease.LeaseID, client.LeaseInfoOptions{}); messages.CodeOf(err) != messages.Code_CODE_LEASE_NOT_FOUND {
		t.Errorf("info: %v", err)
	}
}

// TestHolderProcessIsKilled: a lease stays for as long as a process keeps it alive,
// and lapses once that process is killed.
func TestHolderProcessIsKilled(t *testing.T) {
	const ttl = 2 * time.Second
	n := NewNode(t)
	n.Start()
	c := n.Client()
	n.WaitReady(c)
	ctx := Deadline(t, time.Minute)
	w, err := c.Watch(ctx, Prefix("/held"), client.WatchOptions{Types: []messages.EventType{messages.EventType_EVENT_TYPE_DELETE}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	lease, err := c.Grant(ctx, ttl, client.GrantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(ctx, "/held", nil, client.PutOptions{LeaseID: lease.LeaseID}); err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(Binary(t), "lease", "keepalive", strconv.FormatUint(lease.LeaseID, 10), "--forever", "--endpoint", n.Listen)
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- holder.Wait() }()
	defer func() { _ = holder.Process.Kill() }()

	// Three times its ttl it must stay.
	held := Deadline(t, 3*ttl)
	if b, err := w.Next(held); err == nil {
		t.Fatalf("gone while it was kept alive: %v", b.Events)
	} else if held.Err() == nil {
		t.Fatal(err)
	}
	select {
	case err := <-exited:
		t.Fatalf("the holder ended: %v", err)
	default:
	}
	killed := time.Now()
	_ = holder.Process.Kill()
	b, err := w.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(killed); d > ttl+1500*time.Millisecond {
		t.Errorf("lapsed only %s after the holder was killed", d)
	}
	if b.Events[0].Cause != messages.EventCause_EVENT_CAUSE_EXPIRED {
		t.Errorf("cause %s", b.Events[0].Cause)
	}
	var ee *exec.ExitError
	if err := <-exited; !errors.As(err, &ee) {
		t.Errorf("the holder: %v", err)
	}
}
