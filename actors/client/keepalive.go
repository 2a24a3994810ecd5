package client

import (
	"slices"
	"sync"
	"time"

	"github.com/concord-kv/concord/actors/client/pipeline"
	"github.com/concord-kv/concord/messages"
)

// KeepaliveObserver hears what becomes of a lease that a KeepaliveWorker renews. It is
// called by the worker's goroutine, one call at a time, and must not block: the other
// leases of the client wait meanwhile.
type KeepaliveObserver interface {
	// Confirmed says that a keep-alive was applied. sentAt is the client's clock before
	// the request was queued: the lease lives at least until sentAt + ttl by any clock
	// that runs as fast. ttl is the one in the reply.
	Confirmed(sentAt, ttl time.Duration)
	// Lost says that the lease is gone, or nobody renews it any more, and why. It is the
	// last call.
	Lost(cause error)
}

// KeepaliveWorker renews all the leases of one client. Each is renewed after about a
// third of its ttl; what is due soon goes along, so that the leases of a client travel
// in one message. It only ever tells what was confirmed and what is lost: how long a
// holder may act is its observer's business, so that a hung worker cannot delay it.
//
// It is an actor: a goroutine with a mailbox that owns the schedule.
type KeepaliveWorker struct {
	client *Client
	clock  Clock
	random func() uint64

	mu      sync.Mutex
	mailbox []func()
	closed  error
	running bool
	wake    chan struct{}
	done    chan struct{}

	// The goroutine's own.
	leases []*keptLease // by id
	timer  Timer
}

type keptLease struct {
	id       uint64
	ttl      time.Duration
	due      time.Duration
	flying   bool
	observer KeepaliveObserver
}

const (
	keepalivesPerTTL   = 3
	keepaliveJitter    = 10 // percent, downwards: never later than a third
	keepaliveAttempt   = 100 * time.Millisecond
	keepaliveAttemptOf = 2 // an attempt may take this part of the interval
	keepaliveRetryMax  = 500 * time.Millisecond
	keepaliveRetryOf   = 4 // of the interval
	// What is due within this part of its interval goes along. Half is what makes any
	// two groups of leases meet and stay together.
	keepaliveTogether = 2
)

func newKeepaliveWorker(c *Client, clock Clock, random func() uint64) *KeepaliveWorker {
	return &KeepaliveWorker{client: c, clock: clock, random: random, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Keep renews a lease from now on, until Forget, its loss, or the client's Close.
// confirmedAt is the send time of the request that granted or last renewed it. A lease
// that is kept already gets the new observer; the old one hears nothing more.
func (w *KeepaliveWorker) Keep(id uint64, ttl, confirmedAt time.Duration, o KeepaliveObserver) {
	if !w.post(func() { w.keep(id, ttl, confirmedAt, o) }) {
		o.Lost(errClosed())
	}
}

// Forget stops renewing a lease. Its observer may hear once more of what is in flight.
func (w *KeepaliveWorker) Forget(id uint64) {
	w.post(func() {
		if i, ok := w.find(id); ok {
			w.leases = slices.Delete(w.leases, i, i+1)
		}
	})
}

// post puts a message into the mailbox; false after close.
func (w *KeepaliveWorker) post(m func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed != nil {
		return false
	}
	w.mailbox = append(w.mailbox, m)
	if !w.running {
		w.running = true
		go w.run()
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return true
}

// close tells every observer that its lease is lost and waits for the goroutine.
func (w *KeepaliveWorker) close(cause error) {
	w.mu.Lock()
	w.closed = cause
	running := w.running
	w.mu.Unlock()
	if running {
		select {
		case w.wake <- struct{}{}:
		default:
		}
		<-w.done
	}
}

func (w *KeepaliveWorker) run() {
	defer close(w.done)
	for range w.wake {
		step(w.clock, "renew")
		select {
		case <-w.wake: // what it tells of is taken now: how many wake-ups there are does not matter
		default:
		}
		w.mu.Lock()
		batch, closed := w.mailbox, w.closed
		w.mailbox = nil
		w.mu.Unlock()
		for _, m := range batch {
			m()
		}
		if closed != nil {
			if w.timer != nil {
				w.timer.Stop()
			}
			for _, l := range w.leases {
				l.observer.Lost(closed)
			}
			return
		}
		w.renew(w.clock.Now())
	}
}

func (w *KeepaliveWorker) find(id uint64) (int, bool) {
	return slices.BinarySearchFunc(w.leases, id, func(l *keptLease, id uint64) int {
		switch {
		case l.id < id:
			return -1
		case l.id > id:
			return 1
		}
		return 0
	})
}

func (w *KeepaliveWorker) keep(id uint64, ttl, confirmedAt time.Duration, o KeepaliveObserver) {
	l := &keptLease{id: id, ttl: ttl, observer: o}
	l.due = confirmedAt + w.interval(l)
	i, ok := w.find(id)
	if ok {
		w.leases[i] = l // a new one: an answer to the old one's attempt finds no entry
		return
	}
	w.leases = slices.Insert(w.leases, i, l)
}

// interval is a third of the ttl, less up to 10 % at random, so that clients that
// started together do not stay together.
func (w *KeepaliveWorker) interval(l *keptLease) time.Duration {
	third := l.ttl / keepalivesPerTTL
	return third - time.Duration(w.random()%uint64(third*keepaliveJitter/100+1))
}

// renew sends a keep-alive for each lease that is due, if any is, and sets the timer.
func (w *KeepaliveWorker) renew(now time.Duration) {
	next := pipeline.Never
	for _, l := range w.leases {
		if !l.flying {
			next = min(next, l.due)
		}
	}
	if next <= now {
		w.send(now)
		next = pipeline.Never
		for _, l := range w.leases {
			if !l.flying {
				next = min(next, l.due)
			}
		}
	}
	if next == pipeline.Never {
		return
	}
	if w.timer == nil {
		w.timer = w.clock.AfterFunc(next-now, func() { w.post(func() {}) })
		return
	}
	w.timer.Reset(next - now)
}

func (w *KeepaliveWorker) send(now time.Duration) {
	var calls []*pipeline.Call
	var flown []*keptLease
	for _, l := range w.leases {
		interval := l.ttl / keepalivesPerTTL
		if l.flying || l.due > now+interval/keepaliveTogether {
			continue
		}
		l.flying = true
		flown = append(flown, l)
		op := writeOperation(&messages.Write{Op: &messages.Write_KeepAliveLease{
			KeepAliveLease: &messages.KeepAliveLease{LeaseId: l.id},
		}})
		// A short attempt: the next one has a later send time, so it is worth more.
		deadline := now + max(interval/keepaliveAttemptOf, keepaliveAttempt)
		calls = append(calls, pipeline.NewCallThen(pipeline.Once, op, deadline, func(c *pipeline.Call) {
			w.post(func() { w.answered(l, now, c) })
		}))
	}
	for i, err := range w.client.submitAll(calls) {
		if err != nil {
			calls[i].Err = err // not even taken
			w.answered(flown[i], now, calls[i])
		}
	}
}

// answered takes the answer to one attempt, whose send time it knows.
func (w *KeepaliveWorker) answered(l *keptLease, sentAt time.Duration, c *pipeline.Call) {
	i, ok := w.find(l.id)
	if !ok || w.leases[i] != l {
		return
	}
	l.flying = false
	now := w.clock.Now()
	if c.Err == nil {
		r := c.Reply.GetResult().GetKeepAliveLease()
		if r.GetLeaseId() == l.id && r.GetTtlMs() > 0 {
			l.ttl = time.Duration(r.TtlMs) * time.Millisecond
			l.due = sentAt + w.interval(l)
			l.observer.Confirmed(sentAt, l.ttl)
			return
		}
		// Not the answer to this request: it confirms nothing.
	}
	if code := messages.CodeOf(c.Err); code == messages.Code_CODE_LEASE_NOT_FOUND || code == messages.Code_CODE_WRONG_INCARNATION {
		w.leases = slices.Delete(w.leases, i, i+1)
		l.observer.Lost(c.Err)
		return
	}
	// Nothing is known, so nothing is extended and nothing shortened: try again.
	retry := min(l.ttl/keepalivesPerTTL/keepaliveRetryOf, keepaliveRetryMax)
	l.due = now + retry/2 + time.Duration(w.random()%uint64(retry/2+1))
}
