package mirror

import (
	"context"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// list reads the selector at one revision and puts it in the place of the copy. The
// watch that it returns goes on from there. Pages after the first are read at the
// revision of the first; when that is compacted meanwhile the error says so.
func (m *Mirror) list(ctx context.Context) (*client.Watcher, error) {
	page, w, err := m.client.ListAndWatch(ctx, m.selector,
		client.ListOptions{Limit: messages.ListLimitMax, KeysOnly: m.opts.KeysOnly},
		client.WatchOptions{KeysOnly: m.opts.KeysOnly, Progress: true})
	if err != nil {
		return nil, err
	}
	if err := m.load(ctx, page); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (m *Mirror) load(ctx context.Context, page client.ListResult) error {
	tree, revision := newTree(), page.Revision
	for {
		for _, r := range page.Records {
			tree.Load(r)
		}
		if !page.HasMore {
			break
		}
		var err error
		page, err = m.client.List(ctx, m.selector, client.ListOptions{
			Revision: revision, AfterKey: page.LastKey, Limit: messages.ListLimitMax, KeysOnly: m.opts.KeysOnly,
		})
		if err != nil {
			return err
		}
	}
	m.mu.Lock()
	if had := m.at; revision < had {
		m.mu.Unlock()
		// The list is linearizable: only a cluster that was restored from a backup can be
		// before what it once showed.
		return messages.NewError(messages.Code_CODE_WRONG_INCARNATION,
			"the cluster is at revision %d, the mirror had revision %d", revision, had)
	}
	m.tree, m.at, m.partial, m.view = tree, revision, false, View{}
	m.lists++
	relisted := m.lists > 1
	u := Update{View: m.current(), Relisted: relisted}
	m.announce()
	m.mu.Unlock()
	m.tell(u)
	return nil
}

// announce wakes who waits. The lock is held.
func (m *Mirror) announce() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *Mirror) tell(u Update) {
	if m.opts.OnUpdate != nil {
		m.opts.OnUpdate(u)
	}
}

// follow applies what the watch delivers, until it ends.
func (m *Mirror) follow(ctx context.Context, w *client.Watcher) error {
	var parts []*messages.Event
	for {
		b, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if m.opts.OnUpdate != nil {
			parts = append(parts, b.Events...)
		}
		if m.apply(b) && m.opts.OnUpdate != nil {
			m.tell(Update{View: m.View(), Events: parts})
			parts = nil
		}
	}
}

// apply takes a batch and reports whether there is a new view.
func (m *Mirror) apply(b client.WatchBatch) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(b.Events) > 0 && !m.partial {
		if b.Events[0].Revision <= m.at {
			return false // the list had it
		}
		if !b.Last {
			// A revision in parts: what is shown is from before it until it is complete.
			m.current()
			m.partial = true
		}
	}
	for _, e := range b.Events {
		switch e.Type {
		case messages.EventType_EVENT_TYPE_PUT:
			m.tree.Set(e.Record)
		case messages.EventType_EVENT_TYPE_DELETE:
			m.tree.Delete(e.Record)
		}
	}
	if !b.Last || b.To.GetRevision() <= m.at {
		return false
	}
	m.at, m.partial = b.To.GetRevision(), false
	m.announce()
	return true
}
