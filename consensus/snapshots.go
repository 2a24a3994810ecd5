package consensus

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/vfs"

	"github.com/concord-kv/concord/messages"
)

// snapshotTimeout bounds the wait for one snapshot. It goes on when it passes.
const snapshotTimeout = 10 * time.Minute

// snapshotter decides when a snapshot is due: by bytes applied since the last one, by
// time if anything was, or by fewer bytes when nothing is going on: what is in the log
// after a snapshot has to be applied again at a restart, and a replica that has just
// been filled may have the time to save that. Dragonboat's own trigger counts entries,
// whose size says nothing.
//
// After one it rests restPart times as long as that took, or until restBytes times
// bytesMax wait: a snapshot costs in proportion to the state, and of ten million keys
// one took longer than bytesMax of puts. One was always being saved then, at half the
// rate of puts and with twice their p99.
type snapshotter struct {
	bytesMax  int64
	every     time.Duration
	bytes     atomic.Int64  // applied since the last snapshot began
	due       chan struct{} // holds one token
	turn      chan struct{} // holds a token while a snapshot is requested
	failed    bool          // the last one was not saved; belongs to who has the turn
	restUntil time.Time     // belongs to who decides when one is due
}

const (
	restPart  = 3
	restBytes = 8
)

const (
	// idleLook is how often a replica looks whether it is idle: less than idleBytes were
	// applied since the last look, twice in a row.
	idleLook  = time.Second
	idleBytes = 64 << 10
	// idlePart of bytesMax, but not less than idlePartMin, is worth a snapshot then.
	idlePart    = 8
	idlePartMin = 1 << 20
)

// idle looks once for a snapshot that idle time is good for.
type idle struct {
	bytes int64 // at the last look
	quiet int   // looks in a row
}

func (i *idle) look(s *snapshotter) (due bool) {
	bytes := s.bytes.Load()
	if grown := bytes - i.bytes; grown >= 0 && grown < idleBytes {
		i.quiet++
	} else {
		i.quiet = 0
	}
	i.bytes = bytes
	return s.bytesMax > 0 && i.quiet >= 2 && bytes >= max(s.bytesMax/idlePart, idlePartMin)
}

func (s *snapshotter) init(cfg DragonboatConfig) {
	s.bytesMax, s.every = cfg.SnapshotBytes, cfg.SnapshotEvery
	s.due, s.turn = make(chan struct{}, 1), make(chan struct{}, 1)
}

// grown is called from Update.
func (s *snapshotter) grown(bytes int) {
	n := s.bytes.Add(int64(bytes))
	if s.bytesMax <= 0 || n < s.bytesMax || n-int64(bytes) >= s.bytesMax {
		return
	}
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// wants says whether there are bytes enough for a snapshot, and it has rested.
func (s *snapshotter) wants(now time.Time) bool {
	bytes := s.bytes.Load()
	return s.bytesMax > 0 && bytes >= s.bytesMax && (!now.Before(s.restUntil) || bytes >= restBytes*s.bytesMax)
}

// taken says that a snapshot, or the try, took from began to ended.
func (s *snapshotter) taken(began, ended time.Time) {
	s.restUntil = ended.Add(restPart * ended.Sub(began))
}

func (l *replicaLog) takeSnapshots() {
	var tick <-chan time.Time
	if l.snapshots.every > 0 {
		ticker := time.NewTicker(l.snapshots.every)
		defer ticker.Stop()
		tick = ticker.C
	}
	looks := time.NewTicker(idleLook)
	defer looks.Stop()
	var quiet idle
	for {
		select {
		case <-l.snapshots.due:
			if !l.snapshots.wants(time.Now()) {
				continue // until a look finds that it has rested
			}
		case <-looks.C:
			if idle := quiet.look(&l.snapshots); !idle && !l.snapshots.wants(time.Now()) {
				continue
			}
		case <-tick:
		case <-l.stop:
			return
		}
		l.snapshots.bytes.Store(0)
		began := time.Now()
		if err := l.RequestSnapshot(snapshotTimeout); err != nil {
			l.cfg.Logger.Warn("snapshot not saved", "replica", l.cfg.ReplicaID, "err", err)
		}
		l.snapshots.taken(began, time.Now())
	}
}

// Shorten saves a snapshot and keeps hardly any entry before it: a replica that is added
// then begins with a snapshot, not with the first entry. A state that the log's first
// entry was not applied to an empty machine for needs that.
func Shorten(l Log, timeout time.Duration) error {
	if r, ok := l.(*replicaLog); ok {
		return r.snapshot(timeout, dragonboat.SnapshotOption{OverrideCompactionOverhead: true, CompactionOverhead: 1})
	}
	return l.RequestSnapshot(timeout)
}

// RequestSnapshot implements Log. Behind the snapshot no more of the log is kept than is
// held in memory: to read large entries from the disk, and to apply them, costs a replica
// that is behind, and its leader, more than the snapshot.
func (l *replicaLog) RequestSnapshot(timeout time.Duration) error {
	keep := l.cfg.SnapshotKeepEntries
	if l.recent != nil {
		keep = l.recent.worth(raftio.NodeInfo{ShardID: shardID, ReplicaID: l.cfg.ReplicaID}, keep)
	}
	return l.snapshot(timeout, dragonboat.SnapshotOption{OverrideCompactionOverhead: true, CompactionOverhead: keep})
}

// snapshot waits for one that is being saved: dragonboat would ignore the request, and
// what was applied since that began would be in no snapshot.
func (l *replicaLog) snapshot(timeout time.Duration, o dragonboat.SnapshotOption) error {
	if timeout <= 0 {
		return errTimeoutField()
	}
	began := time.Now()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case l.snapshots.turn <- struct{}{}:
	case <-timer.C:
		return messages.NewError(messages.Code_CODE_TIMEOUT, "another snapshot takes long")
	case <-l.stop:
		return errStopping()
	}
	defer func() { <-l.snapshots.turn }()
	timeout = max(timeout-time.Since(began), time.Millisecond)
	end := make(chan error, 1)
	l.await(timeout, func() (*dragonboat.RequestState, error) {
		return l.host.RequestSnapshot(shardID, o, timeout+2*l.cfg.Timing.RTT)
	}, proposeRefused, l.snapshots.ended, func(_ *dragonboat.RequestResult, err error) { end <- err })
	err := <-end
	l.snapshots.failed = err != nil
	return err
}

// ended takes Rejected for a success unless the last one failed: nothing was applied since
// the last one was requested.
func (s *snapshotter) ended(r dragonboat.RequestResult) error {
	switch {
	case r.Completed(), r.Rejected() && !s.failed:
		return nil
	case r.Rejected():
		return messages.NewError(messages.Code_CODE_UNAVAILABLE, "the last snapshot was not saved, and nothing was applied since")
	case r.Terminated():
		return errStopping()
	case r.Aborted():
		return messages.NewError(messages.Code_CODE_UNAVAILABLE, "the snapshot was abandoned")
	}
	return messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "the snapshot was not saved in time")
}

func (l *replicaLog) snapshotFailed(err error) {
	l.cfg.Logger.Error("snapshot failed", "replica", l.cfg.ReplicaID, "err", err)
}

func (l *replicaLog) snapshotSize(bytes int64) {
	if l.recent != nil {
		l.recent.fit(bytes)
	}
}

// diskRoom keeps snapshots from filling the disk: dragonboat ends the process when
// it cannot write one, and the log needs the room more.
type diskRoom struct {
	fs      vfs.FS
	dir     string
	reserve int64
}

// roomCheckBytes are written between two looks at the disk.
const roomCheckBytes = 1 << 20

// writer returns w, refusing to write once less than the reserve is free. A file
// system that cannot tell is trusted.
func (r diskRoom) writer(w io.Writer) *roomWriter {
	return &roomWriter{diskRoom: r, w: w, unchecked: roomCheckBytes}
}

type roomWriter struct {
	diskRoom
	w         io.Writer
	unchecked int
	written   int64
}

func (r *roomWriter) Write(p []byte) (int, error) {
	if r.unchecked += len(p); r.unchecked >= roomCheckBytes {
		r.unchecked = 0
		if usage, err := r.fs.GetDiskUsage(r.dir); err == nil && int64(usage.AvailBytes) < r.reserve+int64(len(p)) {
			return 0, fmt.Errorf("consensus: %d bytes are free, %d are kept for the log", usage.AvailBytes, r.reserve)
		}
	}
	n, err := r.w.Write(p)
	r.written += int64(n)
	return n, err
}
