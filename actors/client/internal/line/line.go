package line

import (
	"context"
	"net/url"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

// Root is above every key of the recipes.
const Root = "/concord/"

// nameBytesMax bounds what a place adds to its subject's prefix.
const nameBytesMax = 64

// Prefix returns the prefix of a subject's keys. The subject is encoded without a
// slash and ends with one, so no subject's prefix contains another's.
func Prefix(kind, subject string) (string, error) {
	if subject == "" {
		return "", messages.InvalidField("name", "must not be empty")
	}
	prefix := Root + kind + "/" + url.PathEscape(subject) + "/"
	if n := len(prefix) + nameBytesMax; n > messages.KeyBytesMax {
		return "", messages.InvalidField("name", "its keys would have %d bytes, at most %d", n, messages.KeyBytesMax)
	}
	return prefix, nil
}

// Line is the queue of one subject as one session sees it. It may be used by many
// goroutines.
type Line struct {
	session *session.Session
	subject string // in errors
	prefix  string
}

// New returns the line of a subject. The session must have been opened with a client.
func New(s *session.Session, kind, subject string) (*Line, error) {
	prefix, err := Prefix(kind, subject)
	if err != nil {
		return nil, err
	}
	return &Line{session: s, subject: kind + " " + subject, prefix: prefix}, nil
}

// Session returns the session that the places hang on.
func (l *Line) Session() *session.Session { return l.session }

// Prefix of the line's keys.
func (l *Line) Prefix() string { return l.prefix }

// Occupied tells whether anybody holds or waits.
func (l *Line) Occupied(ctx context.Context) (bool, error) {
	r, err := l.session.Client().List(ctx, client.PrefixSelector(l.prefix), client.ListOptions{Limit: 1, KeysOnly: true})
	return len(r.Records) > 0, err
}

// Enter puts a key at the end of the line. After an error nothing stays behind: a key
// that may have been put is deleted in the background.
func (l *Line) Enter(ctx context.Context, value []byte) (*Place, error) {
	s := l.session
	if err := s.Lease().Err(); err != nil {
		return nil, err
	}
	key := l.prefix + s.UniqueName()
	look := &messages.TxnGet{Selector: client.PrefixSelector(l.prefix), Limit: 2, KeysOnly: true}
	r, err := client.If().Then(
		client.OpPut(key, value, client.PutOptions{LeaseID: s.LeaseID(), NoPrev: true}),
		&messages.TxnOp{Op: &messages.TxnOp_Get{Get: look}},
	).Commit(ctx, s.Client())
	p := &Place{line: l, key: key}
	if err != nil {
		s.Refused(err)
		if messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
			p.GiveUp()
		}
		if lost := s.Lease().Err(); lost != nil {
			return nil, lost
		}
		return nil, err
	}
	p.created = r.Revision
	// The same step that put the key saw who else is there.
	p.first = len(r.Responses) == 2 && r.Responses[1].GetGet().GetCount() == 1
	return p, nil
}

// Head returns the record of who has the right, nil for nobody, and the revision at
// which that was so.
func (l *Line) Head(ctx context.Context) (*messages.Record, uint64, error) {
	var first *messages.Record
	revision, err := l.each(ctx, client.ListOptions{}, func(r *messages.Record) {
		if first == nil || r.CreateRevision < first.CreateRevision {
			first = r
		}
	})
	return first, revision, err
}

// each goes through the keys of the line at one revision, the latest.
func (l *Line) each(ctx context.Context, opts client.ListOptions, f func(*messages.Record)) (revision uint64, err error) {
	opts.Limit = messages.ListLimitMax
	for {
		page, err := l.session.Client().List(ctx, client.PrefixSelector(l.prefix), opts)
		if err != nil {
			return 0, err
		}
		for _, r := range page.Records {
			f(r)
		}
		if !page.HasMore {
			return page.Revision, nil
		}
		opts.Revision, opts.AfterKey = page.Revision, page.LastKey
	}
}

// lost is the error of a place that is not in the line any more.
func (l *Line) lost(cause error) error { return &lease.LostError{Subject: l.subject, Cause: cause} }
