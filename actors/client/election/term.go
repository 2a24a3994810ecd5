package election

import (
	"context"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/fence"
	"github.com/concord-kv/concord/actors/client/internal/line"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/messages"
)

// Term is one leadership. It may be used by many goroutines.
type Term struct{ hold *line.Hold }

// Lease is the leader's signal: stop when its context ends, look at Err before a step
// that matters. It warns; it does not protect.
func (t *Term) Lease() *lease.Lease { return t.hold.Lease() }

// Epoch is the number of the term: higher than that of every one before it. It stays
// the same for as long as the term lasts.
func (t *Term) Epoch() uint64 { return t.hold.Token() }

// Token is the epoch as a fencing token.
func (t *Term) Token() fence.Token { return fence.Token(t.hold.Token()) }

// Compare holds in a Txn of the same cluster if and only if this term still lasts when
// the transaction is applied.
func (t *Term) Compare() *messages.Compare {
	return client.CreateRevision(t.hold.Key(), client.Equal, t.hold.Token())
}

// Remaining is how long the leader may go on if nothing more is confirmed: what must
// stop with the term must have stopped by then.
func (t *Term) Remaining() time.Duration {
	if t.Lease().Err() != nil {
		return 0
	}
	return t.hold.Session().Remaining()
}

// Proclaim changes the value that the leader shows; the term and its epoch go on. When
// the term is over nothing is written and the error is that of its lease.
func (t *Term) Proclaim(ctx context.Context, value []byte) error {
	if err := t.Lease().Err(); err != nil {
		return err
	}
	s := t.hold.Session()
	put := client.OpPut(t.hold.Key(), value, client.PutOptions{LeaseID: s.LeaseID(), NoPrev: true})
	r, err := client.If(t.Compare()).Then(put).Commit(ctx, s.Client())
	if err != nil {
		s.Refused(err)
		if over := t.Lease().Err(); over != nil {
			return over
		}
		return err
	}
	if !r.Succeeded {
		t.hold.Lose(line.ErrKeyGone)
	}
	return t.Lease().Err()
}

// Resign ends the lease, which does not signal, and makes room for the next candidate
// if this term still lasts: it never ends a later one. Call it when the work has
// stopped, not before. nil means that the term is over for everybody. After an error the
// session goes on with it in the background, also if ctx is over; Resign may be
// repeated. A term that was lost gives its *lease.LostError.
func (t *Term) Resign(ctx context.Context) error { return t.hold.Release(ctx) }
