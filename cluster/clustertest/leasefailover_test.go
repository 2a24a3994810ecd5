package clustertest

import (
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// TestRemainingOverFailovers looks at a lease that nobody renews while leaders are killed.
// What remains of it falls by no more than the time that passed and does not grow, but for
// how far the nodes differ in what they show; and it ends within
// its ttl and the time without a leader, however many elections there are.
func TestRemainingOverFailovers(t *testing.T) {
	const (
		ttl   = 12 * time.Second
		kills = 2
		tick  = time.Second
		// Clocks of this machine do not drift, but milliseconds are cut off.
		slack = 20 * time.Millisecond
		// A node shows the clock of the last entry that it has applied, run on: by as much
		// as entries reach one node later than another it may be behind; a tick on a machine
		// that has other things to do.
		differ = tick
	)
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	k := c.Client()
	ctx := Deadline(t, 5*time.Minute)
	g, err := k.Grant(ctx, ttl, client.GrantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	granted := time.Now()
	type sample struct {
		asked, told time.Time
		remaining   time.Duration
	}
	last := sample{granted, granted, ttl}
	var grew, leaderless time.Duration
	killed := 0
	var down *Member
	for {
		s := sample{asked: time.Now()}
		l, err := k.LeaseInfo(ctx, g.LeaseID, client.LeaseInfoOptions{})
		s.told = time.Now()
		if messages.CodeOf(err) == messages.Code_CODE_LEASE_NOT_FOUND {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		s.remaining = time.Duration(l.GetRemainingTtlMs()) * time.Millisecond
		fell := last.remaining - s.remaining
		if passed := s.told.Sub(last.asked); fell > passed+slack {
			t.Errorf("%v of it went in %v", fell, passed)
		}
		if -fell > differ {
			t.Errorf("it grew from %v to %v", last.remaining, s.remaining)
		}
		grew = max(grew, -fell)
		if gap := s.told.Sub(last.told); gap > 500*time.Millisecond {
			leaderless += gap
		}
		last = s
		if killed < kills && s.remaining < ttl-time.Duration(killed+1)*3*time.Second {
			killed++
			if down != nil {
				down.Start()
				c.WaitServing()
			}
			down = c.Leader()
			down.Kill()
			last.told = time.Now()
		}
		pause(ctx, 20*time.Millisecond)
	}
	lived := time.Since(granted)
	leaderless += max(0, time.Since(last.told)-500*time.Millisecond)
	if lived < ttl {
		t.Errorf("it ended after %v of %v", lived, ttl)
	}
	// Starting a node and looking for the leader is in it: no more than the time in which
	// nobody answered.
	if most := ttl + leaderless + time.Duration(kills+1)*tick + 2*time.Second; lived > most {
		t.Errorf("it lived for %v, with a ttl of %v and %v without an answer", lived, ttl, leaderless)
	}
	t.Logf("%d leaders were killed; it lived for %v with a ttl of %v, %v of it without an answer; it grew by %v at most", killed, lived, ttl, leaderless, grew)
}
