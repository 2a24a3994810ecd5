package client

import (
	"context"

	"github.com/concord-kv/concord/actors/client/pipeline"
	"github.com/concord-kv/concord/messages"
)

// Subscription is a watch of WatchFunc.
type Subscription struct{ w *Watcher }

// Start says where the watch began.
func (s *Subscription) Start() WatchStart { return s.w.start }

// Close ends the watch. What has come and was not handed out is dropped, all but the end.
// It does not wait, so the function may run once more meanwhile unless it is itself the
// caller, and may be repeated.
func (s *Subscription) Close() {
	s.w.client.mu.Lock()
	s.w.client.pipe.Drop(s.w.watch)
	s.w.client.mu.Unlock()
	s.w.Close()
}

// WatchFunc is Watch with a function instead of Next: fn is handed the batches in order, one
// at a time, and last, once, no batch and the reason for which the watch ended. It is not
// called when WatchFunc fails.
//
// One goroutine of the client calls the functions of all its subscriptions in turn. That is
// what many watches of a client that are told the same cost least with: nobody is woken for
// each of them. But while a function runs the others wait, so it must not block; a call of
// the client waits for an answer, and belongs elsewhere. Watches with Next, and calls, are
// not held up. What waits for a slow function is bounded by each watch's credit.
//
// The events of a batch are shared by the watches of the client: they must not be changed.
func (c *Client) WatchFunc(ctx context.Context, s *messages.Selector, opts WatchOptions, fn func(WatchBatch, error)) (*Subscription, error) {
	w, _, err := c.openWatch(ctx, opts.request(s), opts.Progress)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.pipe.Attach(w.watch, c.feed, fn)
	start := !c.feeding
	c.feeding = true
	c.mu.Unlock()
	if start {
		go c.handOut()
	}
	return &Subscription{w}, nil
}

// handOut calls the functions of subscriptions until there is none any more.
func (c *Client) handOut() {
	var round []pipeline.Fed
	for {
		c.mu.Lock()
		round = c.pipe.TakeFed(c.feed, round[:0])
		talks := len(round) > 0 && c.pipe.WatchesTalk()
		c.feeding = len(round) > 0 || !c.feed.Idle()
		over := !c.feeding
		c.mu.Unlock()
		if over {
			return
		}
		if talks {
			c.kick()
		}
		for i := range round {
			f := &round[i]
			f.Handle(f.Batch, f.End)
			*f = pipeline.Fed{}
		}
		if len(round) == 0 {
			<-c.feed.Changed
		}
	}
}

// signal wakes those for whom something came.
func signal(woken []chan struct{}) {
	for _, w := range woken {
		pipeline.Signal(w)
	}
}
