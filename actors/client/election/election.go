package election

import (
	"context"

	"github.com/concord-kv/concord/actors/client/internal/line"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

// Election is the contest of a name. It holds no state of its own; it may be used by
// many goroutines.
type Election struct {
	name string
	line *line.Line
}

// New returns the election of a name, which may be any text that is not empty. The
// session must have been opened with a client whose writes are numbered (not
// Config.OneShot). Who only observes needs a session too, but attaches nothing to it.
func New(s *session.Session, name string) (*Election, error) {
	l, err := line.New(s, "election", name)
	if err != nil {
		return nil, err
	}
	return &Election{name: name, line: l}, nil
}

// Name of the election.
func (e *Election) Name() string { return e.name }

// Campaign waits until this candidate leads and shows value to who asks for the leader.
// It ends with an error when ctx is over, when the session is (a *lease.LostError, or
// lease.ErrEnded), or when its key was deleted (a *lease.LostError). A nil error means
// elected, any error not elected and no longer a candidate.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Term, error) {
	p, err := e.line.Enter(ctx, value)
	if err != nil {
		return nil, err
	}
	if err := p.Wait(ctx); err != nil {
		p.GiveUp()
		return nil, err
	}
	return &Term{hold: p.Hold()}, nil
}

// Leader is who leads.
type Leader struct {
	// Value that the leader shows; nil when nobody leads.
	Value []byte
	// Epoch of its term; 0 when nobody leads.
	Epoch uint64
	// Revision at which that was so.
	Revision uint64
}

// Nobody tells whether nobody leads.
func (l Leader) Nobody() bool { return l.Epoch == 0 }

func leaderOf(r *messages.Record, revision uint64) Leader {
	return Leader{Value: r.GetValue(), Epoch: r.GetCreateRevision(), Revision: revision}
}

// Leader asks the cluster who leads now. It is linearizable: a node that is cut off from
// the others gives an error, not a former leader.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	r, revision, err := e.line.Head(ctx)
	if err != nil {
		return Leader{}, err
	}
	return leaderOf(r, revision), nil
}
