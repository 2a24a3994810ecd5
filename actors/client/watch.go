package client

import (
	"context"
	"iter"

	"github.com/concord-kv/concord/actors/client/pipeline"
	"github.com/concord-kv/concord/messages"
)

// WatchOptions of Watch and ListAndWatch.
type WatchOptions struct {
	// From is the first revision to deliver; 0 is from now, a future one waits.
	From uint64
	// After resumes after an event, instead of From.
	After    *messages.Position
	Prev     bool
	KeysOnly bool
	// Types to deliver; empty for all.
	Types []messages.EventType
	// CreditEvents and CreditBytes bound what is on its way or waits in this client;
	// default 1,000 events and 8 MiB.
	CreditEvents, CreditBytes uint32
	// Progress delivers batches without events too: they say how far the watch has come.
	Progress bool
	// ProgressMs is how often an idle watch hears of progress; default 1 s.
	ProgressMs uint32
}

// WatchBatch is what a watch delivers: the events of one revision, in order. See
// pipeline.Batch.
type WatchBatch = pipeline.Batch

// Watcher is a watch. It goes on over lost connections and on other nodes, without a
// gap and without a repeat, until it is closed or ends for a reason that resuming cannot
// mend: compacted above all. One goroutine at a time may call Next.
type Watcher struct {
	client  *Client
	who     string // to a Stepper
	request *messages.WatchRequest
	watch   *pipeline.Watch
	stop    func() bool
	start   WatchStart
	done    <-chan struct{} // of the context that bounds the watch
	dry     bool            // there is nothing to take until Changed says so
}

// WatchStart says where a watch began.
type WatchStart struct {
	// FromRevision is the first revision that will be delivered.
	FromRevision uint64
	// CurrentRevision is the revision of the node when the watch began.
	CurrentRevision uint64
}

// Watch begins to watch a selector and returns once the node has said where it begins:
// what is written after Watch returned is delivered. ctx bounds the whole watch; the
// start is bounded by Config.Timeout as well.
func (c *Client) Watch(ctx context.Context, s *messages.Selector, opts WatchOptions) (*Watcher, error) {
	w, _, err := c.openWatch(ctx, opts.request(s), opts.Progress)
	return w, err
}

// ListAndWatch lists a selector and watches on from the revision of the list, in one
// step. list.Revision, AfterKey and CountOnly are not used; From and After neither. A
// selector with more than one page needs Records and Watch from its revision instead:
// the result then says HasMore and the watch still begins after the list's revision.
func (c *Client) ListAndWatch(ctx context.Context, s *messages.Selector, list ListOptions, opts WatchOptions) (ListResult, *Watcher, error) {
	opts.From, opts.After = 0, nil
	list.Revision, list.AfterKey, list.CountOnly = 0, nil, false
	r := opts.request(s)
	r.List = list.request(s)
	w, l, err := c.openWatch(ctx, r, opts.Progress)
	if err != nil {
		return ListResult{}, nil, err
	}
	return listResult(l), w, nil
}

func (o WatchOptions) request(s *messages.Selector) *messages.WatchRequest {
	return &messages.WatchRequest{
		Selector: s, FromRevision: o.From, After: o.After, PrevKv: o.Prev, KeysOnly: o.KeysOnly,
		Types: o.Types, CreditEvents: o.CreditEvents, CreditBytes: o.CreditBytes, ProgressMs: o.ProgressMs,
	}
}

func (c *Client) openWatch(ctx context.Context, r *messages.WatchRequest, progress bool) (*Watcher, *messages.ListReply, error) {
	r.WatchId = 1 // the pipeline chooses
	if err := messages.ValidateWatch(r); err != nil {
		return nil, nil, err
	}
	who := stepName(ctx)
	stepAt(c.cfg.Clock, who, "watch", r)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, nil, errClosed()
	}
	pw, err := c.pipe.OpenWatch(r, progress)
	c.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	c.kick()
	w := &Watcher{client: c, who: who, request: r, watch: pw, done: ctx.Done()}
	started, err := w.awaitStart(ctx)
	w.step("began")
	if err != nil {
		w.end(err)
		return nil, nil, err
	}
	w.start = WatchStart{FromRevision: started.GetFromRevision(), CurrentRevision: started.GetCurrentRevision()}
	w.stop = context.AfterFunc(ctx, func() { w.end(contextEnded(ctx)) })
	return w, started.GetList(), nil
}

func (w *Watcher) awaitStart(ctx context.Context) (*messages.WatchStarted, error) {
	late := make(chan struct{})
	t := w.client.cfg.Clock.AfterFunc(w.client.cfg.Timeout, func() { close(late) })
	defer t.Stop()
	for {
		w.client.mu.Lock()
		started, end := w.watch.Started, w.watch.End()
		w.client.mu.Unlock()
		switch {
		case started != nil:
			return started, nil
		case end != nil:
			return nil, end
		}
		select {
		case <-w.watch.Changed:
		case <-ctx.Done():
			return nil, contextEnded(ctx)
		case <-late:
			return nil, w.client.lateStart()
		}
	}
}

func contextEnded(ctx context.Context) *messages.Error {
	e := messages.NewError(messages.Code_CODE_CANCELLED, "the watch's context is over")
	e.Err = context.Cause(ctx)
	return e
}

func (c *Client) lateStart() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pipe.NotStarted()
}

// Start says where the watch began.
func (w *Watcher) Start() WatchStart { return w.start }

// Next waits for the next batch. Taking a batch returns the credit of the ones before,
// so a slow caller slows only this watch. After the end it returns the reason; batches
// that came before are returned first. The events of a batch are shared with other watches
// of this client: they must not be changed.
func (w *Watcher) Next(ctx context.Context) (WatchBatch, error) {
	for {
		over := ctx.Err() != nil
		if !w.dry || over {
			w.client.mu.Lock()
			b, ok, end := w.client.pipe.Take(w.watch)
			w.dry = w.watch.Dry()
			talks := ok && w.client.pipe.WatchesTalk()
			w.client.mu.Unlock()
			if talks {
				w.client.kick()
			}
			switch {
			case ok:
				return b, nil
			case end != nil:
				return WatchBatch{}, end
			case over:
				return WatchBatch{}, contextEnded(ctx) // it has not waited
			}
		}
		if done := ctx.Done(); done == nil || done == w.done {
			// The end of the watch's own context ends the watch, which says so in Changed: one
			// channel is half the work of two.
			<-w.watch.Changed
			w.step("next")
		} else {
			select {
			case <-w.watch.Changed:
				w.step("next")
			case <-done:
				w.step("next")
				return WatchBatch{}, contextEnded(ctx)
			}
		}
		w.dry = false
	}
}

func (w *Watcher) step(what string) { stepAt(w.client.cfg.Clock, w.who, what, w.request) }

// Batches goes through the batches; an error is the last.
func (w *Watcher) Batches(ctx context.Context) iter.Seq2[WatchBatch, error] {
	return func(yield func(WatchBatch, error) bool) {
		for {
			b, err := w.Next(ctx)
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the watch. It does not wait and may be repeated.
func (w *Watcher) Close() {
	if w.stop != nil {
		w.stop()
	}
	w.end(messages.NewError(messages.Code_CODE_CANCELLED, "the watch is closed"))
}

func (w *Watcher) end(reason error) {
	w.step("close")
	w.client.mu.Lock()
	w.client.pipe.CloseWatch(w.watch, reason)
	w.client.mu.Unlock()
	w.client.kick()
}
