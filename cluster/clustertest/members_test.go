package clustertest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// TestMembership grows a cluster from one node to three, gives a vote only to what has
// caught up, and shrinks it again, while clients write.
func TestMembership(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 1})
	w := StartWorkload(c, 1, 2)
	w.WaitWrites(50)
	ctx := Deadline(t, 3*time.Minute)
	s := c.Client()

	refused := func(r *messages.AdminRequest, code messages.Code, says string) {
		t.Helper()
		_, err := s.Operate(ctx, r)
		var e *messages.Error
		if !errors.As(err, &e) || e.Code() != code || !strings.Contains(e.Error(), says) {
			t.Errorf("%v: %v, want %s with %q", r, err, messages.CodeName(code), says)
		}
	}
	address := &messages.MemberAddress{ReplicaId: 2, Raft: FreePort(t), Peer: FreePort(t), Client: FreePort(t)}
	remove := func(id uint64) *messages.AdminRequest {
		return &messages.AdminRequest{Request: &messages.AdminRequest_RemoveMember{RemoveMember: &messages.RemoveMemberRequest{ReplicaId: id}}}
	}
	promote := func(id uint64) *messages.AdminRequest {
		return &messages.AdminRequest{Request: &messages.AdminRequest_PromoteMember{PromoteMember: &messages.PromoteMemberRequest{ReplicaId: id}}}
	}
	refused(remove(1), messages.Code_CODE_INVALID_ARGUMENT, "last voting member")
	refused(remove(7), messages.Code_CODE_INVALID_ARGUMENT, "no member")
	refused(promote(7), messages.Code_CODE_INVALID_ARGUMENT, "no member without a vote")
	refused(&messages.AdminRequest{}, messages.Code_CODE_INVALID_ARGUMENT, "known kind")

	// A voting member that does not run would take the majority away.
	short, err := client.New(client.Config{Endpoints: c.Endpoints(), Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer short.Close()
	_, err = short.Operate(Deadline(t, 2*time.Second), &messages.AdminRequest{Request: &messages.AdminRequest_AddMember{AddMember: &messages.AddMemberRequest{Address: address}}})
	if messages.CodeOf(err) != messages.Code_CODE_NO_QUORUM {
		t.Errorf("add a voter to one node: %v", err)
	}

	two := c.Add(2, true)
	if _, err := two.Client().Revision(ctx); err != nil {
		t.Fatal(err)
	}
	// It serves reads and watches without a vote, and passes writes on.
	r, err := two.Client().Put(ctx, "/by-two", []byte("x"), client.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := two.Client().Get(ctx, "/by-two", client.GetOptions{})
	if err != nil || g.Record.GetModRevision() != r.Revision {
		t.Fatalf("%v, %v", g.Record, err)
	}
	three := c.Add(3, true)
	if _, err := three.Client().Revision(ctx); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint64{2, 3} {
		for {
			if _, err := s.Operate(ctx, promote(id)); err == nil {
				break
			} else if messages.CodeOf(err) != messages.Code_CODE_INVALID_ARGUMENT || ctx.Err() != nil {
				t.Fatal(err)
			}
			pause(ctx, 50*time.Millisecond)
		}
	}
	w.WaitWrites(50)
	// A restart of what was promoted, with the flags that it had.
	if err := three.Stop(); err != nil {
		t.Error(err)
	}
	three.Start()
	c.WaitServing()
	c.CheckDigests()

	// The first node goes; the others are a cluster without it.
	one := c.Member(1)
	if c.Leader() != one {
		c.Operate(&messages.AdminRequest{Request: &messages.AdminRequest_MoveLeader{MoveLeader: &messages.MoveLeaderRequest{ReplicaId: 1}}})
	}
	w.Stop()
	reply, err := c.client(two.Listen, three.Listen).Operate(ctx, remove(1))
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.GetMembers().GetMembers()) != 2 || reply.GetMembers().GetRemoved()[0] != 1 {
		t.Errorf("after the removal: %v", reply)
	}
	// It learns that it was removed, says so and ends.
	select {
	case <-one.Exited():
	case <-ctx.Done():
		t.Fatal("the removed node goes on")
	}
	if !strings.Contains(one.Output(), "was removed") {
		t.Errorf("it said: %s", one.Output())
	}
	c.forget(1)
	if _, err := c.client(two.Listen, three.Listen).Put(ctx, "/after", nil, client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	w.History.Check(t)
}

// TestReadReplica: a member without a vote serves watches and stale reads, which say
// how old they may be, also when no leader is left.
func TestReadReplica(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	four := c.Add(4, true)
	ctx := Deadline(t, 3*time.Minute)
	s := c.client(four.Listen)
	if _, err := s.Revision(ctx); err != nil {
		t.Fatal(err)
	}
	watch, err := s.Watch(ctx, Prefix("/"), client.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	p, err := c.Client().Put(ctx, "/a", []byte("1"), client.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := watch.Next(ctx)
	if err != nil || b.Events[0].GetRevision() != p.Revision {
		t.Fatalf("%v, %v", b, err)
	}
	for _, id := range []uint64{1, 2, 3} {
		c.Member(id).Kill()
	}
	killed := time.Now()
	for {
		reply, err := s.Query(ctx, &messages.Query{
			Consistency: messages.Consistency_CONSISTENCY_STALE,
			Query:       &messages.Query_Get{Get: &messages.GetRequest{Key: []byte("/a")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if reply.GetRevision() != p.Revision || string(reply.GetGet().GetRecord().GetValue()) != "1" {
			t.Fatalf("%v", reply)
		}
		if silent := time.Duration(reply.GetLeaderSilentMs()) * time.Millisecond; silent > time.Second {
			if silent > time.Since(killed)+time.Second {
				t.Errorf("no leader for %v, killed %v ago", silent, time.Since(killed))
			}
			break
		}
		if ctx.Err() != nil {
			t.Fatal("it never says that no leader is heard")
		}
		pause(ctx, 50*time.Millisecond)
	}
	// A linearizable read is not answered from what may be old.
	if _, err := s.Get(Deadline(t, 2*time.Second), "/a", client.GetOptions{}); err == nil {
		t.Error("a linearizable read without a majority")
	}
	for _, id := range []uint64{1, 2, 3} {
		c.Member(id).Start()
	}
	if _, err := s.Get(ctx, "/a", client.GetOptions{}); err != nil {
		t.Error(err)
	}
}
