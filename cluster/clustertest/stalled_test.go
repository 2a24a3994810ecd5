package clustertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestStalledDisk: the file system under the leader's log stands still, as a disk does
// that is about to fail: writes neither end nor fail. The others go on without it, and
// when it moves again it follows them.
func TestStalledDisk(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	m := c.Followers()[0]
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	disk := newLoopDisk(t, m.Dir)
	t.Cleanup(m.Kill)
	t.Cleanup(func() {
		if disk.frozen { // nothing ends while it writes there
			disk.thaw(t)
		}
	})
	m.Dir = disk.dir
	m.Start()
	c.WaitServing()
	w := StartWorkload(c, 9, 4)
	w.WaitWrites(50)
	for range rounds {
		c.Lead(m)
		disk.freeze(t)
		began := time.Now()
		w.WaitWrites(writesMeanwhile)
		t.Logf("fault: stalled-disk: %d writes after %v without the leader's disk", writesMeanwhile, time.Since(began).Round(time.Millisecond))
		disk.thaw(t)
		w.WaitWrites(writesMeanwhile)
		c.WaitServing()
	}
	w.Stop()
	t.Logf("%d operations, errors seen through the SDK: %v", w.History.Len(), w.Errors)
	c.CheckDigests()
	w.History.Check(t)
}

// loopDisk is a file system of its own, in a file, that can be made to stand still.
type loopDisk struct {
	dir    string
	frozen bool
}

// newLoopDisk makes one that holds a copy of a directory. It needs root.
func newLoopDisk(t *testing.T, from string) *loopDisk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a file needs root")
	}
	dir := t.TempDir()
	d := &loopDisk{dir: filepath.Join(dir, "mnt")}
	image := filepath.Join(dir, "image")
	for _, args := range [][]string{
		{"truncate", "-s", "512M", image},
		{"mkfs.ext4", "-q", image},
		{"mkdir", d.dir},
		{"mount", "-o", "loop", image, d.dir},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no file system in a file: %v: %v: %s", args, err, out)
		}
	}
	mounted := d.dir
	t.Cleanup(func() { _ = exec.Command("umount", "-l", mounted).Run() })
	data := filepath.Join(d.dir, "data")
	if out, err := exec.Command("cp", "-a", from, data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.dir = data
	return d
}

func (d *loopDisk) freeze(t *testing.T) { d.set(t, "--freeze", true) }
func (d *loopDisk) thaw(t *testing.T)   { d.set(t, "--unfreeze", false) }

func (d *loopDisk) set(t *testing.T, how string, frozen bool) {
	t.Helper()
	if out, err := exec.Command("fsfreeze", how, filepath.Dir(d.dir)).CombinedOutput(); err != nil {
		t.Fatalf("fsfreeze %s: %v: %s", how, err, out)
	}
	d.frozen = frozen
}
