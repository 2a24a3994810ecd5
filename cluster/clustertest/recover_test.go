package clustertest

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// concord runs a command to its end and returns what it printed.
func (c *Cluster) concord(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.bin, args...)
	cmd.Dir = c.t.TempDir()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestRecover: two of three members are lost for good. What the third has becomes a new
// cluster, which takes writes and hands out nothing twice.
func TestRecover(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	ctx := Deadline(t, 3*time.Minute)
	s := c.Client()
	fill(ctx, t, s, "/a/", 300, 50)
	c.CheckDigests() // so that the one that is left knows all of it
	before, err := s.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	survivor := c.Followers()[0]
	flags := append([]string{"--data-dir", survivor.Dir}, survivor.args...)
	file := filepath.Join(t.TempDir(), "saved")

	for _, m := range c.Members() {
		if m != survivor {
			m.Kill()
		}
	}
	// While it runs nobody else opens its directory.
	if out, err := c.concord(ctx, append([]string{"recover", file, "--majority-is-lost"}, flags...)...); err == nil || !strings.Contains(out, "in use") && !strings.Contains(out, "another process") {
		t.Errorf("recover of a running member: %v, %s", err, out)
	}
	if err := survivor.Stop(); err != nil {
		t.Error(err)
	}
	if out, err := c.concord(ctx, append([]string{"recover", file}, flags...)...); err == nil || !strings.Contains(out, "--majority-is-lost") {
		t.Errorf("recover without a word: %v, %s", err, out)
	}
	out, err := c.concord(ctx, append([]string{"recover", file, "--majority-is-lost"}, flags...)...)
	if err != nil || !strings.Contains(out, fmt.Sprintf("saved revision %d ", before.Revision)) {
		t.Fatalf("%v, %s; the revision was %d", err, out, before.Revision)
	}

	n := &Cluster{t: t, members: map[uint64]*Member{}, bin: c.bin}
	restore := []string{"restore", file}
	for id := range uint64(3) {
		m := n.prepare(id+1, nil)
		n.first = append(n.first, "--member", memberFlag(m.Address))
		restore = append(restore, "--data-dir", m.Dir)
	}
	out, err = c.concord(ctx, restore...)
	if err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	_, name, ok := strings.Cut(out, "cluster name, for nodes that join later: ")
	if !ok {
		t.Fatalf("restore names no cluster: %s", out)
	}
	name, _, _ = strings.Cut(name, "\n")
	for _, m := range n.Members() {
		m.args = append(m.args, n.first...)
		m.Start()
	}
	n.WaitServing()
	k := n.Client()
	l, err := k.List(ctx, Prefix("/a/"), client.ListOptions{CountOnly: true})
	if err != nil || l.Count != 300 {
		t.Fatalf("%d keys, %v", l.Count, err)
	}
	r, err := k.Put(ctx, "/new", nil, client.PutOptions{})
	if err != nil || r.Revision < before.Revision+1<<40 {
		t.Errorf("revision %d, %v", r.Revision, err)
	}
	// One that joins afterwards gets what there is now, not what was saved.
	four := n.Add(4, true, "--cluster-name", name)
	now, err := four.Client().Revision(ctx)
	if err != nil || now.Revision < r.Revision {
		t.Errorf("the one that joined is at revision %d, %v; %d was written before", now.Revision, err, r.Revision)
	}
	n.CheckDigests()
}
