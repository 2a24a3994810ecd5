package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// ErrCleanUp is the cause of a loss when a key could not be deleted for one ttl. Kept
// alive by a session that goes on, it would stand in others' way for ever; without the
// session it goes with the lease.
var ErrCleanUp = errors.New("a key of the session could not be deleted in time")

// cleanUps are keys to be deleted: of waits that were given up, and of rights that were
// released without a confirmation. One goroutine works on them while there are any.
type cleanUps struct {
	keys    []cleanUp
	running bool
}

type cleanUp struct {
	key   string
	mine  *messages.Compare
	since time.Duration
}

const (
	cleanRetryMin = 20 * time.Millisecond
	cleanRetryMax = time.Second
)

// Release deletes a key of this session, if it is still the one that was created at
// createRevision. 0 is for a write whose outcome nobody knows: then it is deleted if it
// hangs on the session's lease. nil means that it is gone. After an error it goes on in
// the background until that is confirmed, even if ctx is over, so Release need not be
// repeated; it may be. When a whole ttl was not enough the session is lost.
func (s *Session) Release(ctx context.Context, key string, createRevision uint64) error {
	if createRevision == 0 {
		return s.ReleaseIf(ctx, key, client.LeaseOf(key, client.Equal, s.id))
	}
	return s.ReleaseIf(ctx, key, client.CreateRevision(key, client.Equal, createRevision))
}

// ReleaseIf is Release of a key that is the session's while the compare holds, and never
// again once it does not.
func (s *Session) ReleaseIf(ctx context.Context, key string, mine *messages.Compare) error {
	err := s.deleteOwn(ctx, key, mine)
	if err == nil {
		return nil
	}
	c := cleanUp{key, mine, s.clock.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return err // nobody renews the lease: the key goes with it
	}
	for _, have := range s.clean.keys {
		if have.key == key && proto.Equal(have.mine, mine) {
			return err
		}
	}
	s.clean.keys = append(s.clean.keys, c)
	if !s.clean.running {
		s.clean.running = true
		go s.cleanUp()
	}
	return err
}

// deleteOwn compares and deletes in one step: the key may be another holder's by now.
// Writes of a client are applied in the order in which it made them, so a create whose
// outcome is unknown was applied before this, or never is.
func (s *Session) deleteOwn(ctx context.Context, key string, mine *messages.Compare) error {
	_, err := client.If(mine).Then(client.OpDelete(client.KeySelector(key), client.DeleteOptions{})).Commit(ctx, s.client)
	return err
}

func (s *Session) cleanUp() {
	ctx, cancel := context.WithCancel(client.NameSteps(context.Background(), fmt.Sprintf("clean %x", s.id)))
	defer cancel()
	defer s.Attach(func(error) { cancel() })()
	for retry := cleanRetryMin; ; {
		s.mu.Lock()
		if s.over || len(s.clean.keys) == 0 {
			s.clean.keys, s.clean.running = nil, false
			s.mu.Unlock()
			return
		}
		next := s.clean.keys[0] // it stays there meanwhile: others only append
		s.mu.Unlock()

		err := s.deleteOwn(ctx, next.key, next.mine)
		if err != nil && s.clock.Now()-next.since >= s.opts.TTL {
			s.lose(ErrCleanUp)
		}
		s.mu.Lock()
		s.clean.keys = s.clean.keys[1:]
		if err != nil {
			s.clean.keys = append(s.clean.keys, next)
		}
		s.mu.Unlock()
		if err == nil {
			retry = cleanRetryMin
			continue
		}
		client.Pause(ctx, s.clock, retry)
		retry = min(2*retry, cleanRetryMax)
	}
}

// CleaningUp is how many keys wait to be deleted.
func (s *Session) CleaningUp() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clean.keys)
}
