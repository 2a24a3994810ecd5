package memlog

import (
	"github.com/concord-kv/concord/messages"
)

// SetNetwork changes how messages travel from now on. What is under way stays so.
func (c *Cluster) SetNetwork(n Network) { c.net = n }

// Reaches says whether the link from one replica to another is not cut.
func (c *Cluster) Reaches(from, to uint64) bool { return !c.cut[link{from, to}] }

// Cut drops everything from one replica to another, also what is under way. The
// other direction goes on.
func (c *Cluster) Cut(from, to uint64) { c.cut[link{from, to}] = true }

// Isolate cuts a replica off in both directions.
func (c *Cluster) Isolate(id uint64) {
	for _, other := range c.ids {
		if other != id {
			c.Cut(id, other)
			c.Cut(other, id)
		}
	}
}

// Partition heals everything and then cuts the links between groups. A replica in
// no group is isolated.
func (c *Cluster) Partition(groups ...[]uint64) {
	c.Heal()
	group := map[uint64]int{}
	for i, g := range groups {
		for _, id := range g {
			group[id] = i + 1
		}
	}
	for _, a := range c.ids {
		for _, b := range c.ids {
			if a != b && (group[a] != group[b] || group[a] == 0) {
				c.Cut(a, b)
			}
		}
	}
}

// Heal mends every link.
func (c *Cluster) Heal() { clear(c.cut) }

// StallDisk lets no sync of replica id end. The replica goes on until it has
// something to sync, and then handles neither messages nor time; what it has
// committed is still applied.
func (c *Cluster) StallDisk(id uint64) { c.node(id).stalled = true }

// ResumeDisk ends StallDisk. The ticks that were missed are then handled at once.
func (c *Cluster) ResumeDisk(id uint64) { c.node(id).stalled = false }

// Tear stops replica id as a loss of power in the middle of a sync does: of what was
// being written, some may be there, up to a random place. Without a sync it is Crash.
func (c *Cluster) Tear(id uint64) {
	n := c.node(id)
	if !n.up {
		return
	}
	if n.syncing {
		n.disk = n.disk.torn(n.mem, c.rng)
	}
	n.down()
}

// FillDisk leaves no room on the disk of replica id. Its next sync fails, and with it
// the replica, as dragonboat ends its process: it is down, nobody is told, and Failed
// says why. A snapshot that is being saved is abandoned; the replica goes on.
func (c *Cluster) FillDisk(id uint64) { c.node(id).full = true }

// FreeDisk makes room again; the replica may then be started.
func (c *Cluster) FreeDisk(id uint64) { c.node(id).full = false }

// Failed says why replica id stopped by itself in its last boot; nil if it did not.
func (c *Cluster) Failed(id uint64) error { return c.node(id).failure }

// fullDisk ends a boot whose sync has no room.
func (n *node) fullDisk() {
	n.failure = messages.NewError(messages.Code_CODE_UNAVAILABLE, "replica %d: no space left on device: free some and start it again", n.id)
	n.down()
}

// Pause stops replica id as SIGSTOP does: it handles nothing and its deadlines do
// not pass; the network keeps what it is sent.
func (c *Cluster) Pause(id uint64) { c.node(id).paused = true }

// Resume ends Pause.
func (c *Cluster) Resume(id uint64) { c.node(id).paused = false }

// HoldApply keeps replica id from applying, and so from acting on committed
// changes of the membership. It may become leader meanwhile.
func (c *Cluster) HoldApply(id uint64) { c.node(id).held = true }

// ReleaseApply ends HoldApply.
func (c *Cluster) ReleaseApply(id uint64) { c.node(id).held = false }

// AnswerKind is what becomes of a proposal.
type AnswerKind int

const (
	// Normal leaves it to the cluster.
	Normal AnswerKind = iota
	// Refused is refused at once as overloaded: not applied.
	Refused
	// Dropped is answered no_leader in a later step: not applied.
	Dropped
	// Lost never reaches the log and is answered timeout, unknown, at its deadline.
	Lost
	// Forgotten takes its course, and is answered timeout, unknown, at its deadline
	// all the same.
	Forgotten
)

// Answer decides about the next proposals at replica id, in order, until it crashes.
func (c *Cluster) Answer(id uint64, kinds ...AnswerKind) {
	n := c.node(id)
	n.answers = append(n.answers, kinds...)
}
