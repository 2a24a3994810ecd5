package consensus

import (
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// What is left out is what was sent a moment ago, and nothing else.
func TestAnswersAreNotRepeated(t *testing.T) {
	has := func(index uint64) raftpb.Message {
		return raftpb.Message{Type: raftpb.ReplicateResp, From: 2, To: 1, ShardID: shardID, Term: 3, LogIndex: index}
	}
	changed := func(change func(*raftpb.Message)) raftpb.Message {
		m := has(7)
		change(&m)
		return m
	}
	start := time.Unix(100, 0)
	for name, x := range map[string]struct {
		second raftpb.Message
		after  time.Duration
		sent   bool
	}{
		"the same":          {has(7), time.Millisecond, false},
		"the same, later":   {has(7), echoMax, true},
		"further":           {has(8), time.Millisecond, true},
		"behind":            {has(6), time.Millisecond, true},
		"of another term":   {changed(func(m *raftpb.Message) { m.Term++ }), time.Millisecond, true},
		"to another leader": {changed(func(m *raftpb.Message) { m.To = 3 }), time.Millisecond, true},
		"a rejection":       {changed(func(m *raftpb.Message) { m.Reject, m.Hint = true, 7 }), time.Millisecond, true},
		"of another kind":   {changed(func(m *raftpb.Message) { m.Type = raftpb.HeartbeatResp }), time.Millisecond, true},
	} {
		var e echoes
		if got := e.drop([]raftpb.Message{has(7)}, start); len(got) != 1 {
			t.Fatalf("%s: the first is not sent", name)
		}
		if got := e.drop([]raftpb.Message{x.second}, start.Add(x.after)); (len(got) == 1) != x.sent {
			t.Errorf("%s: sent %v, want %v", name, len(got) == 1, x.sent)
		}
	}
}

// A rejection is never the reason to leave out what comes after it, nor is one left out.
func TestRejectionsAreRepeated(t *testing.T) {
	var e echoes
	no := raftpb.Message{Type: raftpb.ReplicateResp, From: 2, To: 1, ShardID: shardID, Term: 3, LogIndex: 7, Reject: true}
	for range 3 {
		if got := e.drop([]raftpb.Message{no}, time.Unix(100, 0)); len(got) != 1 {
			t.Fatal("a rejection was left out")
		}
	}
}

// What was left out does not make the moment longer: a leader that goes on asking is
// answered again and again.
func TestAnswersComeAgainInTime(t *testing.T) {
	var e echoes
	m := raftpb.Message{Type: raftpb.ReplicateResp, From: 2, To: 1, ShardID: shardID, Term: 3, LogIndex: 7}
	start, sent := time.Unix(100, 0), 0
	for i := range 100 {
		sent += len(e.drop([]raftpb.Message{m}, start.Add(time.Duration(i)*time.Millisecond)))
	}
	if sent != 10 {
		t.Fatalf("%d sent in 100 ms, want 10", sent)
	}
}

// Others of the batch keep their order, and the caller's slice is as it was.
func TestEchoesLeaveOthersAlone(t *testing.T) {
	resp := raftpb.Message{Type: raftpb.ReplicateResp, From: 2, To: 1, ShardID: shardID, Term: 3, LogIndex: 7}
	beat := raftpb.Message{Type: raftpb.HeartbeatResp, From: 2, To: 1, ShardID: shardID, Term: 3}
	next := resp
	next.LogIndex = 8
	batch := []raftpb.Message{beat, resp, resp, beat, next, resp, next}
	want := []raftpb.Message{beat, resp, beat, next, resp, next}
	var e echoes
	got := e.drop(batch, time.Unix(100, 0))
	if len(got) != len(want) {
		t.Fatalf("%d sent, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Type != want[i].Type || got[i].LogIndex != want[i].LogIndex {
			t.Fatalf("message %d is %v at %d, want %v at %d", i, got[i].Type, got[i].LogIndex, want[i].Type, want[i].LogIndex)
		}
	}
	if batch[1].Type != raftpb.ReplicateResp || batch[2].Type != raftpb.ReplicateResp || batch[3].Type != raftpb.HeartbeatResp {
		t.Fatal("the caller's slice was changed")
	}
}

func TestValidAddresses(t *testing.T) {
	v := validAddresses{known: map[string]bool{}}
	for range 2 { // the second time from memory
		for address, want := range map[string]bool{"10.0.0.1:7000": true, "node-1.example.com:7000": true, "nowhere": false, "": false, "10.0.0.1": false} {
			if got := v.valid(address); got != want {
				t.Errorf("%q: %v, want %v", address, got, want)
			}
		}
	}
}
