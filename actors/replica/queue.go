package replica

import "github.com/concord-kv/concord/messages"

// request is one Propose that was admitted. It is answered once for each command.
type request struct {
	from       any // who asked; the shell knows how to reach it
	id         uint64
	deadlineMs int64 // on the node's monotonic clock
	internal   bool
	over       bool // its deadline has passed: every command has been answered
}

// item is one command of a request, encoded without its stamp.
type item struct {
	req     *request
	index   uint32
	command []byte
}

// queue is a FIFO of items that knows its weight.
type queue struct {
	items []item
	head  int
	bytes int
	// earliestMs is at or before the earliest deadline in the queue.
	earliestMs int64
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(it item) {
	if q.len() == 0 || it.req.deadlineMs < q.earliestMs {
		q.earliestMs = it.req.deadlineMs
	}
	q.items = append(q.items, it)
	q.bytes += len(it.command)
}

// peek returns the size of the first command; ok is false on an empty queue.
func (q *queue) peek() (bytes int, ok bool) {
	if q.len() == 0 {
		return 0, false
	}
	return len(q.items[q.head].command), true
}

func (q *queue) pop() item {
	it := q.items[q.head]
	q.items[q.head] = item{} // the backing array outlives the item
	q.head++
	q.bytes -= len(it.command)
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head >= 4096 && q.head*2 >= len(q.items) {
		// A queue that never runs empty must not grow for ever at its front.
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return it
}

// expire removes the items whose deadline is at or before nowMs and hands them to
// fn in order. It costs nothing while none is due.
func (q *queue) expire(nowMs int64, fn func(item)) {
	if q.len() == 0 || nowMs < q.earliestMs {
		return
	}
	q.filter(func(it item) bool { return it.req.deadlineMs > nowMs }, fn)
}

// drain removes all items and hands them to fn in order.
func (q *queue) drain(fn func(item)) {
	q.filter(func(item) bool { return false }, fn)
}

func (q *queue) filter(keep func(item) bool, gone func(item)) {
	kept := q.items[:0]
	live := q.items[q.head:]
	q.bytes = 0
	for _, it := range live {
		if !keep(it) {
			gone(it)
			continue
		}
		if len(kept) == 0 || it.req.deadlineMs < q.earliestMs {
			q.earliestMs = it.req.deadlineMs
		}
		kept = append(kept, it)
		q.bytes += len(it.command)
	}
	clear(q.items[len(kept):])
	q.items, q.head = kept, 0
}

// internalCommand says whether only nodes send this command. Such commands never
// wait behind clients: a keep-alive storm that holds back expiry would keep dead
// leases alive for as long as it lasts.
func internalCommand(c *messages.Command) bool {
	switch c.GetOp().(type) {
	case *messages.Command_ClaimClock, *messages.Command_Tick, *messages.Command_ExpireLeases,
		*messages.Command_StepIndex, *messages.Command_ReportConsumers, *messages.Command_Bootstrap,
		*messages.Command_RaiseApplyVersion:
		return true
	}
	return false
}
