package mirror

import (
	"context"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// Options of Open. The zero value works.
type Options struct {
	// KeysOnly keeps records without their values.
	KeysOnly bool
	// OnUpdate is told of each new view, one call at a time and in order, by the
	// mirror's own goroutine: the mirror waits for it. It must not call Close.
	OnUpdate func(Update)
}

// Update is a new view and what made it.
type Update struct {
	View View
	// Events that led here from the view before, in order. Their records are shared.
	Events []*messages.Event
	// Relisted says that the log had been compacted: what lies between the two views
	// is not known as events.
	Relisted bool
}

// Mirror is a copy that follows. Open makes it; many goroutines may use it.
type Mirror struct {
	client   *client.Client
	selector *messages.Selector
	opts     Options
	cancel   context.CancelFunc
	done     chan struct{}

	mu      sync.Mutex
	tree    *btree.BTreeG[*messages.Record] // nil until the first list is complete
	at      uint64                          // the revision of tree
	view    View                            // as last given
	partial bool                            // tree has a part of a revision: view is from before it
	changed chan struct{}                   // closed and replaced when at rises or the mirror ends
	lists   int
	err     error
}

// Open lists the selector and returns once the copy is complete. ctx bounds the whole
// life of the mirror; it ends with ctx, with Close, or with an error that neither time
// nor another node mends.
func Open(ctx context.Context, c *client.Client, s *messages.Selector, opts Options) (*Mirror, error) {
	ctx, cancel := context.WithCancel(ctx)
	m := &Mirror{
		client: c, selector: s, opts: opts, cancel: cancel,
		done: make(chan struct{}), changed: make(chan struct{}),
	}
	w, err := m.list(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	go m.run(ctx, w)
	return m, nil
}

// View returns the newest complete view.
func (m *Mirror) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current()
}

// current freezes the tree if it has moved on. Copying is a matter of a pointer; what
// is written later copies its path.
func (m *Mirror) current() View {
	if m.tree != nil && !m.partial && m.view.revision != m.at {
		m.view = View{tree: m.tree.Copy(), revision: m.at}
	}
	return m.view
}

// Wait returns a view at the revision or later: what the caller, or somebody that it
// heard from, has written at that revision is in it. A revision that touched no key of
// the selector is waited for too; the node tells of it within a second.
func (m *Mirror) Wait(ctx context.Context, revision uint64) (View, error) {
	for {
		m.mu.Lock()
		v, changed, err := m.current(), m.changed, m.err
		m.mu.Unlock()
		switch {
		case v.revision >= revision:
			return v, nil
		case err != nil:
			return v, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			e := messages.NewError(messages.Code_CODE_TIMEOUT, "the mirror is at revision %d", v.revision)
			e.Err = context.Cause(ctx)
			return v, e
		}
	}
}

// Changed returns a channel that is closed when there is a newer view than the one that
// View gives now, or the mirror has ended.
func (m *Mirror) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Lists returns how often the mirror has listed: once, and once for each time that the
// log had been compacted past it.
func (m *Mirror) Lists() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lists
}

// Err returns why the mirror follows no more; nil while it does. Its last view stays.
func (m *Mirror) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Done is closed when the mirror follows no more.
func (m *Mirror) Done() <-chan struct{} { return m.done }

// Close ends the mirror and waits for it. It may be repeated.
func (m *Mirror) Close() {
	m.cancel()
	<-m.done
}

// run follows the watch, and lists anew when it ends with compacted.
func (m *Mirror) run(ctx context.Context, w *client.Watcher) {
	defer close(m.done)
	defer m.cancel()
	for {
		err := m.follow(ctx, w)
		w.Close()
		for err != nil && ctx.Err() == nil && again(err) {
			if w, err = m.list(ctx); err != nil && messages.CodeOf(err) != messages.Code_CODE_COMPACTED {
				m.pause(ctx)
			}
		}
		if err != nil {
			m.end(err)
			return
		}
	}
}

// again tells whether a new list, in a moment, may mend it.
func again(err error) bool {
	switch messages.CodeOf(err) {
	case messages.Code_CODE_COMPACTED, messages.Code_CODE_TIMEOUT, messages.Code_CODE_UNAVAILABLE,
		messages.Code_CODE_OVERLOADED, messages.Code_CODE_NO_LEADER, messages.Code_CODE_NO_QUORUM,
		messages.Code_CODE_NOT_READY, messages.Code_CODE_NODE_STOPPING, messages.Code_CODE_WATCH_LIMIT:
		return true
	}
	return false
}

// relistPause is between two attempts to list that failed.
const relistPause = 200 * time.Millisecond

func (m *Mirror) pause(ctx context.Context) {
	over := make(chan struct{})
	t := m.client.Clock().AfterFunc(relistPause, func() { close(over) })
	defer t.Stop()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

func (m *Mirror) end(err error) {
	m.mu.Lock()
	m.err = err
	close(m.changed)
	m.changed = make(chan struct{})
	m.mu.Unlock()
}
