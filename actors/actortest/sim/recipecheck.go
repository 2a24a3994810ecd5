package sim

import (
	"errors"
	"strings"
	"time"

	"github.com/concord-kv/concord/actors/client/fence"
	"github.com/concord-kv/concord/actors/client/lease"
)

func (t *tour) place() string { return t.kind + "/" + t.subject }

// scheduled says whether the tour's process runs.
func (t *tour) scheduled() bool { return !t.client.paused && !t.client.closed }

// check holds P1 and P11 after every step: at most one scheduled process acts for a
// subject.
func (r *recipes) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, a := range r.tours {
		if a.lease == nil {
			continue
		}
		if a.state == tourHolding && a.scheduled() && a.lease.Context().Err() == nil {
			for _, b := range r.tours[i+1:] {
				if b.state == tourHolding && b.lease != nil && b.place() == a.place() && b.scheduled() && b.lease.Context().Err() == nil {
					r.two(a, b)
				}
			}
		}
	}
	r.unconfirmed()
}

// two looks at two that may have one right. Err, asked only now, sees a deadline that no
// timer has told of yet.
func (r *recipes) two(a, b *tour) {
	if a.ask() != nil || b.ask() != nil {
		return
	}
	promise := "P1"
	if a.kind == "flight" {
		promise = "P11"
	}
	r.world.failf(promise, "%s is held by %s of %s (token %d) and %s of %s (token %d)", a.place(),
		a.name, a.client.name, a.token, b.name, b.client.name, b.token)
}

// ask returns the lease's error and holds P3: the first stays.
func (t *tour) ask() error {
	err := t.lease.Err()
	switch {
	case t.first == nil:
		t.first = err
	case !errors.Is(err, t.first):
		t.world.failf("P3", "the lease of %s says %v, and has said %v", t.name, err, t.first)
	}
	return err
}

// unconfirmed holds P7: no holder counts on more than the ttl after a request of its
// that was applied had been handed to the log.
func (r *recipes) unconfirmed() {
	w := r.world
	for _, t := range r.tours {
		if t.s == nil || t.state == tourOver || !t.scheduled() {
			continue
		}
		left := t.s.Remaining()
		l := w.leases.leases[t.s.LeaseID()]
		if left <= 0 || l == nil {
			continue
		}
		if end := l.appliedFrom + time.Duration(l.ttlMs)*time.Millisecond; w.now+left > end {
			w.failf("P7", "session %s counts on its lease until %v, by what was applied it has it until %v", t.name, w.now+left, end)
		}
	}
}

// granted looks at a right that was just granted.
func (r *recipes) granted(t *tour) {
	w := r.world
	w.trace("grant %s to %s of %s, token %d", t.place(), t.name, t.client.name, t.token)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Grants++
	// P2.
	if t.token <= r.highest[t.place()] {
		w.failf("P2", "%s was granted to %s with token %d after token %d", t.place(), t.name, t.token, r.highest[t.place()])
	}
	r.highest[t.place()] = max(t.token, r.highest[t.place()])
	prefix := "/concord/" + t.place() + "/"
	mine, _ := w.entered(prefix, t.s.LeaseID())
	waited := false
	for _, o := range r.tours {
		if o == t || o.place() != t.place() || o.s == nil {
			continue
		}
		if o.state == tourHolding && !o.scheduled() && o.lease != nil && o.lease.Context().Err() == nil {
			r.stats.Overlaps++ // P12: nobody can tell a paused process
		}
		entered, ok := w.entered(prefix, o.s.LeaseID())
		waited = waited || ok && entered < mine && o.lease != nil
		// P10: who came first and still waits is served first.
		if t.kind != "flight" && o.state == tourWaiting && !o.cancelled && o.within == 0 && !o.try && ok && entered < mine &&
			w.leases.leases[o.s.LeaseID()] != nil && o.s.Lease().Context().Err() == nil {
			w.failf("P10", "%s was granted to %s, which came at revision %d; %s waits since revision %d", t.place(), t.name, mine, o.name, entered)
		}
	}
	if waited {
		r.stats.Waited++
	}
}

// entered is the revision at which a lease first put a key under a prefix.
func (w *World) entered(prefix string, leaseID uint64) (uint64, bool) {
	for _, events := range w.truth.events {
		for _, e := range events {
			if e.Rec.Lease() == leaseID && strings.HasPrefix(e.Rec.Key(), prefix) {
				return e.Rec.Mod(), true
			}
		}
	}
	return 0, false
}

// write is a holder's access to the resource. It holds P8: what has accepted a token
// accepts no lower one.
func (r *recipes) write(t *tour) {
	r.mu.Lock()
	at := r.resource[t.place()]
	if at == nil {
		at = &resource{}
		r.resource[t.place()] = at
	}
	r.mu.Unlock()
	err := at.guard.Do(t.place(), fence.Token(t.token), func() error {
		if t.token < at.accepted {
			r.world.failf("P8", "the guard of %s accepted token %d after %d", t.place(), t.token, at.accepted)
		}
		at.accepted = max(at.accepted, t.token)
		return nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, fence.ErrStale) {
		r.stats.Refused++
	} else {
		r.stats.Writes++
	}
}

// flew looks at what a flight came to: the value of a run that ended, its own or another's.
func (r *recipes) flew(t *tour, value string, joined bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if joined {
		r.stats.Joined++
	}
	for _, o := range r.tours {
		if o.kind == t.kind && o.name == value && o.subject == t.subject && o.ran && !o.fail && joined == (o != t) {
			return
		}
	}
	r.world.failf("P11", "flight %s of %s came to %q, joined %v: no run of it returned that", t.subject, t.name, value, joined)
}

// expired holds P1 where the cluster ends a lease: whoever runs and hangs on it has been
// told.
func (r *recipes) expired(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tours {
		if t.s != nil && t.s.LeaseID() == id && t.scheduled() && t.state != tourOver && t.s.Lease().Err() == nil {
			r.world.failf("P1", "lease %d of %s expired at %v and its session has not been warned", id, t.name, r.world.now)
		}
	}
}

// idle names a tour that has not ended, "" if all have. Of clients that are gone for good
// nothing ends.
func (r *recipes) idle() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tours {
		if t.state != tourOver && !t.client.paused {
			return t.name + " of " + t.client.name + " is " + tourStates[t.state]
		}
	}
	return ""
}

// final holds P3 and P4 when all is over: one signal at most, and none after an end.
func (r *recipes) final() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tours {
		if t.lease == nil || t.client.paused {
			continue
		}
		switch err := t.ask(); {
		case err == nil:
			r.world.failf("P3", "the lease of %s is neither lost nor ended, and its holder is gone", t.name)
		case t.signals > 1:
			r.world.failf("P3", "the holder of %s was signalled %d times", t.name, t.signals)
		case t.ended && t.kind != "flight" && (t.signals > 0 || !errors.Is(err, lease.ErrEnded)):
			r.world.failf("P4", "%s gave its right up; then it was signalled %d times, and its lease says %v", t.name, t.signals, err)
		case errors.Is(err, lease.ErrLost) && t.signals != 1:
			r.world.failf("P3", "the lease of %s is lost and its holder was signalled %d times", t.name, t.signals)
		}
	}
}
