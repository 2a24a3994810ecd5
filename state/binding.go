package state

import "github.com/concord-kv/concord/messages"

// binding is what a put does to the leases of its key.
type binding struct {
	lease  uint64 // of the new record
	attach bool   // to slot
	slot   int32
	ttlMs  int64 // of a new anonymous lease, 0 for none
}

// planBinding checks a put's wishes for a key that is attached to held (0 for
// none). It changes nothing.
func (m *Machine) planBinding(held uint64, p *messages.Put) (binding, *messages.Error) {
	heldSlot, anonymous := int32(0), false
	if held != 0 {
		heldSlot = m.mustFind(held)
		anonymous = m.leases.at(heldSlot).anonymous
	}
	switch {
	case p.GetIgnoreLease():
		if held != 0 && !m.live(m.leases.at(heldSlot)) {
			return binding{}, unknownLease(held)
		}
		return binding{lease: held}, nil
	case p.GetLeaseId() != 0:
		id := p.GetLeaseId()
		slot, ok := m.explicit(id)
		if !ok {
			return binding{}, unknownLease(id)
		}
		if held == id {
			return binding{lease: id}, nil
		}
		if m.actor != nil {
			if err := m.mayUse(slot, false, "lease_id"); err != nil {
				return binding{}, err
			}
		}
		if held != 0 && !anonymous && !p.GetMoveLease() {
			return binding{}, leaseConflict(held)
		}
		if most := m.config.GetLeaseKeysMax(); uint64(m.leases.at(slot).body.keys.len()) >= most {
			return binding{}, messages.NewError(messages.Code_CODE_LEASE_KEY_LIMIT, "lease %d has %d keys", id, most).
				WithField("lease_id").WithLease(id).WithLimit(most)
		}
		return binding{lease: id, attach: true, slot: slot}, nil
	case p.GetTtlMs() != 0:
		freed := 0
		if held != 0 {
			if !anonymous {
				e := leaseConflict(held)
				return binding{}, e.WithField("ttl_ms")
			}
			freed = 1
		}
		if err := m.roomForLease(freed); err != nil {
			return binding{}, err
		}
		return binding{lease: m.global.nextLeaseID, ttlMs: p.GetTtlMs()}, nil
	}
	return binding{}, nil
}

// bind does what planBinding planned.
func (m *Machine) bind(b binding, held uint64, key string) {
	if held != 0 && held != b.lease {
		m.release(held, key)
	}
	switch {
	case b.ttlMs != 0:
		_, slot := m.newLease(b.ttlMs, true, leaseBody{})
		m.attach(slot, key)
	case b.attach:
		m.attach(b.slot, key)
	}
}
