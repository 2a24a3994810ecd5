package consensus

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/concord-kv/concord/cluster/certs"
)

// lines is a log that can be waited for.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.all.String(), text)
}

// hasLine tells whether one line has all of the texts.
func (l *lines) hasLine(texts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			return true
		}
	}
	return false
}

func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !cond() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("waiting for %s in vain", what)
		}
	}
}

// TestTwinLeavesTheMembersAlone: a second process with the id of a member, at another
// address, speaks to the healthy ones. They refuse it and go on, and both sides say why.
func TestTwinLeavesTheMembersAlone(t *testing.T) {
	members := map[uint64]string{1: loopback(t), 2: loopback(t), 3: loopback(t)}
	healthy, twins := &lines{}, &lines{}
	open := func(id uint64, members map[uint64]string, to *lines) Log {
		log, err := OpenDragonboat(DragonboatConfig{
			Dir: t.TempDir(), ReplicaID: id, RaftAddress: members[id], InitialMembers: members,
			Logger: slog.New(slog.NewTextHandler(to, nil)),
		}, &words{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { log.Close() })
		return log
	}
	one, two := open(1, members, healthy), open(2, members, healthy)
	write(t, one, 3)
	twin := map[uint64]string{1: members[1], 2: members[2], 3: loopback(t)}
	imposter := open(3, twin, twins)
	why := fmt.Sprintf("replica 3 is at %s, another one at %s calls itself replica 3: stop it", members[3], twin[3])
	until(t, "the members to refuse the twin", func() bool { return healthy.has(why) })
	until(t, "the twin to hear of it", func() bool { return twins.has(why) })
	write(t, one, 3)
	write(t, two, 3)
	if imposter.Status().Ready {
		t.Error("the twin believes to be a member")
	}
	real := open(3, members, healthy)
	write(t, real, 3)
}

// TestClaimOfAnUnknownId: what the membership says counts, and else what came first.
func TestClaimOfAnUnknownId(t *testing.T) {
	g := newGuard(DragonboatConfig{ReplicaID: 1, RaftAddress: "127.0.0.1:1", Logger: slog.New(slog.DiscardHandler)})
	if ok, _ := g.allows(4, "127.0.0.1:4"); ok || len(g.claims) > 0 {
		t.Error("a claim counts before the replica has started")
	}
	g.open.Store(true)
	for _, id := range []uint64{4, 5} {
		for _, port := range []uint64{40, 41} {
			if ok, why := g.allows(id, fmt.Sprint("127.0.0.1:", port+id)); ok || why != "" {
				t.Errorf("replica %d: %t, %q; want a look at the membership", id, ok, why)
			}
		}
	}
	<-g.ask
	g.look(func() map[uint64]string { return map[uint64]string{4: "127.0.0.1:45"} })
	for address, want := range map[string]uint64{"127.0.0.1:45": 4, "127.0.0.1:46": 0} {
		if ok, _ := g.allows(4, address); ok != (want == 4) {
			t.Errorf("replica 4 at %s: %t", address, ok)
		}
	}
	if ok, _ := g.allows(5, "127.0.0.1:45"); !ok {
		t.Error("the first claim does not count")
	}
	if ok, why := g.allows(5, "127.0.0.1:46"); ok || !strings.Contains(why, "stop it") {
		t.Errorf("the second claim: %t, %q", ok, why)
	}
}

// TestCertificatesAreFollowed: an authority and the certificates of both sides are
// replaced; connections that begin later go by the new ones, without a restart.
func TestCertificatesAreFollowed(t *testing.T) {
	dir, received := t.TempDir(), make(chan raftpb.MessageBatch, 1)
	replace := func(name string) {
		a, err := certs.NewAuthority(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := a.Issue(certs.Request{Name: "raft", Hosts: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		for file, b := range map[string][]byte{"ca": a.Pair().Cert, "cert": p.Cert, "key": p.Key} {
			if err := os.WriteFile(filepath.Join(dir, file), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	replace("first")
	members := map[uint64]string{1: loopback(t), 2: loopback(t)}
	open := func(id uint64) *transport {
		cfg := DragonboatConfig{
			ReplicaID: id, RaftAddress: members[id], InitialMembers: members, Logger: slog.New(slog.DiscardHandler),
			CAFile: filepath.Join(dir, "ca"), CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key"),
		}
		c, err := newRaftCerts(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.every = 0
		f := transports{cfg: cfg, guard: newGuard(cfg), certs: c}
		f.guard.open.Store(true)
		tr := f.Create(config.NodeHostConfig{RaftAddress: members[id]},
			func(b raftpb.MessageBatch) { received <- b }, func(raftpb.Chunk) bool { return false }).(*transport)
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	one, two := open(1), open(2)
	if err := two.Start(); err != nil {
		t.Fatal(err)
	}
	talk := func() {
		t.Helper()
		c, err := one.GetConnection(t.Context(), members[2])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		m := raftpb.Message{From: 1, To: 2, ShardID: shardID, Type: raftpb.Heartbeat}
		if err := c.SendMessageBatch(raftpb.MessageBatch{SourceAddress: members[1], Requests: []raftpb.Message{m}}); err != nil {
			t.Fatal(err)
		}
		<-received
	}
	talk()
	pair, pool := one.certs.current()
	old := &raftCerts{pair: pair, pool: pool, every: time.Hour, looked: time.Now(), logger: one.cfg.Logger} // looks at no files
	replace("second")
	talk()
	late := &transport{transports: transports{cfg: one.cfg, guard: one.guard, certs: old}, ctx: context.Background(), catchUp: newCatchUp(1, nil, nil)}
	if _, err := late.GetConnection(t.Context(), members[2]); err == nil {
		t.Error("a certificate of the authority that was replaced still opens connections")
	}
	s, err := one.GetSnapshotConnection(t.Context(), members[2])
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	chunk := raftpb.Chunk{ShardID: shardID, ReplicaID: 2, From: 1, Filepath: "/a", ChunkCount: 1}
	if err := s.SendChunk(chunk); err == nil || !strings.Contains(err.Error(), "not taken") {
		t.Errorf("a chunk that the receiver refused: %v", err)
	}
}
