package clustertest

import (
	"math/rand/v2"
	"time"

	"github.com/concord-kv/concord/messages"
)

// Fault is something that happens to a cluster under load. It returns when it is over;
// every member runs then and can be reached.
type Fault struct {
	Name string
	// Network faults need a cluster with a Network.
	Network bool
	// Long is left to the long form: a test of its own has it in the short one.
	Long bool
	Do   func(c *Cluster, w *Workload, r *rand.Rand)
}

// writesMeanwhile must be acknowledged while a minority is away: the rest serves.
const writesMeanwhile = 50

// Faults are all that there are.
var Faults = []Fault{
	{Name: "kill-leader", Do: func(c *Cluster, w *Workload, _ *rand.Rand) { kill(c, w, c.Leader()) }},
	{Name: "kill-follower", Do: func(c *Cluster, w *Workload, r *rand.Rand) { kill(c, w, one(r, c.Followers())) }},
	{Name: "kill-all", Do: func(c *Cluster, w *Workload, _ *rand.Rand) {
		for _, m := range c.Members() {
			m.Kill()
		}
		for _, m := range c.Members() {
			m.Start()
		}
	}},
	{Name: "pause-leader", Do: func(c *Cluster, w *Workload, r *rand.Rand) { freeze(c, w, r, c.Leader()) }},
	{Name: "pause-follower", Do: func(c *Cluster, w *Workload, r *rand.Rand) { freeze(c, w, r, one(r, c.Followers())) }},
	{Name: "restart-leader", Do: func(c *Cluster, w *Workload, _ *rand.Rand) { restart(c, w, c.Leader()) }},
	{Name: "restart-follower", Do: func(c *Cluster, w *Workload, r *rand.Rand) { restart(c, w, one(r, c.Followers())) }},
	{Name: "isolate-leader", Network: true, Do: func(c *Cluster, w *Workload, r *rand.Rand) { isolate(c, w, c.Leader()) }},
	{Name: "isolate-follower", Network: true, Do: func(c *Cluster, w *Workload, r *rand.Rand) { isolate(c, w, one(r, c.Followers())) }},
	{Name: "isolate-minority", Network: true, Do: func(c *Cluster, w *Workload, r *rand.Rand) {
		// As many as may be missing, the leader among them.
		group := []uint64{c.Leader().ID}
		for _, m := range c.Followers() {
			if len(group) < (len(c.IDs())-1)/2 {
				group = append(group, m.ID)
			}
		}
		c.Net.Isolate(group, c.IDs())
		w.WaitWrites(writesMeanwhile)
		c.Net.Heal()
	}},
	{Name: "leader-deaf", Network: true, Do: func(c *Cluster, w *Workload, r *rand.Rand) {
		// One way: it is heard and hears nobody.
		leader := c.Leader()
		for _, id := range c.IDs() {
			if id != leader.ID {
				c.Net.Hold(id, leader.ID)
			}
		}
		w.WaitWrites(writesMeanwhile)
		c.Net.Heal()
	}},
	{Name: "leader-cannot-reach-one", Network: true, Do: func(c *Cluster, w *Workload, r *rand.Rand) {
		leader, follower := c.Leader(), one(r, c.Followers())
		c.Net.Hold(leader.ID, follower.ID)
		w.WaitWrites(writesMeanwhile)
		c.Net.Heal()
	}},
	{Name: "slow-network", Network: true, Do: func(c *Cluster, w *Workload, r *rand.Rand) {
		for _, a := range c.IDs() {
			for _, b := range c.IDs() {
				c.Net.Delay(a, b, time.Duration(5+r.IntN(20))*time.Millisecond)
			}
		}
		w.WaitWrites(writesMeanwhile)
		c.Net.Heal()
	}},
	{Name: "move-leader", Do: func(c *Cluster, w *Workload, r *rand.Rand) {
		c.Operate(&messages.AdminRequest{Request: &messages.AdminRequest_MoveLeader{MoveLeader: &messages.MoveLeaderRequest{}}})
	}},
	{Name: "replace-node", Do: func(c *Cluster, w *Workload, r *rand.Rand) {
		old := one(r, c.Followers())
		old.Kill() // its disk is lost
		c.Replace(old.ID, c.NewID())
	}},
	{Name: "add-and-remove", Do: func(c *Cluster, w *Workload, r *rand.Rand) {
		m := c.Grow(c.NewID())
		w.WaitWrites(writesMeanwhile)
		if c.Leader() == m {
			c.Lead(c.Followers()[0])
		}
		c.Remove(m.ID)
	}},
}

// Replace puts a new node under a new id in the place of one that is gone: added
// without a vote, promoted when it has caught up, then the old one removed.
func (c *Cluster) Replace(old, id uint64) *Member {
	c.t.Helper()
	m := c.Grow(id)
	c.Remove(old)
	return m
}

// Grow adds a voting member: without a vote at first, promoted when it has caught up.
func (c *Cluster) Grow(id uint64) *Member {
	c.t.Helper()
	m := c.Add(id, true)
	ctx := Deadline(c.t, 2*time.Minute)
	if _, err := m.Client().Revision(ctx); err != nil {
		c.t.Fatalf("the new node does not serve: %v", err)
	}
	for {
		_, err := c.client(c.Endpoints()...).Operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_PromoteMember{
			PromoteMember: &messages.PromoteMemberRequest{ReplicaId: id},
		}})
		if err == nil {
			break
		}
		if ctx.Err() != nil || messages.CodeOf(err) != messages.Code_CODE_INVALID_ARGUMENT {
			c.t.Fatalf("promote %d: %v", id, err)
		}
		pause(ctx, 100*time.Millisecond) // it has not caught up
	}
	return m
}

func one(r *rand.Rand, from []*Member) *Member { return from[r.IntN(len(from))] }

func kill(c *Cluster, w *Workload, m *Member) {
	m.Kill()
	w.WaitWrites(writesMeanwhile)
	m.Start()
}

func restart(c *Cluster, w *Workload, m *Member) {
	if err := m.Stop(); err != nil {
		c.t.Errorf("node %d did not stop in order: %v", m.ID, err)
	}
	w.WaitWrites(writesMeanwhile)
	m.Start()
}

func isolate(c *Cluster, w *Workload, m *Member) {
	c.Net.Isolate([]uint64{m.ID}, c.IDs())
	w.WaitWrites(writesMeanwhile)
	c.Net.Heal()
}

// PauseMax bounds how long a process stands still.
var PauseMax = 2 * time.Second

func freeze(c *Cluster, w *Workload, r *rand.Rand, m *Member) {
	m.Pause()
	stopped := time.Now()
	w.WaitWrites(writesMeanwhile)
	pause(c.t.Context(), time.Second+time.Duration(r.Int64N(int64(PauseMax-time.Second)))-time.Since(stopped))
	m.Continue()
}
