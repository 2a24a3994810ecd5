package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// TestDigestsAreCompared: a replica that differs is named; one that differs from most
// others stops; a place that is not remembered says nothing.
func TestDigestsAreCompared(t *testing.T) {
	for _, tc := range []struct {
		name           string
		voting         int
		theirs         map[uint64]digestAt
		stops, reports bool
	}{
		{name: "all the same", voting: 3, theirs: map[uint64]digestAt{2: {64, 7}, 3: {64, 7}}},
		{name: "one other differs", voting: 3, theirs: map[uint64]digestAt{2: {64, 8}, 3: {64, 7}}, reports: true},
		{name: "both others differ", voting: 3, theirs: map[uint64]digestAt{2: {64, 8}, 3: {64, 8}}, reports: true, stops: true},
		{name: "one of two", voting: 2, theirs: map[uint64]digestAt{2: {64, 8}}, reports: true},
		{name: "half of five", voting: 5, theirs: map[uint64]digestAt{2: {64, 8}, 3: {64, 8}, 4: {64, 7}, 5: {64, 7}}, reports: true},
		{name: "most of five", voting: 5, theirs: map[uint64]digestAt{2: {64, 8}, 3: {64, 8}, 4: {64, 8}, 5: {64, 7}}, reports: true, stops: true},
		{name: "an older place", voting: 3, theirs: map[uint64]digestAt{2: {128, 9}, 3: {128, 9}}},
		{name: "none yet", voting: 3, theirs: map[uint64]digestAt{2: {}, 3: {}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			cfg := Config{ReplicaID: 1, Clock: SystemClock(), Logger: logger, Seams: &Seams{}}
			f := newFacts(cfg)
			n := &Node{cfg: cfg, facts: f, links: newLinks(f), fail: newFailStop(logger, func(any, []byte) {})}
			f.digests.add(64, 7)
			n.members.last = consensus.Membership{Voting: map[uint64]string{}}
			for id := range tc.voting {
				n.members.last.Voting[uint64(id+1)] = "x"
			}
			for id, d := range tc.theirs {
				n.links.heard(&messages.PeerHello{From: &messages.MemberAddress{ReplicaId: id}},
					&messages.PeerBeat{DigestIndex: d.index, Digest: d.digest})
			}
			n.compareDigests()
			if stopped := isClosed(n.fail.halted); stopped != tc.stops {
				t.Errorf("stopped: %v", stopped)
			}
			if reported := strings.Contains(log.String(), "another state"); reported != tc.reports {
				t.Errorf("it said: %s", log.String())
			}
			for _, m := range n.membersReply(n.members.known()).GetMembers().GetMembers() {
				if d, ok := tc.theirs[m.ReplicaId]; ok && m.Differs != (d.index == 64 && d.digest != 7) {
					t.Errorf("%v", m)
				}
			}
		})
	}
}
