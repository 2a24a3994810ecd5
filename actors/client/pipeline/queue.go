package pipeline

import "time"

// queue is a first-in first-out list of calls.
type queue struct {
	calls []*Call
	head  int
}

func (q *queue) push(c *Call) { q.calls = append(q.calls, c) }

// peek returns the first call that is not over, dropping those that are; nil when
// there is none.
func (q *queue) peek() *Call {
	for q.head < len(q.calls) {
		if c := q.calls[q.head]; !c.over {
			return c
		}
		q.pop()
	}
	return nil
}

func (q *queue) pop() {
	q.calls[q.head] = nil
	q.head++
	switch {
	case q.head == len(q.calls):
		q.calls, q.head = q.calls[:0], 0
	case q.head >= 1024 && q.head*2 >= len(q.calls):
		n := copy(q.calls, q.calls[q.head:])
		clear(q.calls[n:])
		q.calls, q.head = q.calls[:n], 0
	}
}

func (q *queue) len() int { return len(q.calls) - q.head }

// pause holds back what shares a fate: a node that has no leader refuses the next
// call as it refused the last.
type pause struct {
	until time.Duration
	step  int
}

const (
	backoffBase = 10 * time.Millisecond
	backoffMax  = time.Second
)

// extend lengthens the pause: doubling from backoffBase to backoffMax with half of it
// random, and not less than the node asked for. A refusal that comes while the pause
// lasts is of the same cause and does not double it again.
func (d *pause) extend(now, retryAfter time.Duration, random func() uint64) {
	if now < d.until && retryAfter == 0 {
		return
	}
	wait := min(backoffBase<<min(d.step, 16), backoffMax)
	d.step++
	wait = wait/2 + time.Duration(random()%uint64(wait/2+1))
	if retryAfter > 0 {
		wait = retryAfter + time.Duration(random()%uint64(retryAfter/4+1))
	}
	d.until = max(d.until, now+wait)
}

func (d *pause) clear() { d.step, d.until = 0, 0 }
