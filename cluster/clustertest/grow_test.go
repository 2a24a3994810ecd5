package clustertest

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// growKeys are written to the node that was alone.
const growKeys = 2_000

// TestGrowFromOne: a node that was started alone, with addresses at which others can reach
// it, becomes one of three by commands of an operator, while clients write; then it is
// killed, and the other two have everything.
func TestGrowFromOne(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 1})
	ctx := Deadline(t, 3*time.Minute)
	one := c.Member(1)
	fill(ctx, t, one.Client(), "/alone/", growKeys, 100)
	one.Kill() // it comes back as it was, and may still grow
	one.Start()
	c.WaitServing()
	w := StartWorkload(c, 1, 2)
	for id := uint64(2); id <= 3; id++ {
		m := c.prepare(id, []string{"--non-voting", "--join", one.Address.Peer})
		m.args = append(m.args, "--member", memberFlag(m.Address))
		at := []string{"--endpoint", one.Listen}
		if out, err := c.concord(ctx, append([]string{"cluster", "add", memberFlag(m.Address), "--non-voting"}, at...)...); err != nil {
			t.Fatalf("add %d: %v, %s", id, err, out)
		}
		m.Start()
		for {
			out, err := c.concord(ctx, append([]string{"cluster", "promote", strconv.FormatUint(id, 10)}, at...)...)
			if err == nil {
				break
			}
			if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
				t.Fatalf("promote %d: %v, %s", id, err, out)
			}
		}
	}
	w.WaitWrites(100)
	one.Kill()
	w.WaitWrites(100) // the two that joined go on
	checkGrown(ctx, t, c.client(c.Member(2).Listen, c.Member(3).Listen))
	one.Start()
	w.Stop()
	c.CheckDigests()
	w.History.Check(t)
}

// checkGrown checks that a client finds what was written to the node when it was alone.
func checkGrown(ctx context.Context, t *testing.T, s *client.Client) {
	t.Helper()
	l, err := s.List(ctx, Prefix("/alone/"), client.ListOptions{CountOnly: true})
	if err != nil || l.Count != growKeys {
		t.Fatalf("%d keys of %d, %v", l.Count, growKeys, err)
	}
}

// TestGrowThroughABackup: a node that was begun without addresses for others refuses
// members, and its directory refuses addresses; both say what to do, and that works: a
// backup of it is restored into the directories of three.
func TestGrowThroughABackup(t *testing.T) {
	n := NewNode(t)
	n.Start()
	ctx := Deadline(t, 3*time.Minute)
	s := n.Client()
	fill(ctx, t, s, "/alone/", growKeys, 100)
	three := &Cluster{t: t, members: map[uint64]*Member{}, bin: n.bin}
	restore := []string{"restore", filepath.Join(t.TempDir(), "backup")}
	for id := range uint64(3) {
		m := three.prepare(id+1, nil)
		three.first = append(three.first, "--member", memberFlag(m.Address))
		restore = append(restore, "--data-dir", m.Dir)
	}

	_, err := s.Operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_AddMember{
		AddMember: &messages.AddMemberRequest{Address: three.Member(2).Address, NonVoting: true},
	}})
	var refusal *messages.Error
	if !errors.As(err, &refusal) || refusal.Code() != messages.Code_CODE_UNSUPPORTED || refusal.Detail.GetField() != "member" || !strings.Contains(refusal.Error(), "restore a backup") {
		t.Errorf("add a member: %v", err)
	}
	out, err := three.concord(ctx, "cluster", "add", memberFlag(three.Member(2).Address), "--endpoint", n.Listen)
	if err == nil || !strings.Contains(out, "restore a backup") {
		t.Errorf("cluster add: %v, %s", err, out)
	}

	if out, err := three.concord(ctx, "backup", restore[1], "--endpoint", n.Listen); err != nil {
		t.Fatalf("backup: %v, %s", err, out)
	}
	if err := n.Stop(); err != nil {
		t.Error(err)
	}
	one := three.Member(1)
	out, err = three.concord(ctx, append([]string{"serve", "--data-dir", n.Dir, "--listen", n.Listen, "--replica-id", "1"}, three.first[:2]...)...)
	if err == nil || !strings.Contains(out, "begun without one") {
		t.Errorf("its directory with --member: %v, %s", err, out)
	}

	if out, err := three.concord(ctx, restore...); err != nil {
		t.Fatalf("restore: %v, %s", err, out)
	}
	for _, m := range three.Members() {
		m.args = append(m.args, three.first...)
		m.Start()
	}
	three.WaitServing()
	one.Kill()
	k := three.client(three.Member(2).Listen, three.Member(3).Listen)
	checkGrown(ctx, t, k)
	if _, err := k.Put(ctx, "/new", nil, client.PutOptions{}); err != nil {
		t.Error(err)
	}
}
