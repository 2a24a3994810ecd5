package consensus

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftpb"
)

// TestIncarnationsAreKept: the first incarnation of a replica counts, also after a restart;
// those of another cluster do not, and a damaged file is not passed over.
func TestIncarnationsAreKept(t *testing.T) {
	fs := newCrashFS(0)
	if err := fs.MkdirAll("/replica", 0o755); err != nil {
		t.Fatal(err)
	}
	open := func(deployment uint64, fresh bool) *incarnations {
		t.Helper()
		x, err := openIncarnations(DragonboatConfig{FS: fs, Dir: "/replica", DeploymentID: deployment}, fresh)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	check := func(x *incarnations, replica, incarnation uint64, taken bool) {
		t.Helper()
		why, err := x.check(replica, incarnation)
		if err != nil || taken != (why == "") {
			t.Fatalf("replica %d, incarnation %d: %q, %v", replica, incarnation, why, err)
		}
		if !taken && !strings.Contains(why, "remove replica 2 from the cluster, and add a new node under a new id") {
			t.Errorf("it says %q", why)
		}
	}
	x := open(7, true)
	check(x, 2, 22, true)
	check(x, 3, 33, true)
	check(x, 2, 23, false)
	again := open(7, false)
	if again.self != x.self || x.self == 0 {
		t.Errorf("it is %x and was %x", again.self, x.self)
	}
	check(again, 2, 22, true)
	check(again, 2, 23, false)
	other := open(8, false)
	if other.self != x.self {
		t.Error("its own changed with the cluster")
	}
	check(other, 2, 23, true)
	if lost := open(8, true); lost.self == x.self {
		t.Error("a log that was lost is not noticed when the file is left")
	} else {
		check(lost, 2, 22, false)
	}

	b, err := readFile(fs, "/replica/"+incarnationFile)
	if err != nil {
		t.Fatal(err)
	}
	b[9] ^= 1
	if err := writeSynced(fs, "/replica/"+incarnationFile, b); err != nil {
		t.Fatal(err)
	}
	if _, err := openIncarnations(DragonboatConfig{FS: fs, Dir: "/replica", DeploymentID: 8}, false); err == nil {
		t.Error("a damaged file is taken")
	}
}

// TestAnotherIncarnationIsNotHeard: a replica that begins again with an empty directory is
// told so when it greets, whatever it has to send, and what it sends is not taken.
func TestAnotherIncarnationIsNotHeard(t *testing.T) {
	members := map[uint64]string{1: loopback(t), 2: loopback(t)}
	heard := make(chan raftpb.MessageBatch, 1)
	open := func(id uint64) *transport {
		fs := newCrashFS(0)
		if err := fs.MkdirAll("/r", 0o755); err != nil {
			t.Fatal(err)
		}
		cfg := DragonboatConfig{FS: fs, Dir: "/r", ReplicaID: id, RaftAddress: members[id], InitialMembers: members, Logger: slog.New(slog.DiscardHandler)}
		g := newGuard(cfg)
		g.open.Store(true)
		known, err := openIncarnations(cfg, true)
		if err != nil {
			t.Fatal(err)
		}
		g.incarnations.Store(known)
		tr := transports{cfg: cfg, guard: g}.Create(config.NodeHostConfig{RaftAddress: members[id]},
			func(b raftpb.MessageBatch) { heard <- b }, func(raftpb.Chunk) bool { return true }).(*transport)
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	two := open(2)
	wiped := open(2) // serves later, at the address of two
	if err := two.Start(); err != nil {
		t.Fatal(err)
	}
	var one *transport
	for _, x := range []*transport{open(1), open(1)} {
		c, err := x.GetConnection(t.Context(), members[2])
		if x.guard.incarnations.Load().self != two.guard.incarnations.Load().peers[1] {
			if err == nil || !strings.Contains(err.Error(), "has lost its data directory") {
				t.Errorf("another one is heard: %v", err)
			}
			if s, err := x.GetSnapshotConnection(t.Context(), members[2]); err == nil {
				t.Errorf("another one may send snapshots: %v", s)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		m := raftpb.Message{From: 1, To: 2, ShardID: shardID, Type: raftpb.Heartbeat}
		if err := c.SendMessageBatch(raftpb.MessageBatch{SourceAddress: members[1], Requests: []raftpb.Message{m}}); err != nil {
			t.Fatal(err)
		}
		<-heard
		c.Close()
		one = x
	}
	// The one that knew the old one does not speak to a new one either: what it would say
	// ends the new one.
	two.Close()
	if err := wiped.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := one.GetConnection(t.Context(), members[2]); err == nil || !strings.Contains(err.Error(), "has lost its data directory") {
		t.Errorf("another one is spoken to: %v", err)
	}
}

// TestDirectoriesWithoutAnIncarnation: those of a build before there were any get one and
// go on; from then on a member that lost its files is refused, and says so.
func TestDirectoriesWithoutAnIncarnation(t *testing.T) {
	members, dirs, said := map[uint64]string{}, map[uint64]string{}, &lines{}
	for id := uint64(1); id <= 3; id++ {
		members[id], dirs[id] = loopback(t), t.TempDir()
	}
	open := func(id uint64) Log {
		log, err := OpenDragonboat(DragonboatConfig{
			Dir: dirs[id], ReplicaID: id, RaftAddress: members[id], InitialMembers: members,
			Logger: slog.New(slog.NewTextHandler(said, nil)).With("replica", id),
		}, &words{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { log.Close() })
		return log
	}
	logs := map[uint64]Log{}
	for _, before := range []bool{true, false} {
		for id := range dirs {
			logs[id] = open(id)
		}
		for _, log := range logs {
			write(t, log, 3)
			known := log.(*replicaLog).guard.incarnations.Load()
			for id, peer := range logs {
				self := peer.(*replicaLog).guard.incarnations.Load().self
				until(t, "members to meet, followers too", func() bool { return peer == log || known.has(id, self) })
			}
		}
		for id, log := range logs {
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dirs[id], incarnationFile)
			if _, err := os.Stat(file); err != nil {
				t.Fatal(err)
			}
			if before {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	dirs[3] = t.TempDir()
	for id := range dirs {
		logs[id] = open(id)
	}
	write(t, logs[1], 3)
	for id := range dirs {
		until(t, "word of it", func() bool {
			return said.hasLine(fmt.Sprint("replica=", id), "replica 3 has lost its data directory", "add a new node under a new id")
		})
	}
	if logs[3].Status().Ready {
		t.Error("replica 3 believes to be a member")
	}
}
