package clustertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// exitDamaged is the exit code of a node that cannot use what is on its disk.
const exitDamaged = 9

// saveSnapshot makes a node save one now.
func saveSnapshot(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	if _, err := c.Operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_SaveSnapshot{SaveSnapshot: &messages.SaveSnapshotRequest{}}}); err != nil {
		t.Fatal(err)
	}
}

// snapshots are the snapshot files of a node.
func (n *Node) snapshots(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(n.Dir, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".gbsnap" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no snapshot in %s: %v", n.Dir, err)
	}
	return files
}

// refusesToStart starts a node that must end by itself, with a code and a word of what to do.
func (n *Node) refusesToStart(t *testing.T, code int, says string) {
	t.Helper()
	n.Start()
	select {
	case <-n.Exited():
	case <-time.After(time.Minute):
		t.Fatalf("it goes on: %s", n.Output())
	}
	n.mu.Lock()
	got := n.cmd.ProcessState.ExitCode()
	n.mu.Unlock()
	n.Kill() // takes note that it is gone
	if got != code || !strings.Contains(n.Output(), says) {
		t.Errorf("exit code %d, want %d and %q: %s", got, code, says, tail(n.Output(), 2_000))
	}
}

// TestB178SnapshotIsGone: the state begins with a snapshot, and the snapshot's file is
// gone, or has another bit. The node never serves without what was in it.
func TestB178SnapshotIsGone(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(file string) error{
		"gone": os.Remove,
		"a bit": func(file string) error {
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			b[len(b)*3/4] ^= 4
			return os.WriteFile(file, b, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := Deadline(t, 2*time.Minute)
			n := NewNode(t)
			n.Start()
			c := n.Client()
			n.WaitReady(c)
			fill(ctx, t, c, "/a/", 300, 100)
			saveSnapshot(ctx, t, c)
			n.Kill()
			for _, file := range n.snapshots(t) {
				if err := damage(file); err != nil {
					t.Fatal(err)
				}
			}
			n.refusesToStart(t, exitDamaged, "the snapshot is damaged or gone: replace this replica by a new one, or restore a backup")
		})
	}
}

// TestB180SnapshotRightAfterAMemberWasAdded: a snapshot that is saved as soon as a member
// has been added knows that member: another one that begins with it does too, and so does
// everybody after a restart of all. While it begins, lists of the members are the old one
// or the new one, never half or none (B203).
func TestB180SnapshotRightAfterAMemberWasAdded(t *testing.T) {
	t.Parallel()
	ctx := Deadline(t, 3*time.Minute)
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	fill(ctx, t, c.Client(), "/a/", 2_500, 100) // more entries than stay behind a snapshot, unless many share one
	c.Grow(4)
	for _, m := range c.Members() {
		saveSnapshot(ctx, t, m.Client())
	}
	list := func(m *Member) (string, error) {
		reply, err := m.Client().Operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_Members{Members: &messages.MembersRequest{Local: true}}})
		var ids []string
		for _, x := range reply.GetMembers().GetMembers() {
			ids = append(ids, fmt.Sprintf("%d %v", x.GetAddress().GetReplicaId(), x.GetVoting()))
		}
		return strings.Join(ids, ", "), err
	}
	const all = "1 true, 2 true, 3 true, 4 true, 5 false"
	five := c.Add(5, true)
	for {
		got, err := list(five)
		if err == nil && got == all {
			break
		}
		if err == nil && got != "" && got != "1 true, 2 true, 3 true, 4 true" {
			t.Fatalf("while it begins it shows %q", got)
		}
		if ctx.Err() != nil {
			t.Fatalf("it shows %q, %v", got, err)
		}
		pause(ctx, 5*time.Millisecond)
	}
	for _, m := range c.Members() {
		m.Kill()
	}
	for _, m := range c.Members() {
		m.Start()
	}
	c.WaitServing()
	for _, m := range c.Members() {
		for got := ""; got != all; pause(ctx, 20*time.Millisecond) {
			var err error
			if got, err = list(m); ctx.Err() != nil {
				t.Fatalf("after a restart node %d shows %q, %v", m.ID, got, err)
			}
		}
	}
	c.CheckDigests()
}

// TestB183BackupAtAFollowerThatIsBehind: a backup that is read from a member far behind
// the leader, while two keys are written together, has both of one transaction, and
// everything that was acknowledged before it was asked for.
func TestB183BackupAtAFollowerThatIsBehind(t *testing.T) {
	t.Parallel()
	ctx := Deadline(t, 3*time.Minute)
	c := NewCluster(t, ClusterOptions{Nodes: 3, Network: true})
	follower := c.Followers()[0]
	for _, m := range c.Members() {
		c.Net.Delay(m.ID, follower.ID, 30*time.Millisecond)
	}
	s, writer := c.Client(), c.Client()
	stop, end := context.WithCancel(ctx)
	defer end()
	written, over := make(chan int, 1), make(chan error, 1)
	go func() {
		for i := 1; ; i++ {
			x, y := fmt.Append(nil, i), fmt.Append(nil, 1_000_000-i)
			_, err := writer.PutMany(ctx, client.PutOf("/x", x, client.PutOptions{}), client.PutOf("/y", y, client.PutOptions{}))
			if err != nil || stop.Err() != nil {
				over <- err
				return
			}
			if i == 50 {
				written <- i
			}
		}
	}()
	least := <-written
	r, err := s.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	if out, err := c.concord(ctx, "backup", file, "--endpoint", follower.Listen); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	end()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	n := NewNode(t)
	if out, err := c.concord(ctx, "restore", file, "--data-dir", n.Dir); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n.Start()
	k := n.Client()
	var x, y int
	both, err := k.GetMany(ctx, []string{"/x", "/y"}, client.GetOptions{})
	if err != nil || len(both.Records) != 2 || both.Records[0] == nil || both.Records[1] == nil {
		t.Fatalf("%v, %v", both, err)
	}
	_, _ = fmt.Sscan(string(both.Records[0].GetValue()), &x)
	_, _ = fmt.Sscan(string(both.Records[1].GetValue()), &y)
	if x+y != 1_000_000 || x < least || both.Records[0].GetModRevision() != both.Records[1].GetModRevision() || both.Records[0].GetModRevision() < r.Revision {
		t.Errorf("x %d, y %d at %d and %d; before the backup x was %d, the revision %d", x, y,
			both.Records[0].GetModRevision(), both.Records[1].GetModRevision(), least, r.Revision)
	}
}

// TestB191StartsFromWhatIsThere: a node starts from an empty directory, from a log alone,
// from a snapshot with hardly any log, and from both, and has the same each time.
func TestB191StartsFromWhatIsThere(t *testing.T) {
	t.Parallel()
	ctx := Deadline(t, 3*time.Minute)
	n := NewNode(t)
	n.Start() // an empty directory
	c := n.Client()
	n.WaitReady(c)
	want := 0
	again := func(what string) {
		t.Helper()
		before, err := c.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n.Kill()
		n.Start()
		l, err := c.List(ctx, Prefix("/a/"), client.ListOptions{CountOnly: true})
		if err != nil || int(l.Count) != want {
			t.Fatalf("%s: %d keys, want %d, %v", what, l.Count, want, err)
		}
		after, err := c.Status(ctx)
		if err != nil || after.GetRevision() != before.GetRevision() || after.GetLeases() != before.GetLeases() {
			t.Fatalf("%s: %v, before %v, %v", what, after, before, err)
		}
	}
	add := func() {
		fill(ctx, t, c, fmt.Sprintf("/a/%d/", want), 100, 200)
		want += 100
		if _, err := c.Grant(ctx, time.Hour, client.GrantOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	again("nothing")
	add()
	again("a log")
	saveSnapshot(ctx, t, c)
	again("a snapshot")
	add()
	again("a snapshot and a log")
	again("the same once more")
}

// TestB193OneOfThree: the first member of a cluster of three that is not there yet takes
// nothing, says so, and applies nothing of it later.
func TestB193OneOfThree(t *testing.T) {
	t.Parallel()
	ctx := Deadline(t, 3*time.Minute)
	c := preparedCluster(t, ClusterOptions{Nodes: 3})
	c.Member(1).Start()
	s, err := client.New(client.Config{Endpoints: []string{c.Member(1).Listen}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, call := range map[string]func(context.Context) error{
		"put": func(ctx context.Context) error { _, err := s.Put(ctx, "/early", nil, client.PutOptions{}); return err },
		"put many": func(ctx context.Context) error {
			_, err := s.PutMany(ctx, client.PutOf("/early", nil, client.PutOptions{}))
			return err
		},
		"create": func(ctx context.Context) error {
			_, err := s.Create(ctx, "/early", nil, client.PutOptions{})
			return err
		},
		"delete": func(ctx context.Context) error {
			_, err := s.Delete(ctx, Prefix("/"), client.DeleteOptions{})
			return err
		},
		"grant":   func(ctx context.Context) error { _, err := s.Grant(ctx, time.Hour, client.GrantOptions{}); return err },
		"revoke":  func(ctx context.Context) error { _, err := s.Revoke(ctx, 1); return err },
		"compact": func(ctx context.Context) error { _, err := s.Compact(ctx, 1); return err },
		"index":   func(ctx context.Context) error { _, err := s.DropIndex(ctx, "i"); return err },
		"cursor":  func(ctx context.Context) error { _, err := s.CloseCursor(ctx, "c"); return err },
		"user":    func(ctx context.Context) error { _, err := s.AddUser(ctx, "u", "password of u"); return err },
		"get":     func(ctx context.Context) error { _, err := s.Get(ctx, "/early", client.GetOptions{}); return err },
		"watch": func(ctx context.Context) error {
			w, err := s.Watch(ctx, Prefix("/"), client.WatchOptions{})
			if err == nil {
				_, err = w.Next(ctx)
				w.Close()
			}
			return err
		},
	} {
		within, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		err := call(within)
		cancel()
		var e *messages.Error
		if err == nil || errors.As(err, &e) && e.Outcome() == messages.Outcome_OUTCOME_APPLIED {
			t.Errorf("%s: %v", name, err)
		}
		if e != nil && e.Outcome() == messages.Outcome_OUTCOME_UNKNOWN && name != "watch" {
			t.Errorf("%s: a node that never had a leader does not know what became of it: %v", name, err)
		}
	}
	c.Member(2).Start()
	c.Member(3).Start()
	c.WaitServing()
	r, err := c.Client().Revision(ctx)
	if err != nil || r.Revision != 0 {
		t.Errorf("a new cluster is at revision %d, %v", r.Revision, err)
	}
	c.CheckDigests()
}
