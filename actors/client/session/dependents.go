package session

import (
	"fmt"
	"maps"
	"slices"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// dependents are the rights that hang on a session: mutexes held, terms led. They are
// told inside the call that ends the session, before its lease is revoked: nobody else
// can have one of them before its holder was signalled.
type dependents struct {
	next uint64
	tell map[uint64]func(error)
}

// Attach has over called, once, when the session is lost or ended, with the Err of its
// lease; at once when it is already. over must not block: the other rights of the
// session wait for it, and so does Close. detach takes it back; it does not wait for an over that runs.
func (s *Session) Attach(over func(err error)) (detach func()) {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		over(s.Lease().Err())
		return func() {}
	}
	d := &s.dependents
	if d.tell == nil {
		d.tell = make(map[uint64]func(error))
	}
	d.next++
	id := d.next
	d.tell[id] = over
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		delete(s.dependents.tell, id)
		s.mu.Unlock()
	}
}

func (s *Session) tellDependents() {
	s.mu.Lock()
	all := s.dependents.tell
	s.dependents.tell = nil
	s.mu.Unlock()
	err := s.Lease().Err()
	for _, id := range slices.Sorted(maps.Keys(all)) { // who came first is told first
		all[id](err)
	}
	close(s.told)
}

// Client is the client that the session was opened with; nil after OpenWith.
func (s *Session) Client() *client.Client { return s.client }

// UniqueName returns a name that no call, of this or of any other session, returns
// again: keys made with it belong to one attempt alone.
func (s *Session) UniqueName() string {
	s.mu.Lock()
	s.names++
	n := s.names
	s.mu.Unlock()
	return fmt.Sprintf("%016x-%x", s.id, n)
}

// Refused takes the error of a request that attached a key to the session's lease. When
// it says that the lease is dead the session is lost with that cause.
func (s *Session) Refused(err error) {
	switch messages.CodeOf(err) {
	case messages.Code_CODE_UNKNOWN_LEASE, messages.Code_CODE_LEASE_NOT_FOUND, messages.Code_CODE_WRONG_INCARNATION:
		s.lose(err)
	}
}
