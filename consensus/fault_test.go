package consensus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lni/vfs"
	"go.uber.org/goleak"

	"github.com/concord-kv/concord/messages"
)

// childEnv makes a test binary run a replica on a failing disk instead of tests.
const childEnv = "CONSENSUS_TEST_CHILD"

func TestMain(m *testing.M) {
	InstallLogger(slog.New(slog.DiscardHandler))
	if args := os.Getenv(childEnv); args != "" {
		runChild(strings.Split(args, ","))
		return
	}
	os.Exit(m.Run())
}

// hookFS calls hook before each write and sync; an error of it is the operation's.
type hookFS struct {
	vfs.FS
	hook func(op, name string) error
}

func (fs hookFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return hookFile{f, name, fs.hook}, nil
}

func (fs hookFS) Create(name string) (vfs.File, error) {
	f, err := fs.FS.Create(name)
	return fs.wrap(name, f, err)
}

func (fs hookFS) OpenForAppend(name string) (vfs.File, error) {
	f, err := fs.FS.OpenForAppend(name)
	return fs.wrap(name, f, err)
}

func (fs hookFS) ReuseForWrite(oldname, newname string) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname)
	return fs.wrap(newname, f, err)
}

type hookFile struct {
	vfs.File
	name string
	hook func(op, name string) error
}

func (f hookFile) Write(p []byte) (int, error) {
	if err := f.hook("write", f.name); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f hookFile) Sync() error {
	if err := f.hook("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

// runChild writes for ever on a disk that fails at the n-th operation of a kind,
// and says what was acknowledged.
func runChild(args []string) {
	dir, address, op := args[0], args[1], args[2]
	n, _ := strconv.ParseInt(args[3], 10, 64)
	var seen atomic.Int64
	fs := &hookFS{vfs.Default, func(did, _ string) error {
		if did == op && seen.Add(1) >= n {
			return errors.New("injected")
		}
		return nil
	}}
	log, err := OpenDragonboat(DragonboatConfig{Dir: dir, ReplicaID: 1, RaftAddress: address, FS: fs}, &words{}, nil)
	if err != nil {
		fmt.Println("refused", err)
		return
	}
	for i := 0; ; i++ {
		end := make(chan error, 1)
		p := fmt.Sprint("w", i)
		log.Propose([]byte(p), time.Minute, func(_ []*messages.Result, err error) { end <- err })
		if <-end == nil {
			fmt.Println("acked", p)
		}
	}
}

// A disk that fails ends the process, and nothing it acknowledged is lost.
func TestFailingDiskEndsTheProcess(t *testing.T) {
	for _, c := range []struct{ op, n string }{{"sync", "25"}, {"sync", "40"}, {"write", "40"}, {"write", "90"}} {
		t.Run(c.op+c.n, func(t *testing.T) {
			dir, address := t.TempDir(), loopback(t)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{dir, address, c.op, c.n}, ","))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var acked []string
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if p, found := strings.CutPrefix(lines.Text(), "acked "); found {
					acked = append(acked, p)
				}
			}
			if err := cmd.Wait(); err == nil || ctx.Err() != nil {
				t.Fatalf("the process ended with %v, %v", err, ctx.Err())
			}
			if len(acked) == 0 {
				t.Fatal("nothing was acknowledged before the disk failed")
			}
			w := &words{}
			log, err := OpenDragonboat(DragonboatConfig{Dir: dir, ReplicaID: 1, RaftAddress: address}, w, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			write(t, log, 0)
			if !hasAll(w.has(), acked) {
				t.Fatalf("of %v there is %v", acked, w.has())
			}
		})
	}
}

// A disk error while opening is an error, not a panic.
func TestFailingDiskAtOpening(t *testing.T) {
	for n := int64(1); n <= 10; n++ {
		var seen atomic.Int64
		fs := &hookFS{vfs.Default, func(string, string) error {
			if seen.Add(1) == n {
				return errors.New("injected")
			}
			return nil
		}}
		cfg := DragonboatConfig{Dir: t.TempDir(), ReplicaID: 1, RaftAddress: loopback(t), FS: fs}
		refused(t, cfg, "injected")
	}
}

// Deadlines run on the real clock: a disk that hangs stops dragonboat's ticks.
func TestDeadlinePassesBehindStalledDisk(t *testing.T) {
	release := make(chan struct{})
	var stalled atomic.Bool
	fs := &hookFS{vfs.Default, func(op, _ string) error {
		if op == "sync" && stalled.Load() {
			<-release
		}
		return nil
	}}
	w := &words{}
	log, err := OpenDragonboat(DragonboatConfig{Dir: t.TempDir(), ReplicaID: 1, RaftAddress: loopback(t), FS: fs}, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write(t, log, 1)
	stalled.Store(true)
	ends := make(chan error, 2)
	for i := range 2 {
		log.Propose(fmt.Append(nil, "slow", i), 100*time.Millisecond, func(_ []*messages.Result, err error) { ends <- err })
		if err := <-ends; messages.OutcomeOf(err) != messages.Outcome_OUTCOME_UNKNOWN || messages.CodeOf(err) != messages.Code_CODE_TIMEOUT {
			t.Fatalf("got %v", err)
		}
	}
	read := make(chan error, 1)
	log.ReadIndex(100*time.Millisecond, func(err error) { read <- err })
	if err := <-read; messages.CodeOf(err) != messages.Code_CODE_TIMEOUT {
		t.Fatalf("got %v", err)
	}
	if s := log.Status(); s.Proposals != 0 || s.ProposedBytes == 0 {
		t.Fatalf("an unknown proposal goes on counting its bytes: %+v", s)
	}
	stalled.Store(false)
	close(release)
	write(t, log, 1)
	if has := w.has(); !has["slow0"] || !has["slow1"] {
		t.Fatal("what was unknown is applied once the disk goes on")
	}
}

// blockedSave saves only after release.
type blockedSave struct {
	words
	saving, release chan struct{}
	once            sync.Once
	frozen          atomic.Int64 // entries in the newest snapshot that was begun
}

func (b *blockedSave) Freeze() Frozen {
	b.frozen.Store(int64(len(b.all)))
	return &blockedFrozen{b.words.Freeze(), b}
}

type blockedFrozen struct {
	Frozen
	b *blockedSave
}

func (f *blockedFrozen) Save(w io.Writer, stop <-chan struct{}) error {
	f.b.once.Do(func() { close(f.b.saving) })
	select {
	case <-f.b.release:
		return f.Frozen.Save(w, stop)
	case <-stop:
		return errors.New("stopped")
	}
}

// Saving holds up neither applying nor, once stop is closed, Close.
func TestSaveRunsBesideApply(t *testing.T) {
	cfg := DragonboatConfig{Dir: t.TempDir(), ReplicaID: 1, RaftAddress: loopback(t)}
	for _, release := range []bool{true, false} {
		b := &blockedSave{saving: make(chan struct{}), release: make(chan struct{})}
		log, err := OpenDragonboat(cfg, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		write(t, log, 3)
		saved := make(chan error, 1)
		go func() { saved <- log.RequestSnapshot(20 * time.Second) }()
		<-b.saving
		write(t, log, 3)
		if release {
			close(b.release)
			if err := <-saved; err != nil {
				t.Fatal(err)
			}
			write(t, log, 1)
		}
		log.Close()
		if !release {
			if err := <-saved; err == nil {
				t.Fatal("a snapshot was saved after Close")
			}
		}
	}
	w := &words{}
	log, err := OpenDragonboat(cfg, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write(t, log, 0)
	if n := len(w.all); n != 13 {
		t.Fatalf("%d entries came back, want 13", n)
	}
}

// A snapshot that is requested while another is saved has what was applied by then: the
// other one began before.
func TestSnapshotBesideAnother(t *testing.T) {
	b := &blockedSave{saving: make(chan struct{}), release: make(chan struct{})}
	log, err := OpenDragonboat(DragonboatConfig{Dir: t.TempDir(), ReplicaID: 1, RaftAddress: loopback(t)}, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write(t, log, 3)
	saved := make(chan error, 2)
	go func() { saved <- log.RequestSnapshot(20 * time.Second) }()
	<-b.saving
	write(t, log, 3)
	if err := log.RequestSnapshot(50 * time.Millisecond); messages.CodeOf(err) != messages.Code_CODE_TIMEOUT {
		t.Errorf("one that waits too long for the other: %v", err)
	}
	go func() { saved <- log.RequestSnapshot(20 * time.Second) }()
	close(b.release)
	for range 2 {
		if err := <-saved; err != nil {
			t.Fatal(err)
		}
	}
	if n := b.frozen.Load(); n != 6 {
		t.Errorf("the newest snapshot has %d entries of 6", n)
	}
}

// smallFS has a disk with little room left.
type smallFS struct {
	vfs.FS
	room *atomic.Int64
}

func (fs smallFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: uint64(fs.room.Load())}, nil
}

// A disk without room for a snapshot costs the snapshot, at its start or half-way.
func TestFullDiskAbandonsTheSnapshot(t *testing.T) {
	room := new(atomic.Int64)
	w := &draining{room: room}
	log, err := OpenDragonboat(DragonboatConfig{
		Dir: t.TempDir(), ReplicaID: 1, RaftAddress: loopback(t), FS: smallFS{vfs.Default, room}, DiskReserveBytes: 1 << 20,
	}, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write(t, log, 5)
	for _, c := range []struct{ room, drain int64 }{{1<<20 - 1, 0}, {10 << 20, 3 << 20}} {
		room.Store(c.room)
		w.drain.Store(c.drain)
		err := log.RequestSnapshot(20 * time.Second)
		if messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE {
			t.Fatalf("room for %d bytes: got %v", c.room, err)
		}
		write(t, log, 1)
	}
	room.Store(10 << 20)
	w.drain.Store(0)
	if err := log.RequestSnapshot(20 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// draining saves megabytes, each of which takes room.
type draining struct {
	words
	room  *atomic.Int64
	drain atomic.Int64
}

func (d *draining) Freeze() Frozen { return drainingFrozen{d} }

type drainingFrozen struct{ d *draining }

func (f drainingFrozen) Save(w io.Writer, _ <-chan struct{}) error {
	for range 12 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
		f.d.room.Add(-f.d.drain.Load())
	}
	return nil
}

// Snapshots are taken by bytes, and by time.
func TestSnapshotIsDue(t *testing.T) {
	for name, cfg := range map[string]DragonboatConfig{
		"bytes": {SnapshotBytes: 20_000, SnapshotEvery: -1},
		"time":  {SnapshotBytes: -1, SnapshotEvery: 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			b := &blockedSave{saving: make(chan struct{}), release: make(chan struct{})}
			cfg.Dir, cfg.ReplicaID, cfg.RaftAddress = t.TempDir(), 1, loopback(t)
			log, err := OpenDragonboat(cfg, b, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			defer close(b.release)
			write(t, log, 5) // 10 kB
			if name == "bytes" {
				select {
				case <-b.saving:
					t.Fatal("too early")
				default:
				}
			}
			write(t, log, 6)
			select {
			case <-b.saving:
			case <-time.After(20 * time.Second):
				t.Fatal("no snapshot")
			}
		})
	}
}

// After Close nothing runs, whatever was going on.
func TestCloseLeavesNothingBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	w := &words{}
	log, err := OpenDragonboat(DragonboatConfig{Dir: t.TempDir(), ReplicaID: 1, RaftAddress: loopback(t)}, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	var callers, answers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 2000 {
				answers.Add(2)
				log.Propose([]byte("x"), time.Minute, func([]*messages.Result, error) { answers.Done() })
				log.ReadIndex(time.Minute, func(error) { answers.Done() })
			}
		})
	}
	write(t, log, 1)
	var closers sync.WaitGroup
	for range 2 {
		closers.Go(func() { log.Close() })
	}
	closers.Wait()
	callers.Wait()
	answers.Wait() // each exactly once: fewer would hang, more would panic
	if err := log.WaitReady(t.Context()); err != nil && messages.CodeOf(err) != messages.Code_CODE_NODE_STOPPING {
		t.Fatal(err)
	}
	if err := goleak.Find(before); err != nil {
		t.Fatal(err)
	}
}
