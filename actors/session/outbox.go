package session

import (
	"sync"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// windowReturnBytes is how much of the hub's window the client must have taken
// before the hub hears of it. Less than half a window, so that the hub never waits
// for what will not be sent.
const windowReturnBytes = protocol.SessionWindowFirst / 4

// repliesMax and repliesBytesMax end a message of replies.
const (
	repliesMax      = 512
	repliesBytesMax = 256 << 10
)

// outbox is the queue between a session, which must not wait for its client, and
// the goroutine that does.
type outbox struct {
	stream transport.ServerStream
	// wrote is called by the writer, without the lock: the client took window bytes
	// of the hub's, or the backlog that somebody waits for is low again.
	wrote func(window int64)
	// done is called by the writer, once, last.
	done func()

	mu      sync.Mutex
	ready   sync.Cond
	queue   []outgoing
	backlog int64 // bytes in queue, in the writer's hands, and, of large messages, in the transport's
	sent    uint64
	low     int64 // call wrote when the backlog is at or below; -1: nobody waits
	closing bool
	reason  *messages.ErrorDetail
	gone    bool       // the writer has returned, and nothing waits
	counts  *admission // what waits on the node; nil: nobody counts
	of      *client    // and for whom; nil before that is known
}

// outgoing is a message, or a batch for the watches ids.
type outgoing struct {
	message *messages.ServerMessage
	batch   *messages.SharedBatch
	ids     []uint64
	bytes   int64
	window  int64
}

// made returns the message, also of a batch.
func (m *outgoing) made() *messages.ServerMessage {
	if m.batch != nil {
		return &messages.ServerMessage{Message: &messages.ServerMessage_WatchBatch{WatchBatch: m.batch.For(m.ids)}}
	}
	return m.message
}

func newOutbox(s transport.ServerStream, wrote func(int64), done func()) *outbox {
	o := &outbox{stream: s, wrote: wrote, done: done, low: -1}
	o.ready.L = &o.mu
	return o
}

// push queues a message and returns the bytes that now wait. Once the outbox is
// closed it drops it.
func (o *outbox) push(m outgoing) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return o.backlog
	}
	o.count(m.bytes)
	if !o.merge(m) {
		o.queue = append(o.queue, m)
	}
	o.ready.Signal()
	return o.backlog
}

// count adds to the backlog. The lock is held.
func (o *outbox) count(bytes int64) {
	before := o.backlog
	o.backlog += bytes
	if o.counts != nil {
		o.counts.waits(o.of, before, o.backlog)
	}
}

// belongs says for whom things wait here.
func (o *outbox) belongs(of *client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts == nil {
		return
	}
	backlog := o.backlog
	o.count(-backlog)
	o.of = of
	o.count(backlog)
}

// release gives back what will not be sent any more.
func (o *outbox) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing, o.gone = true, true
	o.count(-o.backlog)
	o.queue = nil
}

// left is told of so many bytes that the client's side has taken, or the transport in their
// place.
func (o *outbox) left(bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return
	}
	o.count(-bytes)
	o.sent++
	if o.low >= 0 && o.backlog <= o.low {
		o.ready.Signal()
	}
}

// merge adds replies to replies that still wait: a client that is slower than its
// answers gets fewer, larger messages.
func (o *outbox) merge(m outgoing) bool {
	if len(o.queue) == 0 {
		return false
	}
	last := &o.queue[len(o.queue)-1]
	into, more := last.message.GetReplies(), m.message.GetReplies()
	if into == nil || more == nil || len(into.Replies)+len(more.Replies) > repliesMax || last.bytes+m.bytes > repliesBytesMax {
		return false
	}
	into.Replies = append(into.Replies, more.Replies...)
	last.bytes += m.bytes
	return true
}

// waiting returns the bytes that wait and how many messages have been sent.
func (o *outbox) waiting() (backlog int64, sent uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.backlog, o.sent
}

// callWhen has wrote called once the backlog is at or below low.
func (o *outbox) callWhen(low int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.low = low
	o.ready.Signal()
}

// close ends the stream with this reason after what is queued. now drops the queue
// and does not wait for the client.
func (o *outbox) close(reason *messages.ErrorDetail, now bool) {
	o.mu.Lock()
	if !o.closing {
		o.closing, o.reason = true, reason
	}
	if now {
		o.queue = nil
		reason = o.reason
	}
	o.ready.Signal()
	o.mu.Unlock()
	if now {
		o.stream.Close(reason) // unblocks the writer
	}
}

// leavingBytes is the least of a message that counts until it has left the transport, too.
// What is smaller the transport itself takes few of.
const leavingBytes = 32 << 10

// send writes one message, and counts it as gone when it is. Where the stream encodes, what
// is shared by many watches is encoded once for all of them.
func (o *outbox) send(m *outgoing) error {
	bytes := m.bytes
	if m.batch != nil {
		if s, ok := o.stream.(transport.BatchSender); ok {
			err := s.SendBatch(m.batch, m.ids)
			o.left(bytes)
			return err
		}
	} else if bytes >= leavingBytes {
		if s, ok := o.stream.(transport.LeavingSender); ok {
			return s.SendLeaving(m.message, func() { o.left(bytes) })
		}
	}
	err := o.stream.Send(m.made())
	o.left(bytes)
	return err
}

// run writes until the outbox is closed or the stream fails.
func (o *outbox) run() {
	defer o.done()
	defer o.release()
	var batch []outgoing
	var window int64
	for {
		o.mu.Lock()
		for len(o.queue) == 0 && !o.closing && (o.low < 0 || o.backlog > o.low) {
			o.ready.Wait()
		}
		low := o.low >= 0 && o.backlog <= o.low
		if low {
			o.low = -1
		}
		closed := o.closing && len(o.queue) == 0
		reason := o.reason
		batch, o.queue = o.queue, batch[:0]
		o.mu.Unlock()
		if low {
			o.wrote(0)
		}
		if closed {
			o.stream.Close(reason)
			return
		}
		for i := range batch {
			if err := o.send(&batch[i]); err != nil {
				o.stream.Close(nil)
				return
			}
			if window += batch[i].window; window >= windowReturnBytes {
				o.wrote(window)
				window = 0
			}
			batch[i] = outgoing{}
		}
	}
}
