package etcd

import (
	"context"
	"encoding/binary"
	"math"
	"sync"

	"github.com/concord-kv/concord/messages"
)

// leaseBase is added to the id of a lease without a chosen id: such ids are the last
// 2^54 of etcd's 2^63. Ids that clients choose lie below, so that the two never meet.
const leaseBase = int64(0x7FC0_0000_0000_0000)

// neverLease is an id that no lease has.
const neverLease = uint64(math.MaxInt64)

// leaseNote is the metadata of a record that is attached to a lease with a chosen id: our
// id and the chosen one, 8 bytes each. It outlives the lease, in history. It counts only
// while the record has that lease.
const leaseNote = "etcd-lease"

// leaseNames knows the chosen ids of leases. It is a cache: an id of ours is never used
// again, so that what it says of one is right for ever, and an alias that it has wrong
// meets unknown_lease.
type leaseNames struct {
	sessions *sessions

	mu      sync.Mutex
	byAlias map[uint64]uint64
	byID    map[uint64]uint64
}

// leaseNamesMax bounds the cache; when it is full it begins anew.
const leaseNamesMax = 200_000

func newLeaseNames(s *sessions) *leaseNames {
	return &leaseNames{sessions: s, byAlias: map[uint64]uint64{}, byID: map[uint64]uint64{}}
}

func (l *leaseNames) learn(alias, id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.byID) >= leaseNamesMax {
		clear(l.byID)
		clear(l.byAlias)
	}
	l.byAlias[alias], l.byID[id] = id, alias
}

// forget drops an alias that may stand for another lease by now.
func (l *leaseNames) forget(alias uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byAlias, alias)
}

// resolve returns our id of a lease that etcd's side calls id; 0 for 0. fresh looks it up
// again. A lease that does not exist is neverLease: whoever uses it is refused.
func (l *leaseNames) resolve(ctx context.Context, id int64, fresh bool) (uint64, error) {
	switch {
	case id == 0:
		return 0, nil
	case id < 0:
		return neverLease, nil
	case id > leaseBase:
		return uint64(id - leaseBase), nil
	}
	alias := uint64(id)
	if fresh {
		l.forget(alias)
	}
	l.mu.Lock()
	ours, known := l.byAlias[alias]
	l.mu.Unlock()
	if known {
		return ours, nil
	}
	r, err := l.sessions.query(ctx, &messages.Query{Query: &messages.Query_LeaseInfo{LeaseInfo: &messages.LeaseInfoRequest{Alias: alias}}})
	if refused(err, messages.Code_CODE_LEASE_NOT_FOUND) {
		return neverLease, nil
	}
	if err != nil {
		return 0, err
	}
	ours = r.GetLeaseInfo().GetLease().GetId()
	l.learn(alias, ours)
	return ours, nil
}

// name returns what etcd's side calls a lease of ours.
func (l *leaseNames) name(id uint64) int64 {
	if id == 0 {
		return 0
	}
	l.mu.Lock()
	alias, known := l.byID[id]
	l.mu.Unlock()
	if known {
		return int64(alias)
	}
	return leaseBase + int64(id)
}

// ofInfo returns the name of a lease that the node has shown.
func (l *leaseNames) ofInfo(i *messages.LeaseInfo) int64 {
	if a := i.GetAlias(); a != 0 && a <= uint64(leaseBase) {
		return int64(a)
	}
	return leaseBase + int64(i.GetId())
}

// ofRecord returns the name of the lease of a record, which may be long gone.
func (l *leaseNames) ofRecord(r *messages.Record) int64 {
	if r.GetLeaseId() == 0 {
		return 0
	}
	for _, e := range r.GetMetadata() {
		if e.GetName() == leaseNote && len(e.Value) == 16 && binary.BigEndian.Uint64(e.Value) == r.LeaseId {
			return int64(binary.BigEndian.Uint64(e.Value[8:]))
		}
	}
	return l.name(r.LeaseId)
}

// note returns the metadata of a record on lease ours, called id on etcd's side.
func note(ours uint64, id int64) []*messages.MetadataEntry {
	if id <= 0 || id > leaseBase {
		return nil
	}
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, ours), uint64(id))
	return []*messages.MetadataEntry{{Name: leaseNote, Value: b}}
}
