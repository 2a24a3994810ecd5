package state

import (
	"unsafe"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

func (m *Machine) put(r *messages.Result, p *messages.Put) *messages.Error {
	m.begin(false)
	prev, err := m.stagePut(p)
	if err != nil {
		return err
	}
	m.commit()
	r.Answer = putAnswer(prev, p.GetPrevKv())
	return nil
}

// putMany stores its records at one revision, or none of them. A key may come more
// than once: each put is an event and counts in version.
func (m *Machine) putMany(r *messages.Result, p *messages.PutMany) *messages.Error {
	m.begin(true)
	m.openJournal()
	results := make([]*messages.PutResult, len(p.GetPuts()))
	for i, put := range p.GetPuts() {
		prev, err := m.stagePut(put)
		if err == nil {
			results[i] = &messages.PutResult{}
			if put.GetPrevKv() && prev != "" {
				results[i].Prev = prev.Proto(false)
				err = m.write.answer.take(prev)
			}
		}
		if err != nil {
			m.abandon()
			return atElement(err, "puts", i)
		}
	}
	m.commit()
	r.Answer = &messages.Result_PutMany{PutMany: &messages.PutManyResult{Puts: results}}
	return nil
}

func (m *Machine) delete(r *messages.Result, d *messages.Delete) *messages.Error {
	m.begin(false)
	result, err := m.stageDelete(d)
	if err != nil {
		return err
	}
	m.commit()
	r.Answer = &messages.Result_Delete{Delete: result}
	return nil
}

func (m *Machine) touch(r *messages.Result, t *messages.Touch) *messages.Error {
	m.begin(false)
	remaining, err := m.stageTouch(t)
	if err != nil {
		return err
	}
	m.commit()
	r.Answer = &messages.Result_Touch{Touch: &messages.TouchResult{RemainingTtlMs: remaining}}
	return nil
}

// stagePut checks one put and stages its record and its change of leases. It
// returns the record that it replaces, "" for none. After an error nothing has
// changed.
func (m *Machine) stagePut(p *messages.Put) (prev store.Rec, err *messages.Error) {
	key := keyOf(p.GetKey())
	prev, exists := m.current(key)
	if !exists {
		prev = ""
		if p.GetIgnoreValue() || p.GetIgnoreLease() {
			return "", keyNotFound()
		}
	}
	var held uint64
	if exists {
		held = prev.Lease()
	}
	bind, err := m.planBinding(held, p)
	if err != nil {
		return "", err
	}
	f := store.Fields{
		Key: key, ValueBytes: p.GetValue(), ContentType: p.GetContentType(), Metadata: p.GetMetadata(), Lease: bind.lease,
	}
	if p.GetIgnoreValue() {
		f.Value, f.ValueBytes = prev.Value(), nil
		// Content type and metadata describe the value: they stay with it unless the
		// put brings its own.
		if f.ContentType == "" {
			f.ContentType = prev.ContentType()
		}
		if len(f.Metadata) == 0 {
			f.Metadata = prev.Metadata()
		}
	}
	rec := m.successor(prev, f)
	if err := m.room(rec); err != nil {
		return "", err
	}
	m.bind(bind, held, rec.Key())
	m.stage(rec)
	return prev, nil
}

// successor makes the record that follows prev, which may be "".
func (m *Machine) successor(prev store.Rec, f store.Fields) store.Rec {
	f.Mod, f.Create, f.Version = m.write.revision, m.write.revision, 1
	if prev != "" {
		f.Create, f.Version = prev.Create(), prev.Version()+1
	}
	f.OpIndex, f.Cause = m.write.next(), messages.EventCause_EVENT_CAUSE_WRITTEN
	return store.Make(f)
}

// stageDelete stages the deletion of every key that the selector names. After an
// error nothing has changed, except in a tracked write, which is abandoned then.
func (m *Machine) stageDelete(d *messages.Delete) (*messages.DeleteResult, *messages.Error) {
	found, err := m.selected(d.GetSelector())
	if err != nil {
		return nil, err
	}
	result := &messages.DeleteResult{Deleted: uint64(len(found))}
	if d.GetPrevKv() {
		for _, r := range found {
			if err := m.write.answer.take(r); err != nil {
				return nil, err
			}
			result.Prev = append(result.Prev, r.Proto(false))
		}
	}
	for _, r := range found {
		m.stageTombstone(r, messages.EventCause_EVENT_CAUSE_DELETED)
		if id := r.Lease(); id != 0 {
			m.release(id, r.Key())
		}
	}
	return result, nil
}

// selected returns the live records that a selector names, at most as many as a
// command may change; more are refused.
func (m *Machine) selected(s *messages.Selector) ([]store.Rec, *messages.Error) {
	if by, one := s.GetBy().(*messages.Selector_Key); one {
		if r, ok := m.current(keyOf(by.Key)); ok {
			found := []store.Rec{r}
			return found, m.roomForKeys(found)
		}
		return nil, nil
	}
	var found []store.Rec
	var err *messages.Error
	lo, hi := store.Bounds(s)
	m.scan(lo, hi, false, func(r store.Rec) bool {
		found = append(found, r)
		if len(found) > messages.CommandKeysMax {
			err = tooManyKeys("selector")
		}
		return err == nil
	})
	if err == nil {
		err = m.roomForKeys(found)
	}
	return found, err
}

// roomForKeys refuses a command that would change more keys than one may.
func (m *Machine) roomForKeys(found []store.Rec) *messages.Error {
	n := m.write.keys() + len(found)
	if n <= messages.CommandKeysMax {
		return nil
	}
	if m.write.tracked {
		for _, r := range found {
			if _, again := m.write.find(r.Key()); again {
				n--
			}
		}
	}
	if n > messages.CommandKeysMax {
		return tooManyKeys("selector")
	}
	return nil
}

// stageTouch lengthens the time of a key that has a TTL, or gives it one.
func (m *Machine) stageTouch(t *messages.Touch) (remainingMs int64, err *messages.Error) {
	key := keyOf(t.GetKey())
	prev, ok := m.current(key)
	if !ok {
		return 0, keyNotFound()
	}
	if held := prev.Lease(); held != 0 {
		slot := m.mustFind(held)
		switch row := m.leases.at(slot); {
		case !m.live(row):
			return 0, unknownLease(held)
		case !row.anonymous:
			return 0, leaseConflict(held)
		}
		return m.renew(slot, t.GetTtlMs()), nil
	}
	if err := m.roomForLease(0); err != nil {
		return 0, err
	}
	rec := m.successor(prev, store.Fields{
		Key: key, Value: prev.Value(), Extra: prev, Lease: m.global.nextLeaseID,
	})
	if err := m.room(rec); err != nil {
		return 0, err
	}
	m.bind(binding{lease: m.global.nextLeaseID, ttlMs: t.GetTtlMs()}, 0, rec.Key())
	m.stage(rec)
	return t.GetTtlMs(), nil
}

// emptyPut is the answer of every put that does not ask for more.
var emptyPut = &messages.Result_Put{Put: &messages.PutResult{}}

func putAnswer(prev store.Rec, wanted bool) *messages.Result_Put {
	if !wanted || prev == "" {
		return emptyPut
	}
	return &messages.Result_Put{Put: &messages.PutResult{Prev: prev.Proto(false)}}
}

func keyNotFound() *messages.Error {
	return messages.NewError(messages.Code_CODE_KEY_NOT_FOUND, "the key does not exist").WithField("key")
}

func tooManyKeys(field string) *messages.Error {
	return messages.NewError(messages.Code_CODE_TOO_MANY_KEYS, "a command changes at most %d keys", messages.CommandKeysMax).
		WithField(field).WithLimit(messages.CommandKeysMax)
}

// keyOf returns a key as the store knows keys. It shares the memory of key, which
// nobody changes while the command is being applied; what is kept of a key is copied.
func keyOf(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }
