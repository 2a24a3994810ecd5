package sim

import (
	"fmt"
	"testing/synctest"
	"time"

	"github.com/concord-kv/concord/messages"
)

var recipeVerbs = []Verb{
	{"client lock", "NAME MUTEX ttl=DURATION hold=DURATION [try=1] [within=DURATION] [naive=1]", "takes a mutex on a session of its own, writes to what it guards, and unlocks", touring("mutex")},
	{"client campaign", "NAME ELECTION ttl=DURATION hold=DURATION [naive=1]", "stands for election, leads, and resigns", touring("election")},
	{"client fly", "NAME FLIGHT ttl=DURATION hold=DURATION [fail=1] [naive=1]", "runs something once for all who ask", touring("flight")},
	{"client register", "NAME KEY ttl=DURATION hold=DURATION", "keeps a key that exists while the client does", touring("registration")},
	{"client observe", "NAME ELECTION ttl=DURATION", "follows who leads until it is cancelled", touring("observation")},
	{"client leases", "", "counts the live leases that were granted, those of clients included", operation(func(*Client, args, *Op) *messages.Operation {
		return query(&messages.Query{Query: &messages.Query_LeaseList{LeaseList: &messages.LeaseListRequest{Limit: messages.ListLimitMax}}})
	})},
	{"client cancel", "NAME", "ends the context of what NAME does", onClient(func(w *World, c *Client, a args) error {
		w.recipes.stop(func(t *tour) bool { return t.client == c && t.name == a.word(0) })
		w.quiet()
		return nil
	})},
}

var recipeEndVerbs = []Verb{
	{"recipes finish", "", "mends everything and waits until every use of a recipe is over, then checks what must hold", func(w *World, _ args) error {
		w.FinishRecipes()
		return nil
	}},
	{"expect tour", "CLIENT NAME STATE", "how far a use of a recipe is", expecting(func(w *World, a args) (string, string) {
		w.recipes.mu.Lock()
		defer w.recipes.mu.Unlock()
		for _, t := range w.recipes.tours {
			if t.client.name == a.word(0) && t.name == a.word(1) {
				return tourStates[t.state], a.word(2)
			}
		}
		return "none", a.word(2)
	})},
}

func touring(kind string) func(*World, args) error {
	return onClient(func(w *World, c *Client, a args) error {
		t := &tour{
			client: c, name: a.word(0), kind: kind, subject: a.word(1), ttl: a.duration("ttl"), hold: a.duration("hold"),
			within: a.duration("within"), try: a.named["try"] != "", naive: a.named["naive"] != "", fail: a.named["fail"] != "",
		}
		if t.subject == "" {
			return fmt.Errorf("what of?")
		}
		w.recipes.begin(t)
		return nil
	})
}

// stop cancels tours.
func (r *recipes) stop(which func(*tour) bool) {
	r.mu.Lock()
	var stop []func()
	for _, t := range r.tours {
		if t.state != tourOver && which(t) {
			if t.state <= tourWaiting && !t.cancelled {
				r.stats.Cancelled++
			}
			t.cancelled = true
			stop = append(stop, t.cancel)
		}
	}
	r.mu.Unlock()
	for _, f := range stop {
		f()
		synctest.Wait() // what one sets off must not race with the next, nor with the world
	}
}

// How long a mended world may take: to have a leader whose clock runs, which waits for the
// timeout of each claim that was lost or forgotten; to end a lease that is past
// its deadline, a tick and what the log takes; for everybody in every line to have had a
// turn; and to end the leases of those who could not close their sessions.
const (
	electionMax = 90 * time.Second
	expiryMaxMs = 1_500
	turnsMax    = 300 * time.Second
	leaveMax    = 6 * time.Second
	settleMax   = 8 * time.Second // clients find the leader, and what was lost is made again
)

// FinishRecipes mends everything, waits until every tour is over and checks what must
// hold then.
func (w *World) FinishRecipes() {
	w.mend()
	calm := w.opts.Calm
	w.opts.Calm = true
	defer func() { w.opts.Calm = calm }()
	mended := w.now
	for w.leases.stampedAt <= mended || w.Leader() == 0 {
		if w.Failure() != nil || w.now > mended+electionMax {
			w.failf("P9", "no leader whose clock runs %v after all was mended", electionMax)
			return
		}
		w.Advance(time.Second)
	}
	w.Advance(settleMax)
	r := &w.recipes
	w.registered()
	r.stop(func(t *tour) bool { return t.kind == "observation" || t.kind == "registration" })
	for end := w.now + turnsMax; r.idle() != "" && w.now < end && w.Failure() == nil; {
		w.Advance(200 * time.Millisecond)
		// P9: nothing that is dead stands in anybody's way.
		if id := w.leases.overdue(expiryMaxMs); id != 0 {
			w.failf("P9", "lease %d is %d ms past its deadline", id, w.leases.clockMs-w.leases.leases[id].deadlineMs)
		}
	}
	if w.Failure() != nil {
		return
	}
	if who := r.idle(); who != "" {
		w.failf("P11", "%v after all was mended %s", turnsMax, who)
		return
	}
	r.final()
	w.Advance(leaveMax)
	for key, n := range w.left() {
		w.failf("rest", "%d keys are left under %s", n, key)
	}
}

// registered looks at registrations in a world that is well: one of those who want a key
// has it, and the key is its.
func (w *World) registered() {
	r := &w.recipes
	r.mu.Lock()
	defer r.mu.Unlock()
	want, have := map[string]string{}, map[string]int{}
	for _, t := range r.tours {
		if t.kind != "registration" || t.state > tourHolding || t.cancelled || t.client.paused {
			continue
		}
		key := "/reg/" + t.subject
		want[key] = t.name
		if t.reg == nil || !t.reg.State().Registered {
			continue
		}
		have[key]++
		if rec := w.truth.at(key, w.truth.revision()); rec == "" || rec.Lease() != t.reg.State().LeaseID {
			w.failf("registration", "%s says that it has %s; its lease is %d", t.name, key, t.reg.State().LeaseID)
		}
	}
	for key, name := range want {
		rec := w.truth.at(key, w.truth.revision())
		if have[key] > 1 {
			w.failf("P1", "%d have registered %s", have[key], key)
		} else if have[key] == 0 && rec == "" {
			w.failf("registration", "%s wants %s and nobody has it", name, key)
		}
	}
}

// left counts the keys of recipes that still exist.
func (w *World) left() map[string]int {
	left := map[string]int{}
	alive := map[string]bool{}
	for _, events := range w.truth.events {
		for _, e := range events {
			alive[e.Rec.Key()] = !e.Rec.Tombstone()
		}
	}
	for _, prefix := range []string{"/concord/", "/reg/"} {
		for k, on := range alive {
			if on && len(k) > len(prefix) && k[:len(prefix)] == prefix {
				left[prefix]++
			}
		}
	}
	return left
}
