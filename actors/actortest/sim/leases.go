package sim

import (
	"time"

	"github.com/concord-kv/concord/messages"
)

// leaseModel says what every explicit lease must be, from the commands of the log
// alone: an independent reading of the rules.
type leaseModel struct {
	world                 *World
	clockMs               int64
	epoch, replica, nonce uint64
	leases                map[uint64]*modelLease
	sessions              map[uint64]uint64 // session -> lease

	proposedAt map[string]time.Duration // payload -> when it was proposed
	// latest is the committed stamp that was furthest ahead of real time, less the
	// time it was proposed at: no later one may be further ahead.
	stamped bool
	leadMs  float64
	at      time.Duration // when the entry that is looked at was proposed
	// stampedAt is when the latest command with a valid stamp was proposed.
	stampedAt time.Duration
	// lagMs is how far the stamps of lagEpoch are behind real time, at the least.
	lagEpoch uint64
	lagMs    float64
}

type modelLease struct {
	ttlMs, deadlineMs int64
	renewals          uint64
	session           uint64
	// appliedFrom is when the last grant or renewal that was applied had been handed to
	// the log.
	appliedFrom time.Duration
	// safeUntil is the world's time before which no holder can have lost the right:
	// the send time of the last confirmed request plus ttl, by the fastest clock.
	safeUntil time.Duration
}

func (m *leaseModel) init(w *World) {
	*m = leaseModel{
		world: w, leases: map[uint64]*modelLease{}, sessions: map[uint64]uint64{}, proposedAt: map[string]time.Duration{},
	}
}

// rho bounds how wrong a monotonic clock of a world is.
const rho = 0.005

// proposed notes when a payload was handed to the log.
func (w *World) proposed(n *Node, payload []byte) {
	w.leases.proposedAt[string(payload)] = w.now
	w.trace("propose n%d %d bytes %016x", n.id, len(payload), hashBytes(payload))
}

// entry takes a committed entry and its results.
func (m *leaseModel) entry(n *Node, payload []byte, e *messages.Entry, results []*messages.Result) {
	valid := m.nonce != 0 && e.Epoch == m.epoch && e.ReplicaId == m.replica && e.Nonce == m.nonce
	at, known := m.proposedAt[string(payload)]
	delete(m.proposedAt, string(payload))
	if m.at = at; !known {
		m.at = m.world.now
	}
	for i, c := range e.Commands {
		r := results[i]
		if claim := c.GetClaimClock(); claim != nil {
			if r.GetError() == nil {
				if claim.ExpectedEpoch != m.epoch {
					m.world.failf("clock", "a claim that expects epoch %d applied in epoch %d", claim.ExpectedEpoch, m.epoch)
				}
				m.epoch, m.replica, m.nonce = m.epoch+1, claim.ReplicaId, claim.Nonce
				valid = false
			}
			continue
		}
		if c.GetBootstrap() != nil {
			continue
		}
		if !valid {
			if code := r.GetError().GetCode(); code != messages.Code_CODE_STALE_CLOCK {
				m.world.failf("clock", "a command of a stale epoch was answered %v", code)
			}
			continue
		}
		if known {
			m.stamp(at, c.StampMs)
		}
		m.clockMs, m.stampedAt = max(m.clockMs, c.StampMs), max(m.at, m.stampedAt)
		m.command(c, r)
	}
}

// stamp holds P6: stamps never run faster than real time.
func (m *leaseModel) stamp(at time.Duration, stampMs int64) {
	lead := float64(stampMs) - float64(at)/1e6*(1+rho)
	if m.stamped && lead > m.leadMs+2 {
		m.world.failf("P6", "stamp %d ms, proposed at %v, is %.0f ms further ahead than an earlier one", stampMs, at, lead-m.leadMs)
	}
	// The clock may fall behind for good, between leaders: the smallest lead counts.
	if !m.stamped || lead < m.leadMs {
		m.stamped, m.leadMs = true, lead
	}
	// P9: under one leader no time is lost, else an abandoned lease could live on.
	lag := float64(at)/1e6*(1-rho) - float64(stampMs)
	if m.lagEpoch == m.epoch && lag > m.lagMs+2 {
		m.world.failf("P9", "stamp %d ms, proposed at %v, is %.0f ms further behind than an earlier one of its epoch", stampMs, at, lag-m.lagMs)
	}
	if m.lagEpoch != m.epoch || lag < m.lagMs {
		m.lagEpoch, m.lagMs = m.epoch, lag
	}
}

func (m *leaseModel) live(l *modelLease) bool { return l != nil && m.clockMs < l.deadlineMs }

func (m *leaseModel) command(c *messages.Command, r *messages.Result) {
	w := m.world
	if r.GetReplayed() {
		return
	}
	ok := r.GetError() == nil
	switch op := c.Op.(type) {
	case *messages.Command_GrantLease:
		if ok {
			g := r.GetGrantLease()
			m.grant(g.LeaseId, op.GrantLease.TtlMs, 0)
		}
	case *messages.Command_OpenSession:
		if ok {
			s := r.GetOpenSession()
			m.grant(s.LeaseId, op.OpenSession.TtlMs, s.SessionId)
			m.sessions[s.SessionId] = s.LeaseId
		}
	case *messages.Command_CloseSession:
		if ok {
			m.end(m.sessions[op.CloseSession.SessionId])
		}
	case *messages.Command_RevokeLease:
		if ok {
			m.end(op.RevokeLease.LeaseId)
		}
	case *messages.Command_KeepAliveLease:
		l := m.leases[op.KeepAliveLease.LeaseId]
		switch {
		case ok && !m.live(l):
			w.failf("P5", "a keep-alive of lease %d succeeded at clock %d; its deadline is %s", op.KeepAliveLease.LeaseId, m.clockMs, deadline(l))
		case ok:
			if op.KeepAliveLease.NewTtlMs > 0 {
				l.ttlMs = op.KeepAliveLease.NewTtlMs
			}
			l.deadlineMs = max(l.deadlineMs, m.clockMs+l.ttlMs)
			l.renewals++
			l.appliedFrom = m.at
		case m.live(l) && r.GetError().GetCode() == messages.Code_CODE_LEASE_NOT_FOUND:
			w.failf("P5", "lease %d is refused at clock %d; its deadline is %s", op.KeepAliveLease.LeaseId, m.clockMs, deadline(l))
		}
	case *messages.Command_ExpireLeases:
		if ok {
			m.expire(op.ExpireLeases, r.GetExpireLeases())
		}
	case *messages.Command_Put:
		if id := op.Put.LeaseId; ok && id != 0 && !m.live(m.leases[id]) {
			w.failf("P5", "a key was attached to lease %d at clock %d; its deadline is %s", id, m.clockMs, deadline(m.leases[id]))
		}
	}
}

func (m *leaseModel) grant(id uint64, ttlMs int64, session uint64) {
	if m.leases[id] != nil {
		m.world.failf("P2", "lease id %d was given twice", id)
	}
	m.leases[id] = &modelLease{ttlMs: ttlMs, deadlineMs: m.clockMs + ttlMs, session: session, appliedFrom: m.at}
}

func (m *leaseModel) end(id uint64) {
	if l := m.leases[id]; l != nil {
		delete(m.sessions, l.session)
		delete(m.leases, id)
	}
}

// expire repeats what applying must have done.
func (m *leaseModel) expire(e *messages.ExpireLeases, r *messages.ExpireLeasesResult) {
	ended, others := uint32(0), uint32(0)
	for _, p := range e.Pairs {
		l := m.leases[p.LeaseId]
		switch {
		case l == nil:
			others++ // an anonymous one, perhaps
		case !m.live(l) && l.renewals == p.Renewals:
			ended++
			m.expired(p.LeaseId, l)
		}
	}
	if r.Expired < ended || r.Expired > ended+others {
		m.world.failf("P5", "an expiry ended %d leases; by the rules %d, and at most %d anonymous ones", r.Expired, ended, others)
	}
}
