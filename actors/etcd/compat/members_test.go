package compat

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
)

// ctl runs etcdctl and returns what it printed, and whether it failed.
func ctl(t testing.TB, at []string, args ...string) (string, bool) {
	t.Helper()
	bin, err := etcdctl()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, bin, append([]string{"--command-timeout", "30s", "--endpoints", strings.Join(at, ",")}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err != nil
}

// prints runs etcdctl, which must succeed and print what matches.
func prints(t testing.TB, want string, at []string, args ...string) []string {
	t.Helper()
	out, failed := ctl(t, at, args...)
	m := regexp.MustCompile(want).FindStringSubmatch(out)
	if failed || m == nil {
		t.Fatalf("etcdctl %s printed\n%s\nnot %s", strings.Join(args, " "), out, want)
	}
	return m
}

// refuses runs etcdctl, which must fail and print what matches.
func refuses(t testing.TB, want string, at []string, args ...string) {
	t.Helper()
	out, failed := ctl(t, at, args...)
	if !failed || !regexp.MustCompile(want).MatchString(out) {
		t.Fatalf("etcdctl %s printed (failed: %v)\n%s\nnot %s", strings.Join(args, " "), failed, out, want)
	}
}

// eventually asks until what was asked for is so.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(2 * time.Minute); ; {
		if is() {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatal(what)
		}
	}
}

// TestEtcdctlMembers: a member is added as a learner, started, promoted, updated and
// removed by etcdctl; the lead is handed over; any member names the endpoints of all of
// them, and all have the same checksum.
func TestEtcdctlMembers(t *testing.T) {
	nodes, members := startMembers(t)
	all := endpoints(nodes)
	one := all[:1]
	line := func(id int, at string) string {
		return fmt.Sprintf(`(?m)^%d, started, replica-%d, http://[^,]+,http://[^,]+, http://%s, false$`, id, id, regexp.QuoteMeta(at))
	}
	for i, at := range all {
		eventually(t, "the endpoint of "+at+" is not told", func() bool {
			out, failed := ctl(t, one, "member", "list")
			return !failed && regexp.MustCompile(line(i+1, at)).MatchString(out)
		})
	}
	prints(t, "^OK", one, "put", "k", "v")
	prints(t, `(?s)(is healthy.*){3}`, one, "endpoint", "health", "--cluster")
	prints(t, `(?s)(3\.7\.3.*){3}`, one, "endpoint", "status", "--cluster")

	m := &messages.MemberAddress{ReplicaId: 4, Raft: freePort(t), Peer: freePort(t), Client: freePort(t)}
	urls := fmt.Sprintf("http://%s,http://%s,http://%s", m.Raft, m.Peer, m.Client)
	refuses(t, `member URLs`, one, "member", "add", "four", "--peer-urls", "http://"+m.Raft)
	prints(t, `Member +4 added as learner to cluster`, one, "member", "add", "four", "--learner", "--peer-urls", urls)
	refuses(t, `Peer URLs already exists`, one, "member", "add", "five", "--peer-urls", urls)
	prints(t, `(?m)^4, started, replica-4, .*, true$`, one, "member", "list")
	refuses(t, `can only promote a learner member which is in sync with leader`, one, "member", "promote", "4")
	refuses(t, `can only promote a learner member\n`, one, "member", "promote", "1")
	fourth, err := node.Start(node.Config{
		Dir: t.TempDir(), ReplicaID: 4, RaftAddress: m.Raft, PeerListenAddress: m.Peer, ClientAddress: m.Client, Join: true, NonVoting: true,
		Members: []*messages.MemberAddress{m}, Contacts: []string{members[0].Peer, members[1].Peer, members[2].Peer}, StartTimeout: -1, Etcd: &node.Etcd{Address: "127.0.0.1:0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fourth.Close() }) // it may have stopped, removed
	eventually(t, "the learner does not catch up", func() bool {
		out, failed := ctl(t, one, "member", "promote", "4")
		return !failed && strings.Contains(out, "promoted in cluster")
	})
	prints(t, line(4, fourth.EtcdAddr()), one, "member", "list")
	sums := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\S+, (\d+)`).FindAllStringSubmatch(prints(t, `(?s).+`, one, "endpoint", "hashkv", "--cluster", "--rev", "2")[0], -1) {
		sums[m[1]] = true
	}
	if len(sums) != 1 {
		t.Fatalf("checksums %v", sums)
	}
	prints(t, `Member +4 updated in cluster`, one, "member", "update", "4", "--peer-urls", urls)
	refuses(t, `cannot change`, one, "member", "update", "4", "--peer-urls", "http://127.0.0.1:1")
	refuses(t, `member not found`, one, "member", "update", "77", "--peer-urls", urls)

	from := leader(t, nodes)
	to := (from+1)%3 + 1
	prints(t, fmt.Sprintf(`Leadership transferred from %x to %x`, from+1, to), all, "move-leader", fmt.Sprintf("%x", to))
	refuses(t, `no leader endpoint given|bad leader transferee`, all, "move-leader", "77")

	prints(t, `Member +4 removed from cluster`, one, "member", "remove", "4")
	refuses(t, `member not found`, one, "member", "remove", "4")
	if out, failed := ctl(t, one, "member", "list"); failed || strings.Contains(out, "replica-4") {
		t.Fatalf("removed, and still there:\n%s", out)
	}
	prints(t, "^OK", one, "put", "k", "after")
}

// TestSnapshotRestored: what etcdctl saves, `concord restore` makes a cluster of again, and
// etcdctl finds everything in it but leases and their keys, which end: whoever held them
// does not hold them in the new cluster. A file that was altered is refused.
func TestSnapshotRestored(t *testing.T) {
	n := startNode(t)
	c := client(t, n.EtcdAddr())
	ctx := deadline(t, 3*time.Minute)
	lease := need(c.Grant(ctx, 3600))(t)
	for i := range 200 {
		need(c.Put(ctx, fmt.Sprintf("k%03d", i), strings.Repeat("v", i)))(t)
	}
	prints(t, "^OK", []string{n.EtcdAddr()}, "put", "leased", "v", "--lease", fmt.Sprintf("%x", lease.ID))
	dir := t.TempDir()
	file := filepath.Join(dir, "snapshot.db")
	prints(t, "Snapshot saved at", []string{n.EtcdAddr()}, "snapshot", "save", file)
	concord := filepath.Join(dir, "concord")
	build := exec.CommandContext(ctx, "go", "build", "-o", concord, "./cmd/concord")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	restore := func(file, to string) (string, error) {
		out, err := exec.CommandContext(ctx, concord, "restore", file, "--data-dir", to).CombinedOutput()
		return string(out), err
	}
	data := filepath.Join(dir, "data")
	if out, err := restore(file, data); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	restored := need(node.Start(node.Config{Dir: data, Etcd: &node.Etcd{Address: "127.0.0.1:0"}}))(t)
	t.Cleanup(func() { _ = restored.Close() })
	at := []string{restored.EtcdAddr()}
	eventually(t, "leases outlive the restore", func() bool {
		out, failed := ctl(t, at, "get", "", "--prefix", "--count-only", "-w", "fields")
		return !failed && strings.Contains(out, `"Count" : 200`+"\n")
	})
	prints(t, `^k150\nv{150}\n$`, at, "get", "k150")
	prints(t, `already expired`, at, "lease", "timetolive", fmt.Sprintf("%x", lease.ID))
	prints(t, "^OK", at, "put", "k150", "again")
	b := need(os.ReadFile(file))(t)
	b[len(b)/2] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := restore(file, filepath.Join(dir, "other")); err == nil {
		t.Fatalf("an altered snapshot was restored:\n%s", out)
	}
}
