package clustertest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// ended waits until a member's process has ended by itself and returns what it said.
func (m *Member) ended(t *testing.T) string {
	t.Helper()
	select {
	case <-m.Exited():
	case <-time.After(time.Minute):
		t.Fatalf("node %d goes on: %s", m.ID, m.Output())
	}
	m.Kill() // takes note that it is gone
	return m.Output()
}

// logFiles are the files of a member's log, the largest last.
func (m *Member) logFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	var largest int64
	err := filepath.WalkDir(m.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".log" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Size() > largest {
			largest = info.Size()
			files = append(files, path)
		} else {
			files = append([]string{path}, files...)
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no log in %s: %v", m.Dir, err)
	}
	return files
}

// TestDamagedLog: a member whose log has a flipped bit does not start, says what to do,
// and the others serve; a new one takes its place.
func TestDamagedLog(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	w := StartWorkload(c, 3, 2)
	w.WaitWrites(200)
	m := c.Followers()[0]
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	files := m.logFiles(t)
	path := files[len(files)-1]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(b)
	for end > 0 && b[end-1] == 0 {
		end--
	}
	b[end/2] ^= 0x10
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	m.Start()
	if said := m.ended(t); !strings.Contains(said, "the log is damaged: replace this replica by a new one") {
		t.Errorf("it said: %s", said)
	}
	w.WaitWrites(50)
	c.Replace(m.ID, 4)
	w.WaitWrites(50)
	w.Stop()
	c.CheckDigests()
	w.History.Check(t)
}

// TestFullDisk: a member whose disk is full stops and says so; the others serve, and it
// comes back when there is room.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	c := NewCluster(t, ClusterOptions{Nodes: 3, Flags: nil})
	m := c.Followers()[0]
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	// Its data goes on a disk of its own.
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=400m"); err != nil {
		t.Skipf("no mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	t.Cleanup(m.Kill)
	if out, err := exec.Command("cp", "-a", m.Dir+"/.", disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.Dir = disk
	m.Start()
	c.WaitServing()
	w := StartWorkload(c, 4, 2)
	w.WaitWrites(50)
	filler := filepath.Join(disk, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(chunk)
	}
	if err := f.Close(); err != nil {
		t.Log(err)
	}
	// It fails when its log next needs room.
	s := c.client(func() (others []string) {
		for _, o := range c.Members() {
			if o != m {
				others = append(others, o.Listen)
			}
		}
		return others
	}()...)
	ctx := Deadline(t, 3*time.Minute)
	for i := 0; m.Running(); i++ {
		if _, err := s.Put(ctx, fmt.Sprintf("/fill/%d", i%16), make([]byte, 512<<10), client.PutOptions{}); err != nil {
			t.Fatalf("the others do not take writes: %v", err)
		}
		if i == 1_000 {
			t.Fatal("it goes on without room")
		}
	}
	if said := m.ended(t); !strings.Contains(said, "no space left") {
		t.Errorf("it said: %s", tail(said, 2_000))
	}
	w.WaitWrites(50)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	m.Start()
	c.WaitServing()
	w.Stop()
	c.CheckDigests()
	w.History.Check(t)
}

// TestRemovedAndBack: the process of a member that was removed does not come back, and
// says why, nor does one with its id and an empty directory.
func TestRemovedAndBack(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	m := c.Followers()[0]
	c.Remove(m.ID)
	m.Start()
	if said := m.ended(t); !strings.Contains(said, "was removed from") {
		t.Errorf("it said: %s", said)
	}
	m.Dir = t.TempDir()
	m.Start()
	if said := m.ended(t); !strings.Contains(said[len(said)/2:], "was removed from") {
		t.Errorf("it said: %s", said)
	}
	if _, err := c.Client().Put(Deadline(t, time.Minute), "/a", nil, client.PutOptions{}); err != nil {
		t.Error(err)
	}
}

// TestWrongDirectory: a data directory belongs to one replica at one address.
func TestWrongDirectory(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 1})
	m := c.Member(1)
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	raft, peer := FreePort(t), FreePort(t)
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"another id": {[]string{"--replica-id", "2", "--member", "2=" + m.Address.Raft + "," + m.Address.Peer + "," + m.Address.Client},
			"the directory belongs to another replica"},
		"another address": {[]string{"--replica-id", "1", "--member", fmt.Sprintf("1=%s,%s,%s", raft, peer, m.Address.Client)},
			"the directory belongs to another raft address"},
		"another name": {[]string{"--replica-id", "1", "--cluster-name", "x", "--member", memberFlag(m.Address)},
			"the directory belongs to another cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(Deadline(t, time.Minute), m.bin, append([]string{"serve", "--data-dir", m.Dir}, tc.args...)...)
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), tc.says) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
