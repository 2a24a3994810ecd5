// Package protocol is what the sessions and the watch hub of one node say to each
// other. Class: LOCAL; it may change at will. It is a package of its own so that
// neither actor needs the other's.
//
// A watch, from the session's side: StartWatch, answered in a Deliver by Started
// or Refused; then batches and exactly one end, all in Delivers, in order. After
// the end the hub knows the watch no more and says nothing of it again.
package protocol

import "github.com/concord-kv/concord/messages"

// Position names an event by (revision, op index); the events after it are those
// that compare greater.
type Position struct {
	Revision uint64
	Op       uint32
}

// EndOf returns the position after every event of revision r.
func EndOf(r uint64) Position { return Position{r, messages.PositionOpIndexEnd} }

// PositionOf returns the position that travels as p; nil is before everything.
func PositionOf(p *messages.Position) Position {
	return Position{p.GetRevision(), p.GetOpIndex()}
}

// Before reports whether p comes before q.
func (p Position) Before(q Position) bool {
	return p.Revision < q.Revision || p.Revision == q.Revision && p.Op < q.Op
}

// Complete returns the highest revision of which every event is at or before p.
func (p Position) Complete() uint64 {
	if p.Op == messages.PositionOpIndexEnd || p.Revision == 0 {
		return p.Revision
	}
	return p.Revision - 1
}

// First returns the revision of the first event that may come after p.
func (p Position) First() uint64 {
	if p.Op == messages.PositionOpIndexEnd {
		return p.Revision + 1
	}
	return p.Revision
}

// Proto returns p as it travels.
func (p Position) Proto() *messages.Position {
	return &messages.Position{Revision: p.Revision, OpIndex: p.Op}
}

// StartWatch is session -> watch: deliver to me, the sender, what Request selects
// after After. Answered in a Deliver by Started or Refused with the same Call.
type StartWatch struct {
	// Session is the node's number of the connection, never used twice.
	Session uint64
	Call    uint64
	// Request was validated. Its place to start has been resolved into After.
	Request *messages.WatchRequest
	After   Position
	// Reads says that what the session's stream takes is read: nothing lies between it and
	// whoever consumes it. Other sessions have to show that somebody reads; see AheadMax.
	Reads bool
}

// CancelWatch is session -> watch: end this watch. Answered by its end, with code
// cancelled; by nothing when the watch has ended already.
type CancelWatch struct {
	Session uint64
	WatchID uint64
}

// GrantCredit is session -> watch: the client takes this much more.
type GrantCredit struct {
	Session uint64
	WatchID uint64
	Events  uint32
	Bytes   uint32
	// Progress asks how far the watch has come: a live one tells at once.
	Progress bool
}

// Drained is session -> watch: the client's stream has taken this many of the
// bytes that Delivers carried. The hub has at most SessionWindowBytes on the way
// to one session, so that a client that does not read costs a bounded amount
// whatever credit it grants.
type Drained struct {
	Session uint64
	Bytes   int64
}

// SessionClosed is session -> watch, and gateway -> watch: forget its watches.
type SessionClosed struct {
	Session uint64
}

// SessionWindowBytes is what may be on the way from the hub to one session, once its client
// has shown that it reads: until then SessionWindowFirst may, and twice what it has taken
// as it goes on.
const (
	SessionWindowBytes = 4 << 20
	SessionWindowFirst = 512 << 10
)

// AheadMax is how many batches a session is sent before it has shown that somebody reads
// them, by credit that comes back, or by a stream that has taken more than AheadBytesMax,
// which is more than streams hold. From then on there are AheadPerSecond. What nobody reads
// still costs the node as much as what somebody does: this bounds it.
const (
	AheadMax       = 1_000
	AheadBytesMax  = 2 << 20
	AheadPerSecond = 100
)

// Deliver is watch -> session: answers, batches and ends, in order.
type Deliver struct {
	Items []Item
}

// Item is one of four: exactly one of the pointers is set.
type Item struct {
	Started *Started
	Refused *Refused
	// Batch is for the session's watches WatchIDs, and may be shared with other
	// sessions: read only.
	Batch *messages.SharedBatch
	// WatchIDs belongs to the session.
	WatchIDs []uint64
	End      *messages.WatchEnd
	// Bytes is what a batch counts against the session's window.
	Bytes int64
}

// Started answers StartWatch: the watch lives.
type Started struct {
	Call    uint64
	WatchID uint64
	// From is the first revision that will be delivered, Current the hub's latest.
	From    uint64
	Current uint64
}

// Refused answers StartWatch: there is no such watch.
type Refused struct {
	Call  uint64
	Error *messages.ErrorDetail
}

// ConsumerLag is root -> watch: a consumer that is further behind than this many
// revisions holds no history back. 0: not known yet.
type ConsumerLag struct {
	Max uint64
}

// Consumers is watch -> replica (or whoever reports for the node), at most once a
// second when it changed: every watch of this node that counts has completely
// delivered what is at or below After. Active is false when there is none.
type Consumers struct {
	After  uint64
	Active bool
}
