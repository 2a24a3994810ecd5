package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// goneWatches are the keys whose end somebody waits for. Those who wait for the same
// key share one watch: a waiter's key is watched by itself and by the one behind it.
type goneWatches struct {
	next uint64
	keys map[goneKey]*goneWatch
}

// goneKey names one life of a key.
type goneKey struct {
	key     string
	created uint64
}

type goneWatch struct {
	stop    context.CancelFunc
	waiting map[uint64]func()
}

const (
	goneRetryMin = 50 * time.Millisecond
	goneRetryMax = time.Second
	goneCredit   = 8 // events: one is all that matters
)

// WhenGone has gone called, once, when the key that was created at createRevision no
// longer exists. seen is a revision at which it did, createRevision at least. It uses a
// watch, and where that cannot go on (history compacted, too many watches) it asks. gone
// runs on a goroutine of the session and must not block. Nothing is called once the
// session is over. stop takes it back; it does not wait for a gone that runs.
func (s *Session) WhenGone(key string, createRevision, seen uint64, gone func()) (stop func()) {
	k := goneKey{key, createRevision}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return func() {}
	}
	g := &s.gone
	if g.keys == nil {
		g.keys = make(map[goneKey]*goneWatch)
	}
	g.next++
	id := g.next
	w := g.keys[k]
	if w == nil {
		ctx, cancel := context.WithCancel(client.NameSteps(context.Background(), fmt.Sprintf("gone %x", s.id)))
		w = &goneWatch{stop: cancel, waiting: make(map[uint64]func())}
		g.keys[k] = w
		go s.watchKey(ctx, w, k, max(seen, createRevision)+1)
	}
	w.waiting[id] = gone
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(w.waiting, id)
		if len(w.waiting) == 0 && g.keys[k] == w {
			delete(g.keys, k)
			w.stop()
		}
	}
}

// watchKey ends when the key is gone, nobody waits for it or the session is over.
func (s *Session) watchKey(ctx context.Context, w *goneWatch, k goneKey, from uint64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.Attach(func(error) { cancel() })()
	for retry := goneRetryMin; ctx.Err() == nil; retry = min(2*retry, goneRetryMax) {
		if s.sawDelete(ctx, k.key, from) {
			s.announce(w, k)
			return
		}
		if ctx.Err() != nil {
			return
		}
		// The watch did not begin or cannot go on: look, and watch from there.
		r, err := s.client.Get(ctx, k.key, client.GetOptions{})
		if err == nil {
			if r.Record.GetCreateRevision() != k.created {
				s.announce(w, k)
				return
			}
			from = r.Revision + 1
		}
		client.Pause(ctx, s.clock, retry)
	}
}

// sawDelete watches until the key is deleted; false when the watch ended before.
func (s *Session) sawDelete(ctx context.Context, key string, from uint64) bool {
	w, err := s.client.Watch(ctx, client.KeySelector(key), client.WatchOptions{
		From: from, KeysOnly: true, CreditEvents: goneCredit,
		Types: []messages.EventType{messages.EventType_EVENT_TYPE_DELETE},
	})
	if err != nil {
		return false
	}
	defer w.Close()
	for {
		b, err := w.Next(ctx)
		if err != nil {
			return false
		}
		if len(b.Events) > 0 {
			return true
		}
	}
}

// announce tells all who wait for the key.
func (s *Session) announce(w *goneWatch, k goneKey) {
	s.mu.Lock()
	if s.gone.keys[k] == w {
		delete(s.gone.keys, k)
	}
	waiting := w.waiting
	w.waiting = nil
	s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(waiting)) { // who came first is told first
		waiting[id]()
	}
}
