package election

import (
	"context"
	"iter"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

const observeRetry = 100 * time.Millisecond

// Observe gives who leads now, nobody included, and then each change of the leader or
// of what it shows, in order. It starts from the present, so it needs no history, and
// goes on over lost connections; where history was compacted meanwhile it goes on from
// the present and leaves out what was in between. It ends, with an error, when ctx is
// over or the client is closed.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		var last *Leader
		show := func(l Leader) bool {
			if last != nil && last.Epoch == l.Epoch && string(last.Value) == string(l.Value) {
				return true
			}
			last = &l
			return yield(l, nil)
		}
		for {
			on, err := e.observe(ctx, show)
			if !on {
				return
			}
			if code := messages.CodeOf(err); ctx.Err() != nil || code == messages.Code_CODE_CANCELLED || !client.Pause(ctx, e.line.Session().Client().Clock(), observeRetry) {
				yield(Leader{}, err)
				return
			}
		}
	}
}

// observe lists and watches until the watch ends; on is false when the caller has had
// enough.
func (e *Election) observe(ctx context.Context, show func(Leader) bool) (on bool, err error) {
	c := e.line.Session().Client()
	selector := client.PrefixSelector(e.line.Prefix())
	list, w, err := c.ListAndWatch(ctx, selector, client.ListOptions{Limit: messages.ListLimitMax}, client.WatchOptions{})
	if err != nil {
		return true, err
	}
	defer w.Close()
	field := candidates{}
	for _, r := range list.Records {
		field[string(r.Key)] = r
	}
	for more := list; more.HasMore; {
		more, err = c.List(ctx, selector, client.ListOptions{
			Limit: messages.ListLimitMax, Revision: list.Revision, AfterKey: more.LastKey,
		})
		if err != nil {
			return true, err
		}
		for _, r := range more.Records {
			field[string(r.Key)] = r
		}
	}
	if !show(field.leader(list.Revision)) {
		return false, nil
	}
	for {
		b, err := w.Next(ctx)
		if err != nil {
			return true, err
		}
		for _, ev := range b.Events {
			field.apply(ev)
		}
		if n := len(b.Events); n > 0 && b.Last && !show(field.leader(b.Events[n-1].Revision)) {
			return false, nil
		}
	}
}

// candidates are all places of the line, by key.
type candidates map[string]*messages.Record

func (c candidates) apply(ev *messages.Event) {
	if ev.Type == messages.EventType_EVENT_TYPE_DELETE {
		delete(c, string(ev.Record.Key))
		return
	}
	c[string(ev.Record.Key)] = ev.Record
}

func (c candidates) leader(revision uint64) Leader {
	var first *messages.Record
	for _, r := range c {
		if first == nil || r.CreateRevision < first.CreateRevision {
			first = r
		}
	}
	return leaderOf(first, revision)
}
