package sim

import (
	"time"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// expired holds P1: the holder has been warned before anybody else can have the right.
func (m *leaseModel) expired(id uint64, l *modelLease) {
	w := m.world
	if w.now+2*time.Millisecond < l.safeUntil {
		w.failf("P5", "lease %d expired at %v; a confirmed request keeps it until %v at least", id, w.now, l.safeUntil)
	}
	w.recipes.expired(id)
	for _, c := range w.clients {
		if c.paused || c.closed {
			continue // P12: a paused process may break P1
		}
		for _, h := range c.holders {
			if s := h.session(); s != nil && s.LeaseID() == id && s.Lease().Err() == nil {
				w.failf("P1", "lease %d of holder %s of %s expired at %v and the holder has not been warned", id, h.name, c.name, w.now)
			}
		}
	}
	m.end(id)
}

// confirmed notes that a client was told that its request keeps a lease.
func (m *leaseModel) confirmed(id uint64, ttlMs int64, sentAt time.Duration) {
	if l := m.leases[id]; l != nil {
		l.safeUntil = max(l.safeUntil, sentAt+time.Duration(float64(ttlMs)*1e6*(1-rho)))
	}
}

// compare holds a state against the model.
func (m *leaseModel) compare(n *Node, v *state.View) {
	w := m.world
	if v.ClockMs() != m.clockMs {
		w.failf("P6", "n%d: the lease clock is at %d, by the stamps at %d", n.id, v.ClockMs(), m.clockMs)
		return
	}
	explicit := 0
	for id, l := range m.leases {
		info, ok := v.Lease(id, 0)
		switch {
		case !ok:
			w.failf("P5", "n%d: lease %d is gone at clock %d; its deadline is %s and nobody ended it", n.id, id, m.clockMs, deadline(l))
			return
		case info.RemainingTtlMs != max(0, l.deadlineMs-m.clockMs) || info.TtlMs != l.ttlMs || info.Renewals != l.renewals:
			w.failf("P5", "n%d: lease %d has ttl %d, %d left, %d renewals; by the rules %d, %d, %d", n.id, id,
				info.TtlMs, info.RemainingTtlMs, info.Renewals, l.ttlMs, max(0, l.deadlineMs-m.clockMs), l.renewals)
			return
		}
	}
	list, err := v.Query(&messages.Query{Query: &messages.Query_LeaseList{LeaseList: &messages.LeaseListRequest{Limit: messages.ListLimitMax}}}, state.Now{})
	if err != nil {
		w.failf("P5", "n%d: %v", n.id, err)
		return
	}
	for _, l := range list.GetLeaseList().GetLeases() {
		explicit++
		if m.leases[l.Id] == nil {
			w.failf("P5", "n%d: lease %d lives and should be gone", n.id, l.Id)
		}
	}
}

// overdue returns a lease that should have been expired by now, 0 if there is none.
func (m *leaseModel) overdue(graceMs int64) uint64 {
	worst := uint64(0)
	for id, l := range m.leases {
		if l.deadlineMs+graceMs < m.clockMs && (worst == 0 || id < worst) {
			worst = id
		}
	}
	return worst
}

func deadline(l *modelLease) any {
	if l == nil {
		return "long gone"
	}
	return time.Duration(l.deadlineMs) * time.Millisecond
}
