package remoting

import "sync"

// queue is a bounded queue, in messages and in bytes. An item larger than the
// bytes allowed is taken when nothing else waits. Many may push; one pops.
type queue[T any] struct {
	messagesMax, bytesMax int

	mu    sync.Mutex
	items []queued[T]
	head  int
	bytes int
	ended bool

	filled, drained chan struct{} // one token each
	done            chan struct{} // closed by end
}

type queued[T any] struct {
	value T
	bytes int
}

func newQueue[T any](messagesMax, bytesMax int) *queue[T] {
	return &queue[T]{
		messagesMax: messagesMax,
		bytesMax:    bytesMax,
		filled:      make(chan struct{}, 1),
		drained:     make(chan struct{}, 1),
		done:        make(chan struct{}),
	}
}

// tryPush reports whether v was taken; ended tells that no more will be.
func (q *queue[T]) tryPush(v T, bytes int) (taken, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return false, true
	}
	n := len(q.items) - q.head
	if n > 0 && (n >= q.messagesMax || q.bytes+bytes > q.bytesMax) {
		return false, false
	}
	q.items = append(q.items, queued[T]{v, bytes})
	q.bytes += bytes
	signal(q.filled)
	// Several may wait for room, and there is one token.
	if n+1 < q.messagesMax && q.bytes < q.bytesMax {
		signal(q.drained)
	}
	return true, false
}

// push waits for room. It reports false when the queue ended or stop was closed.
func (q *queue[T]) push(v T, bytes int, stop <-chan struct{}) bool {
	for {
		taken, ended := q.tryPush(v, bytes)
		if taken || ended {
			return taken
		}
		select {
		case <-q.drained:
		case <-q.done:
			return false
		case <-stop:
			return false
		}
	}
}

// pop waits for the next item. It reports false when the queue ended and what was
// in it has been taken, or stop was closed.
func (q *queue[T]) pop(stop <-chan struct{}) (v T, ok bool) {
	for {
		q.mu.Lock()
		v, ok = q.take()
		ended := q.ended
		q.mu.Unlock()
		if ok || ended {
			return v, ok
		}
		select {
		case <-q.filled:
		case <-q.done:
		case <-stop:
			return v, false
		}
	}
}

// popBatch appends to dst what is there: up to n items and the given bytes, or one
// larger item.
func (q *queue[T]) popBatch(dst []T, n, bytes int) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	for taken := 0; taken < n && q.head < len(q.items); taken++ {
		if bytes -= q.items[q.head].bytes; bytes < 0 && taken > 0 {
			break
		}
		v, _ := q.take()
		dst = append(dst, v)
	}
	return dst
}

// take is called with the lock held.
func (q *queue[T]) take() (v T, ok bool) {
	if q.head == len(q.items) {
		return v, false
	}
	it := &q.items[q.head]
	v, q.bytes = it.value, q.bytes-it.bytes
	*it = queued[T]{}
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head >= 64 && q.head*2 >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	signal(q.drained)
	return v, true
}

// end takes no more items; those inside can still be popped.
func (q *queue[T]) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended = true
		close(q.done)
	}
}

// endIfEmpty ends a queue with nothing inside, and reports whether it did.
func (q *queue[T]) endIfEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head < len(q.items) {
		return false
	}
	if !q.ended {
		q.ended = true
		close(q.done)
	}
	return true
}

// drop throws away what is inside.
func (q *queue[T]) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.items)
	q.items, q.head, q.bytes = nil, 0, 0
}

func (q *queue[T]) hasEnded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

func (q *queue[T]) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.head == len(q.items)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
