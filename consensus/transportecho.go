package consensus

import (
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// echoes keeps a follower from saying the same twice. The leader sends each follower what
// is new in its log, and once that is committed a message without entries that says so;
// the follower answers both with the end of its log, which is the same. A leader that has
// heard it learns nothing from the second one, and with few clients it is one of eight
// messages that each write costs.
//
// What is left out could have been of use only if the first one was lost behind the
// socket. So it is left out for a moment only: after that, a leader that asks again, as it
// does with each heartbeat, is answered.
type echoes struct {
	last raftpb.Message // the last such answer that was sent, without entries
	sent time.Time
}

// echoMax is well below the time between two heartbeats.
const echoMax = 10 * time.Millisecond

// drop returns the messages that are to be sent now; the slice is left as it is.
func (e *echoes) drop(messages []raftpb.Message, now time.Time) []raftpb.Message {
	kept, all := messages, true
	for i := range messages {
		m := &messages[i]
		if e.repeats(m, now) {
			if all {
				kept, all = append(make([]raftpb.Message, 0, len(messages)-1), messages[:i]...), false
			}
			continue
		}
		if !all {
			kept = append(kept, *m)
		}
		if m.Type == raftpb.ReplicateResp {
			e.last, e.sent = *m, now
		}
	}
	return kept
}

// repeats says whether m is what was last sent, a moment ago.
func (e *echoes) repeats(m *raftpb.Message, now time.Time) bool {
	l := &e.last
	return m.Type == raftpb.ReplicateResp && l.Type == raftpb.ReplicateResp && now.Sub(e.sent) < echoMax && !m.Reject && !l.Reject &&
		m.ShardID == l.ShardID && m.From == l.From && m.To == l.To && m.Term == l.Term && m.LogIndex == l.LogIndex &&
		m.Commit == l.Commit && m.Hint == l.Hint && m.HintHigh == l.HintHigh && m.LogTerm == l.LogTerm
}
