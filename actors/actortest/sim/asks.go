package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// asking is a call of the log by a goroutine. The log belongs to the world, which makes
// the call in a step of its own.
type asking struct {
	what       string // an order among those who ask at one instant
	do, refuse func()
}

func (l *nodeLog) ask(what string, do, refuse func()) {
	l.mu.Lock()
	if l.detached {
		l.mu.Unlock()
		refuse()
		return
	}
	i, _ := slices.BinarySearchFunc(l.asking, what, func(a asking, what string) int { return strings.Compare(a.what, what) })
	l.asking = slices.Insert(l.asking, i, asking{what, do, refuse})
	l.mu.Unlock()
}

func (l *nodeLog) asks() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asking) > 0
}

// serveAsk makes the first call that waits and says which it was.
func (l *nodeLog) serveAsk() string {
	l.mu.Lock()
	if len(l.asking) == 0 {
		l.mu.Unlock()
		return "nothing"
	}
	a := l.asking[0]
	l.asking = l.asking[1:]
	l.mu.Unlock()
	a.do()
	return a.what
}

// Membership implements consensus.Log.
func (l *nodeLog) Membership(timeout time.Duration, done func(consensus.Membership, error)) {
	p := &pending{read: func(err error) { done(consensus.Membership{}, err) }}
	l.ask("membership", func() {
		if !l.wait(p) {
			p.read(stopping())
			return
		}
		l.Log.Membership(timeout, func(m consensus.Membership, err error) {
			if l.answered(p) {
				l.node.world.woke = true
				done(m, err)
			}
		})
	}, func() { p.read(stopping()) })
}

// change asks for a change of the membership.
func (l *nodeLog) change(what string, done func(error), call func(done func(error))) {
	p := &pending{done: func(_ []*messages.Result, err error) { done(err) }}
	l.ask(what, func() {
		if !l.wait(p) {
			done(stopping())
			return
		}
		call(func(err error) {
			if l.answered(p) {
				l.node.world.woke = true
				l.node.world.trace("log n%d %s %v", l.node.id, what, messages.CodeOf(err))
				done(err)
			}
		})
	}, func() { done(stopping()) })
}

// AddReplica implements consensus.Log.
func (l *nodeLog) AddReplica(id uint64, address string, order uint64, timeout time.Duration, done func(error)) {
	l.change("add "+endpoint(id), done, func(done func(error)) { l.Log.AddReplica(id, address, order, timeout, done) })
}

// AddNonVoting implements consensus.Log.
func (l *nodeLog) AddNonVoting(id uint64, address string, order uint64, timeout time.Duration, done func(error)) {
	l.change("add non-voting "+endpoint(id), done, func(done func(error)) { l.Log.AddNonVoting(id, address, order, timeout, done) })
}

// RemoveReplica implements consensus.Log.
func (l *nodeLog) RemoveReplica(id uint64, order uint64, timeout time.Duration, done func(error)) {
	l.change("remove "+endpoint(id), done, func(done func(error)) { l.Log.RemoveReplica(id, order, timeout, done) })
}

// TransferLeader implements consensus.Log.
func (l *nodeLog) TransferLeader(target uint64) error {
	l.ask("transfer to "+endpoint(target), func() { _ = l.Log.TransferLeader(target) }, func() {})
	return nil
}

// RequestSnapshot implements consensus.Log.
func (l *nodeLog) RequestSnapshot(timeout time.Duration) error {
	done := make(chan error, 1)
	l.ask("snapshot", func() { done <- l.Log.RequestSnapshot(timeout) }, func() { done <- stopping() })
	return <-done
}
