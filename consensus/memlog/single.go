package memlog

import (
	"context"
	"sync"
	"time"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// Single is a log of one replica in memory, for unit tests of what stands on the
// ports. It is always the leader and nothing fails. Unlike Cluster it has one
// goroutine of its own, and so calls its applier and its callbacks as a real log
// does: from elsewhere, in batches, with gaps between indexes.
type Single struct {
	applier  consensus.Applier
	listener consensus.Listener

	mu      sync.Mutex
	waiting []singleCall
	closed  bool
	applied uint64
	wake    chan struct{} // holds one token while calls wait
	stopped chan struct{}
}

type singleCall struct {
	payload []byte
	done    func([]*messages.Result, error)
	read    func(error)
}

var _ consensus.Log = (*Single)(nil)

// NewSingle starts a log over an empty applier. The listener, if any, is told of
// leader 0 and then of leader 1, in term 1. Close it.
func NewSingle(applier consensus.Applier, listener consensus.Listener) *Single {
	s := &Single{
		applier: applier, listener: listener,
		wake: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	go s.run()
	return s
}

func (s *Single) run() {
	defer close(s.stopped)
	if s.listener != nil {
		s.listener.LeaderChanged(0, 1)
		s.listener.LeaderChanged(1, 1)
	}
	index := uint64(2) // a bootstrap entry and the leader's empty one came first
	for range s.wake {
		s.mu.Lock()
		calls, closed := s.waiting, s.closed
		s.waiting = nil
		s.mu.Unlock()
		if closed {
			for _, c := range calls {
				c.fail(stopping())
			}
			return
		}
		var entries []consensus.Entry
		for _, c := range calls {
			if c.done != nil {
				index++
				entries = append(entries, consensus.Entry{Index: index, Payload: c.payload})
			}
		}
		if len(entries) > 0 {
			s.applier.Apply(entries)
			s.mu.Lock()
			s.applied = index
			s.mu.Unlock()
		}
		next := 0
		for _, c := range calls {
			if c.done != nil {
				c.done(entries[next].Results, nil)
				next++
			} else {
				c.read(nil)
			}
		}
	}
}

func (c singleCall) fail(err error) {
	if c.done != nil {
		c.done(nil, err)
	} else {
		c.read(err)
	}
}

func (s *Single) enqueue(c singleCall) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		c.fail(stopping())
		return
	}
	s.waiting = append(s.waiting, c)
	s.mu.Unlock()
	s.signal()
}

func (s *Single) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Propose implements consensus.Log. The timeout is not used.
func (s *Single) Propose(payload []byte, _ time.Duration, done func([]*messages.Result, error)) {
	s.enqueue(singleCall{payload: append([]byte(nil), payload...), done: done})
}

// ReadIndex implements consensus.Log. The timeout is not used.
func (s *Single) ReadIndex(_ time.Duration, done func(error)) { s.enqueue(singleCall{read: done}) }

// Status implements consensus.Log.
func (s *Single) Status() consensus.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return consensus.Status{
		ReplicaID: 1, LeaderID: 1, Term: 1, AppliedIndex: s.applied,
		Proposals: len(s.waiting), Ready: true,
	}
}

// WaitReady implements consensus.Log: a Single is ready at once.
func (s *Single) WaitReady(context.Context) error { return nil }

// RequestSnapshot implements consensus.Log: there is no file to save to.
func (s *Single) RequestSnapshot(time.Duration) error { return nil }

// Membership implements consensus.Members.
func (s *Single) Membership(_ time.Duration, done func(consensus.Membership, error)) {
	done(consensus.Membership{Order: 1, Voting: map[uint64]string{1: "memory"}}, nil)
}

// AddReplica implements consensus.Members; a Single refuses it.
func (s *Single) AddReplica(_ uint64, _ string, _ uint64, _ time.Duration, done func(error)) {
	done(singleRefuses())
}

// AddNonVoting implements consensus.Members; a Single refuses it.
func (s *Single) AddNonVoting(_ uint64, _ string, _ uint64, _ time.Duration, done func(error)) {
	done(singleRefuses())
}

// RemoveReplica implements consensus.Members; a Single refuses it.
func (s *Single) RemoveReplica(_, _ uint64, _ time.Duration, done func(error)) {
	done(singleRefuses())
}

// TransferLeader implements consensus.Members; a Single refuses it.
func (s *Single) TransferLeader(uint64) error { return singleRefuses() }

// Close implements consensus.Log.
func (s *Single) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.signal()
	<-s.stopped
	return nil
}

func singleRefuses() error {
	return messages.NewError(messages.Code_CODE_UNSUPPORTED, "memlog.Single has one replica")
}

func stopping() error {
	return messages.NewError(messages.Code_CODE_NODE_STOPPING, "the log is closed")
}
