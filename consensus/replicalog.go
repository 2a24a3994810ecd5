package consensus

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/client"
	"github.com/lni/dragonboat/v4/raftio"

	"github.com/concord-kv/concord/messages"
)

// replicaLog is the Log that OpenDragonboat returns.
type replicaLog struct {
	cfg     DragonboatConfig
	host    *dragonboat.NodeHost
	session *client.Session
	machine *machine
	flight  *flight
	guard   *guard
	// transport and recent are made while the host is opened, before anything that uses
	// them starts; with another log recent stays nil.
	transport *transport
	recent    *recentLog
	unlock    func()

	frames sync.Pool // of *[]byte

	mu     sync.Mutex
	closed bool
	closer sync.Once
	// entered counts calls that are inside dragonboat's host, which must not be
	// closed under them. workers counts goroutines that end after it is closed.
	entered sync.WaitGroup
	workers sync.WaitGroup
	stop    chan struct{}

	ready     chan struct{} // closed after the first read barrier
	snapshots snapshotter
}

var _ Log = (*replicaLog)(nil)

func newReplicaLog(cfg DragonboatConfig, applier Applier, unlock func()) *replicaLog {
	l := &replicaLog{
		cfg: cfg, unlock: unlock, flight: newFlight(cfg.InFlightBytesMax, cfg.Timing.RTT),
		guard: newGuard(cfg), stop: make(chan struct{}), ready: make(chan struct{}),
	}
	l.snapshots.init(cfg)
	l.machine = &machine{
		applier: applier, nonce: newNonce(), completed: l.flight.applied,
		grown: l.snapshots.grown, failed: l.snapshotFailed, size: l.snapshotSize,
		room: diskRoom{cfg.FS, cfg.Dir, cfg.DiskReserveBytes},
	}
	return l
}

func newNonce() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

func (l *replicaLog) start() {
	l.work(func() { l.flight.watch(l.stop) })
	l.work(l.becomeReady)
	l.work(l.takeSnapshots)
	l.work(l.watchClaims)
	l.work(l.meetMembers)
}

// work runs f on a goroutine that Close waits for. False after Close.
func (l *replicaLog) work(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.workers.Go(f)
	return true
}

// enter keeps the host open until leave; false when it is closing.
func (l *replicaLog) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.entered.Add(1)
	return true
}

func (l *replicaLog) leave() { l.entered.Done() }

// Propose implements Log.
func (l *replicaLog) Propose(payload []byte, timeout time.Duration, done func([]*messages.Result, error)) {
	if timeout <= 0 {
		done(nil, errTimeoutField())
		return
	}
	if !l.enter() {
		done(nil, errStopping())
		return
	}
	defer l.leave()
	c, err := l.flight.open(frameBytes+len(payload), timeout, done)
	if err != nil {
		done(nil, err)
		return
	}
	frame, _ := l.frames.Get().(*[]byte)
	if frame == nil {
		frame = new([]byte)
	}
	n := frameBytes + len(payload)
	if cap(*frame) < n {
		*frame = make([]byte, n)
	}
	*frame = (*frame)[:n]
	putFrame(*frame, l.machine.nonce, c.seq, payload)
	// Dragonboat's own deadline comes after ours: ours runs on the real clock and
	// also when its ticks stand still behind a slow disk.
	rs, perr := l.host.Propose(l.session, *frame, timeout+2*l.cfg.Timing.RTT)
	l.frames.Put(frame) // dragonboat has copied it
	if perr != nil {
		l.flight.refused(c, proposeRefused(perr))
		return
	}
	l.flight.accepted(c, rs)
}

// ReadIndex implements Log.
func (l *replicaLog) ReadIndex(timeout time.Duration, done func(error)) {
	if timeout <= 0 {
		done(errTimeoutField())
		return
	}
	l.await(timeout, func() (*dragonboat.RequestState, error) {
		return l.host.ReadIndex(shardID, timeout+2*l.cfg.Timing.RTT)
	}, readFailed, readEnded, func(_ *dragonboat.RequestResult, err error) { done(nothingWritten(err)) })
}

// await starts a request and, on a goroutine of its own, waits for its end.
// refused and ended turn dragonboat's answers into errors; ended returns nil for
// a success. done is called exactly once.
func (l *replicaLog) await(timeout time.Duration,
	request func() (*dragonboat.RequestState, error),
	refused func(error) error,
	ended func(dragonboat.RequestResult) error,
	done func(*dragonboat.RequestResult, error)) {
	if !l.enter() {
		done(nil, errStopping())
		return
	}
	rs, err := request()
	l.leave()
	if err != nil {
		done(nil, refused(err))
		return
	}
	if !l.work(func() {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case r := <-rs.ResultC():
			done(&r, ended(r))
			rs.Release()
		case <-timer.C:
			done(nil, errTimeout())
		case <-l.stop:
			// The host ends it too, unless it was already closed.
			done(nil, errStoppingUnknown())
		}
	}) {
		done(nil, errStoppingUnknown())
	}
}

// Status implements Log.
func (l *replicaLog) Status() Status {
	s := Status{ReplicaID: l.cfg.ReplicaID, AppliedIndex: l.machine.applied.Load()}
	s.Proposals, s.ProposedBytes = l.flight.load()
	if l.enter() {
		s.LeaderID, s.Term, _, _ = l.host.GetLeaderID(shardID)
		l.leave()
	}
	select {
	case <-l.ready:
		s.Ready = true
	default:
	}
	return s
}

// becomeReady asks for a read barrier until one is reached. Dragonboat reports a
// node ready before replay has ended.
func (l *replicaLog) becomeReady() {
	for {
		reached := make(chan error, 1)
		l.ReadIndex(time.Second, func(err error) { reached <- err })
		if <-reached == nil {
			close(l.ready)
			return
		}
		select {
		case <-l.stop:
			return
		case <-time.After(l.cfg.Timing.RTT):
		}
	}
}

// WaitReady implements Log.
func (l *replicaLog) WaitReady(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-l.stop:
		return errStopping()
	case <-ctx.Done():
		e := messages.NewError(messages.Code_CODE_NOT_READY, "no read barrier was reached yet")
		e.Err = context.Cause(ctx)
		return e
	}
}

// Close implements Log.
func (l *replicaLog) Close() error {
	l.closer.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		close(l.stop)
		l.entered.Wait()
		l.host.Close() // waits for Apply and for snapshots
		l.workers.Wait()
		l.flight.close()
		l.unlock()
	})
	return nil
}

// leaderListener passes on what dragonboat says about leaders.
type leaderListener struct{ to Listener }

func (s leaderListener) LeaderUpdated(info raftio.LeaderInfo) {
	s.to.LeaderChanged(info.LeaderID, info.Term)
}

// listenerFor returns a nil interface for no listener: dragonboat tests for that.
func (l *replicaLog) listenerFor(to Listener) raftio.IRaftEventListener {
	if to == nil {
		return nil
	}
	return leaderListener{to}
}
