package state_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/concord-kv/concord/state"
)

var newGolden = flag.String("golden", "", "save a snapshot of today's state as testdata/golden/NAME.snapshot, if there is none")

// TestGoldenSnapshots loads snapshots that earlier builds saved. They must load for
// ever, with the digest that they were saved with: the digest covers every row, so
// neither a row's meaning nor a hash may change. The files are never rewritten.
func TestGoldenSnapshots(t *testing.T) {
	if *newGolden != "" {
		file := filepath.Join("testdata", "golden", *newGolden+".snapshot")
		if _, err := os.Stat(file); err == nil {
			t.Fatalf("%s exists", file)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, snapshotOf(t, rich(t).machine), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("testdata/golden/*.snapshot")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden snapshots: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := state.Load(bytes.NewReader(b))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		// It goes on: the session's answers, the leases, the history are there.
		s := newScript()
		s.machine, s.index, s.nowMs = m, m.Applied(), m.ClockMs()
		if got := s.run("put s 2 prev session=1 n=2"); got != "rev 14 was s=1 @13 v1 replayed" {
			t.Errorf("%s: %s", file, got)
		}
		if got := s.run("get keep/a rev=2"); got != "keep/a=1 @2 v1" {
			t.Errorf("%s: %s", file, got)
		}
		if got := s.run("sweep_leases"); got != fmt.Sprintf("rev %d expired 0 skipped 0 deleted 0", m.Revision()) {
			t.Errorf("%s: %s", file, got)
		}
		s.check(t)
	}
}

// TestImportGolden imports a version 1 file of another time.
func TestImportGolden(t *testing.T) {
	b, err := os.ReadFile("snapfile/testdata/version1.snapshot")
	if err != nil {
		t.Fatal(err)
	}
	m, err := state.Import(bytes.NewReader(b), state.ImportOptions{ClusterID: []byte("c"), Incarnation: 1, Revision: 7})
	if err != nil {
		t.Fatal(err)
	}
	if m.Revision() != 7 || m.CompactRevision() != 7 || m.Stats().Keys == 0 || m.Digest() != m.FullDigest() {
		t.Fatalf("%v: %+v", m, m.Stats())
	}
}
