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

// WatchCheck is a watch of every key through one member after the other, held against
// what watches promise: every revision once, in order, without a gap.
type WatchCheck struct {
	t    testing.TB
	name string
	s    *client.Client
	w    *client.Watcher
	done chan struct{}

	mu     sync.Mutex
	last   uint64 // revision that was delivered completely
	events map[uint64][]*messages.Event
	err    error
}

// StartWatch begins a watch of everything from revision 1 on.
func StartWatch(c *Cluster, name string) *WatchCheck {
	c.t.Helper()
	k := &WatchCheck{t: c.t, name: name, s: c.Client(), done: make(chan struct{}), events: map[uint64][]*messages.Event{}}
	w, err := k.s.Watch(c.t.Context(), Prefix(""), client.WatchOptions{From: 1})
	if err != nil {
		c.t.Fatal(err)
	}
	k.w = w
	go k.run(c.t.Context())
	c.t.Cleanup(func() {
		w.Close()
		<-k.done
	})
	return k
}

func (k *WatchCheck) run(ctx context.Context) {
	defer close(k.done)
	for {
		b, err := k.w.Next(ctx)
		if err != nil {
			k.mu.Lock()
			k.err = err
			k.mu.Unlock()
			return
		}
		if len(b.Events) == 0 {
			continue
		}
		k.mu.Lock()
		k.take(b.Events)
		k.mu.Unlock()
	}
}

// take checks one batch: one revision, the next one, op_index from 0 on.
func (k *WatchCheck) take(events []*messages.Event) {
	r := events[0].GetRevision()
	if r != k.last+1 {
		k.t.Errorf("watch %s: revision %d after %d", k.name, r, k.last)
	}
	for i, e := range events {
		if e.GetRevision() != r || e.GetOpIndex() != uint32(i) {
			k.t.Errorf("watch %s: event %d of revision %d is (%d, %d)", k.name, i, r, e.GetRevision(), e.GetOpIndex())
		}
	}
	k.last, k.events[r] = r, events
}

// WaitFor waits until a revision was delivered.
func (k *WatchCheck) WaitFor(revision uint64) {
	k.t.Helper()
	ctx := Deadline(k.t, 2*time.Minute)
	for {
		k.mu.Lock()
		last, err := k.last, k.err
		k.mu.Unlock()
		switch {
		case last >= revision:
			return
		case err != nil:
			k.t.Fatalf("watch %s ended at revision %d: %v", k.name, last, err)
		case ctx.Err() != nil:
			k.t.Fatalf("watch %s is at revision %d, not %d", k.name, last, revision)
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// Events returns the events up to a revision, by revision.
func (k *WatchCheck) Events(revision uint64) map[uint64][]*messages.Event {
	k.WaitFor(revision)
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[uint64][]*messages.Event{}
	for r, e := range k.events {
		all[r] = e
	}
	return all
}

// CheckAcked fails the test unless each acknowledged write is the event of its revision:
// none is lost, none came twice, none is another's.
func (k *WatchCheck) CheckAcked(acked []AckedWrite) {
	k.t.Helper()
	var last uint64
	for _, a := range acked {
		last = max(last, a.Revision)
	}
	events := k.Events(last)
	times := map[string]int{}
	for _, es := range events {
		for _, e := range es {
			if e.GetType() == messages.EventType_EVENT_TYPE_PUT {
				times[string(e.GetRecord().GetKey())+" "+string(e.GetRecord().GetValue())]++
			}
		}
	}
	wrong := 0
	for _, a := range acked {
		if wrong > 10 {
			return
		}
		es := events[a.Revision]
		if len(es) != 1 || string(es[0].GetRecord().GetKey()) != a.Key ||
			(es[0].GetType() == messages.EventType_EVENT_TYPE_DELETE) != a.Delete ||
			!a.Delete && string(es[0].GetRecord().GetValue()) != a.Value {
			wrong++
			k.t.Errorf("%s=%s was acknowledged at revision %d, which is %v", a.Key, a.Value, a.Revision, es)
		}
		if n := times[a.Key+" "+a.Value]; !a.Delete && n != 1 {
			wrong++
			k.t.Errorf("%s=%s took effect %d times", a.Key, a.Value, n)
		}
	}
}

// CheckList fails the test unless the events make the list that a member has.
func (k *WatchCheck) CheckList(ctx context.Context, m *Member) {
	k.t.Helper()
	r, err := m.Client().Revision(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	want := map[string]string{}
	events := k.Events(r.Revision)
	for rev := uint64(1); rev <= r.Revision; rev++ {
		for _, e := range events[rev] {
			if e.GetType() == messages.EventType_EVENT_TYPE_PUT {
				want[string(e.GetRecord().GetKey())] = fmt.Sprintf("%s@%d", e.GetRecord().GetValue(), rev)
			} else {
				delete(want, string(e.GetRecord().GetKey()))
			}
		}
	}
	for rec, err := range m.Client().Records(ctx, Prefix(""), client.ListOptions{Revision: r.Revision}) {
		if err != nil {
			k.t.Fatal(err)
		}
		if got := fmt.Sprintf("%s@%d", rec.GetValue(), rec.GetModRevision()); got != want[string(rec.GetKey())] {
			k.t.Errorf("node %d has %s=%s, the watch %s", m.ID, rec.GetKey(), got, want[string(rec.GetKey())])
		}
		delete(want, string(rec.GetKey()))
	}
	if len(want) > 0 {
		k.t.Errorf("node %d lacks %v", m.ID, want)
	}
}
