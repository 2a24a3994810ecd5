package clustertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestB195MemberWithoutItsData: a member that comes back under its id with an empty
// directory is not heard by the others; it and they say why and what to do, they go on
// without it, and a new node takes its place.
func TestB195MemberWithoutItsData(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	w := StartWorkload(c, 195, 2)
	w.WaitWrites(40)
	ctx := Deadline(t, 2*time.Minute)
	for _, x := range c.Members() {
		for !hasMet(t, x, 2) {
			if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
				t.Fatalf("node %d has not written down the others", x.ID)
			}
		}
	}
	m := c.Followers()[0]
	m.Kill()
	files, err := os.ReadDir(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.RemoveAll(filepath.Join(m.Dir, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	m.Start()
	leader := c.Leader()
	const why = "has lost its data directory"
	for _, x := range c.Members() {
		for !strings.Contains(x.Output(), why) {
			if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
				t.Fatalf("node %d lost its files, node %d says: %s\nit says: %s", m.ID, x.ID, x.Output(), m.Output())
			}
		}
	}
	if !strings.Contains(m.Output(), "add a new node under a new id") {
		t.Errorf("it does not say what to do: %s", m.Output())
	}
	w.WaitWrites(40)
	if c.Leader() == m {
		t.Error("it leads")
	}
	// The other follower does not take its vote either: what only the leader and the lost
	// files had is not lost when the leader is down.
	leader.Kill()
	leader.Start()
	w.WaitWrites(40)
	m.Kill()
	c.Replace(m.ID, 4)
	w.WaitWrites(50)
	w.Stop()
	c.CheckDigests()
	w.History.Check(t)
}

// hasMet tells whether a member has written down so many others.
func hasMet(t *testing.T, m *Member, others int) bool {
	t.Helper()
	info, err := os.Stat(filepath.Join(m.Dir, "concord-incarnations"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil && info.Size() == int64(16+16*others+4)
}
