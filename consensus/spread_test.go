package consensus

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lni/vfs"
)

// TestSpreadKeepsBytes: a snapshot file that is written to the disk as it grows, in any
// pieces and by any number of openings, has the bytes that were written; other files are
// not touched.
func TestSpreadKeepsBytes(t *testing.T) {
	fs := spreadFS{vfs.Default}
	name := filepath.Join(t.TempDir(), "snapshot-1"+snapshotSuffix)
	r := rand.New(rand.NewPCG(3, 4))
	want := make([]byte, 5*spreadBytes+12_345)
	for i := range want {
		want[i] = byte(r.Uint32())
	}
	f, err := fs.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, wrapped := f.(*spreadFile); !wrapped {
		t.Fatalf("%T", f)
	}
	for left, opened := want, 0; len(left) > 0; {
		n := min(len(left), 1+r.IntN(spreadBytes))
		if _, err := f.Write(left[:n]); err != nil {
			t.Fatal(err)
		}
		if left = left[n:]; opened < 3 && r.IntN(3) == 0 {
			opened++
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if f, err = fs.OpenForAppend(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes of %d, or others: %v", len(got), len(want), err)
	}
	log, err := fs.Create(filepath.Join(t.TempDir(), "000001.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, wrapped := log.(*spreadFile); wrapped {
		t.Error("the log is no snapshot")
	}
}

// TestIdleReplicaSaves: a replica that has applied much, and nothing since two looks,
// saves a snapshot; one that is busy, or has applied little, does not.
func TestIdleReplicaSaves(t *testing.T) {
	var s snapshotter
	s.init(DragonboatConfig{SnapshotBytes: 80 << 20})
	var i idle
	step := func(applied int, want bool) {
		t.Helper()
		s.grown(applied)
		if got := i.look(&s); got != want {
			t.Fatalf("due %v with %d bytes, quiet %d", got, s.bytes.Load(), i.quiet)
		}
		if want {
			s.bytes.Store(0) // it is saved
		}
	}
	step(9<<20, false) // busy
	step(1<<20, false)
	step(100, false) // quiet once: 10 MiB are there
	step(100, true)
	step(100, false) // nothing is left to save
	step(100, false)
	step(2<<20, false)
	step(0, false)
	step(0, false) // quiet, but too little
	s.grown(79 << 20)
	select {
	case <-s.due:
	default:
		t.Fatal("the bytes alone are enough")
	}
	if !s.wants(time.Now()) {
		t.Fatal("nothing was saved that it would rest from")
	}
	s.bytes.Store(0)
	step(0, false)
	off := snapshotter{bytesMax: -1}
	off.bytes.Store(1 << 30)
	quiet := idle{bytes: 1 << 30, quiet: 5}
	if quiet.look(&off) {
		t.Error("a snapshot although bytes are no reason")
	}
}

// TestSnapshotsRest: however fast the log grows, a snapshot that takes long is followed by
// a rest, unless very much waits to be saved.
func TestSnapshotsRest(t *testing.T) {
	var s snapshotter
	s.init(DragonboatConfig{SnapshotBytes: 1 << 20})
	began := time.Unix(1000, 0)
	ended := began.Add(20 * time.Second)
	s.taken(began, ended)
	for _, x := range []struct {
		bytes int64
		after time.Duration
		want  bool
	}{
		{1<<20 - 1, time.Hour, false}, // too little
		{1 << 20, 0, false}, {2 << 20, 59 * time.Second, false},
		{1 << 20, 60 * time.Second, true},
		{8<<20 - 1, 0, false}, {8 << 20, 0, true},
	} {
		s.bytes.Store(x.bytes)
		if got := s.wants(ended.Add(x.after)); got != x.want {
			t.Errorf("%d bytes, %v after a snapshot that took 20 s: %v", x.bytes, x.after, got)
		}
	}
}
