package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/messages"
)

// ErrDeadline is the cause of a loss when no keep-alive was confirmed in time.
var ErrDeadline = errors.New("no keep-alive was confirmed in time")

// ErrStalled is the cause of a loss when the work did not report progress in time.
var ErrStalled = errors.New("the work reported no progress in time")

// Defaults of Options.
const (
	TTLDefault       = 15 * time.Second
	TTLMin           = time.Second
	DriftDefault     = 0.01
	LatenessDefault  = 100 * time.Millisecond
	timerStepDefault = time.Second
)

// Options of Open. The zero value works.
type Options struct {
	// Subject names the session in errors; default "session".
	Subject string
	// TTL of the lease; default 15 s, at least 1 s.
	TTL time.Duration
	// Drift is epsilon: 2 rho / (1 + rho) for clocks that are off by rho; default 0.01.
	Drift float64
	// Lateness is sigma: how late a timer of a running process may be; default 100 ms.
	Lateness time.Duration
	// StopMargin is W: how long the holder needs to stop; default 0.
	StopMargin time.Duration
	// Metadata of the lease, shown to operators.
	Metadata map[string][]byte
	// ProgressWithin, when set, ties the session to the work and not only to the
	// process: the session is lost when Progress was not called for so long. Without it
	// a process whose work hangs keeps its lease for as long as it runs.
	ProgressWithin time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if o.Subject == "" {
		o.Subject = "session"
	}
	if o.TTL == 0 {
		o.TTL = TTLDefault
	}
	if o.Drift == 0 {
		o.Drift = DriftDefault
	}
	if o.Lateness == 0 {
		o.Lateness = LatenessDefault
	}
	switch {
	case o.TTL < TTLMin:
		return o, messages.InvalidField("TTL", "%v is less than %v", o.TTL, TTLMin)
	case o.Drift < 0 || o.Drift >= 0.5:
		return o, messages.InvalidField("Drift", "%v is not in [0, 0.5)", o.Drift)
	case o.Lateness < 0 || o.StopMargin < 0:
		return o, messages.InvalidField("StopMargin", "margins must not be negative")
	case o.ProgressWithin < 0:
		return o, messages.InvalidField("ProgressWithin", "%v is negative", o.ProgressWithin)
	case o.span(o.TTL) <= 0:
		return o, messages.InvalidField("StopMargin", "the margins leave nothing of a ttl of %v", o.TTL)
	}
	return o, nil
}

// span is how long after its send time a confirmed request lets the holder act.
func (o Options) span(ttl time.Duration) time.Duration {
	return ttl - time.Duration(float64(ttl)*o.Drift) - o.Lateness - o.StopMargin
}

// Store is what a session asks of a client; *client.Client is one.
type Store interface {
	Grant(ctx context.Context, ttl time.Duration, opts client.GrantOptions) (client.Granted, error)
	KeepAlive(ctx context.Context, leaseID uint64, newTTL time.Duration) (client.Renewed, error)
	Revoke(ctx context.Context, leaseID uint64) (keys uint64, err error)
	Clock() client.Clock
}

// Renewer renews leases; *client.KeepaliveWorker is one.
type Renewer interface {
	Keep(id uint64, ttl, confirmedAt time.Duration, o client.KeepaliveObserver)
	Forget(id uint64)
}

// Session is a lease that is kept alive.
type Session struct {
	store   Store
	client  *client.Client // nil over ports
	renewer Renewer
	clock   client.Clock
	opts    Options
	id      uint64
	lease   *lease.Controller

	mu       sync.Mutex
	deadline time.Duration // D; it only ever grows
	progress time.Duration // when Progress was called last
	timer    client.Timer
	over     bool
	revoked  bool

	names      uint64 // of UniqueName
	dependents dependents
	told       chan struct{} // closed once the dependents were told
	gone       goneWatches
	clean      cleanUps
}

// Open grants a lease and keeps it alive until Close, Abandon, its loss, or the end of
// the client. ctx bounds the grant alone.
func Open(ctx context.Context, c *client.Client, opts Options) (*Session, error) {
	s, err := OpenWith(ctx, c, c.Keepalives(), opts)
	if err != nil {
		return nil, err
	}
	s.client = c
	return s, nil
}

// OpenWith is Open over ports.
func OpenWith(ctx context.Context, store Store, renewer Renewer, opts Options) (*Session, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	granted, err := store.Grant(ctx, opts.TTL, client.GrantOptions{Metadata: opts.Metadata})
	if err != nil {
		return nil, err
	}
	s := &Session{store: store, renewer: renewer, clock: store.Clock(), opts: opts, id: granted.LeaseID, told: make(chan struct{})}
	s.lease = lease.NewController(opts.Subject, lease.Options{Probe: s.probe})
	// The send time of the grant's first attempt: one that was applied and repeated
	// counts from there.
	s.deadline = granted.SentAt + opts.span(granted.TTL)
	if err := s.Lease().Err(); err != nil {
		return nil, err // it took so long that nothing of the ttl is left
	}
	s.mu.Lock()
	now := s.clock.Now()
	s.progress = now
	s.timer = s.clock.AfterFunc(s.step(now), s.onTimer)
	s.mu.Unlock()
	renewer.Keep(s.id, granted.TTL, granted.SentAt, observer{s})
	return s, nil
}

// LeaseID is the lease to attach keys to.
func (s *Session) LeaseID() uint64 { return s.id }

// Lease is the holder's side: its context ends when the session is lost.
func (s *Session) Lease() *lease.Lease { return s.lease.Lease() }

// Remaining is how long the holder may still act if nothing more is confirmed; 0 when
// the session is over.
func (s *Session) Remaining() time.Duration {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return 0
	}
	return max(s.deadline-now, 0)
}

// Progress says that the work goes on; see Options.ProgressWithin.
func (s *Session) Progress() {
	now := s.clock.Now()
	s.mu.Lock()
	s.progress = now
	s.mu.Unlock()
}

// Check asks the cluster: nil means that the lease lived when the request was applied.
// Use it after a pause is suspected. An error that is not a loss says nothing about it.
func (s *Session) Check(ctx context.Context) error {
	if err := s.Lease().Err(); err != nil {
		return err
	}
	r, err := s.store.KeepAlive(ctx, s.id, 0)
	switch messages.CodeOf(err) {
	case messages.Code_CODE_OK:
		s.confirmed(r.SentAt, r.TTL)
		return s.Lease().Err()
	case messages.Code_CODE_LEASE_NOT_FOUND, messages.Code_CODE_WRONG_INCARNATION:
		s.lose(err)
		return s.Lease().Err()
	}
	return err
}

// Close ends the session and revokes its lease, which deletes its keys. When that fails
// the lease is no longer renewed, so the cluster ends it within its ttl; Close may then
// be called again.
func (s *Session) Close(ctx context.Context) error {
	s.Abandon()
	<-s.told // whoever ended it first
	s.mu.Lock()
	revoked := s.revoked
	s.mu.Unlock()
	if revoked {
		return nil
	}
	_, err := s.store.Revoke(ctx, s.id)
	if err != nil && messages.CodeOf(err) != messages.Code_CODE_LEASE_NOT_FOUND {
		return err
	}
	s.mu.Lock()
	s.revoked = true
	s.mu.Unlock()
	return nil
}

// Abandon ends the session and stops renewing; the cluster ends the lease within its
// ttl.
func (s *Session) Abandon() {
	if s.finish() {
		s.lease.End()
		s.tellDependents()
	}
}

// lose signals the holder, once.
func (s *Session) lose(cause error) {
	// The signal first: the holder must stop now, the rest can wait.
	s.lease.Lose(cause)
	if s.finish() {
		s.tellDependents()
	}
}

// finish stops what runs for the session; false when that has been done.
func (s *Session) finish() bool {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return false
	}
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.renewer.Forget(s.id)
	return true
}

// confirmed takes an applied request. One that comes after the deadline is dropped: a
// lost lease never comes back.
func (s *Session) confirmed(sentAt, ttl time.Duration) {
	now := s.clock.Now()
	s.mu.Lock()
	late := now >= s.deadline
	if !late && !s.over {
		s.deadline = max(s.deadline, sentAt+s.opts.span(ttl))
	}
	s.mu.Unlock()
	if late {
		s.lose(ErrDeadline)
	}
}

// probe lets Lease.Err see a passed deadline before the timer has run.
func (s *Session) probe() error {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now >= s.deadline {
		return ErrDeadline
	}
	return nil
}

// step is when the timer looks next. Never far ahead: a timer counts the time that the
// machine was awake, the deadline all of it.
func (s *Session) step(now time.Duration) time.Duration {
	next := min(s.deadline-now, timerStepDefault)
	if s.opts.ProgressWithin > 0 {
		next = min(next, s.progress+s.opts.ProgressWithin-now)
	}
	return max(next, 0)
}

func (s *Session) onTimer() {
	now := s.clock.Now()
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	stalled := s.opts.ProgressWithin > 0 && now >= s.progress+s.opts.ProgressWithin
	if now < s.deadline && !stalled {
		s.timer.Reset(s.step(now))
		s.mu.Unlock()
		return
	}
	cause := ErrDeadline
	if now < s.deadline {
		cause = ErrStalled
	}
	s.mu.Unlock()
	s.lose(cause)
}

// observer is what the KeepaliveWorker tells.
type observer struct{ s *Session }

func (o observer) Confirmed(sentAt, ttl time.Duration) { o.s.confirmed(sentAt, ttl) }
func (o observer) Lost(cause error)                    { o.s.lose(cause) }
