package peers

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// directory is who is reached where. Of two addresses of a replica the one that it
// gave when it started last counts. It is not safe for several goroutines.
type directory struct {
	self    uint64
	members map[uint64]*messages.MemberAddress
	removed map[uint64]bool
	version uint64 // rises with each change
}

func newDirectory(self *messages.MemberAddress, known []*messages.MemberAddress) *directory {
	d := &directory{self: self.GetReplicaId(), members: map[uint64]*messages.MemberAddress{}, removed: map[uint64]bool{}}
	d.members[d.self] = self
	d.version = 1
	d.merge(known)
	return d
}

// merge takes what another node knows and returns whether it was news. Nobody tells a
// node its own address.
func (d *directory) merge(known []*messages.MemberAddress) (changed bool) {
	for _, m := range known {
		id := m.GetReplicaId()
		if id == 0 || id == d.self || d.removed[id] {
			continue
		}
		old, ok := d.members[id]
		switch {
		case !ok && len(d.members) >= membersMax:
			continue
		case ok && (old.GetSinceUnixMs() > m.GetSinceUnixMs() || proto.Equal(old, m)):
			continue
		case ok && old.GetSinceUnixMs() == m.GetSinceUnixMs() && !fuller(old, m):
			continue
		}
		d.members[id] = proto.CloneOf(m)
		changed = true
	}
	if changed {
		d.version++
	}
	return changed
}

// fuller breaks the tie of two addresses from configuration, so that all nodes end with
// the same one.
func fuller(old, m *messages.MemberAddress) bool {
	text := func(a *messages.MemberAddress) string {
		return a.GetPeer() + " " + a.GetClient() + " " + a.GetRaft() + " " + a.GetEtcd()
	}
	if len(text(old)) != len(text(m)) {
		return len(text(m)) > len(text(old))
	}
	return text(m) > text(old)
}

// forget drops members that were removed from the cluster; they do not come back.
func (d *directory) forget(ids []uint64) (changed bool) {
	for _, id := range ids {
		if id == d.self || d.removed[id] {
			continue
		}
		d.removed[id] = true
		if _, ok := d.members[id]; ok {
			delete(d.members, id)
			changed = true
		}
	}
	if changed {
		d.version++
	}
	return changed
}

// all returns the members by id. What it points to does not change.
func (d *directory) all() []*messages.MemberAddress {
	return slices.SortedFunc(maps.Values(d.members), func(a, b *messages.MemberAddress) int {
		return cmp.Compare(a.GetReplicaId(), b.GetReplicaId())
	})
}
