package state

import "fmt"

// deadlines is the queue of all leases in the order they end: by deadline, then by
// id. It is an indexed 4-ary heap that is kept exact: a keep-alive moves the lease
// at once. A lazy queue is faster, but what it pops depends on its past, and a
// replica that was restored from a snapshot has another past.
//
// It is no part of the logical state: the lease table determines it.
type deadlines struct {
	heap []deadline
	at   []int32 // slot -> place in heap, -1 when it is not there
}

type deadline struct {
	ms   int64
	id   uint64
	slot int32
}

func (d deadline) before(o deadline) bool {
	return d.ms < o.ms || d.ms == o.ms && d.id < o.id
}

func (q *deadlines) len() int { return len(q.heap) }

// add puts a lease into the queue.
func (q *deadlines) add(d deadline) {
	for int(d.slot) >= len(q.at) {
		q.at = append(q.at, -1)
	}
	q.heap = append(q.heap, d)
	q.up(len(q.heap)-1, d)
}

// move gives the lease in slot another deadline.
func (q *deadlines) move(slot int32, ms int64) {
	i := int(q.at[slot])
	d := q.heap[i]
	later := ms > d.ms
	d.ms = ms
	if later {
		q.down(i, d)
	} else {
		q.up(i, d)
	}
}

// remove takes the lease in slot out of the queue.
func (q *deadlines) remove(slot int32) {
	i := int(q.at[slot])
	if i < 0 {
		panic(fmt.Sprintf("deadlines: slot %d is not queued", slot))
	}
	q.at[slot] = -1
	last := len(q.heap) - 1
	d := q.heap[last]
	q.heap = q.heap[:last]
	if i == last {
		return
	}
	if i > 0 && d.before(q.heap[(i-1)/4]) {
		q.up(i, d)
	} else {
		q.down(i, d)
	}
}

// first returns the earliest deadline, 0 for none.
func (q *deadlines) first() int64 {
	if len(q.heap) == 0 {
		return 0
	}
	return q.heap[0].ms
}

// up and down find the place of d, which may stand at i or above, or below.
func (q *deadlines) up(i int, d deadline) {
	for i > 0 {
		parent := (i - 1) / 4
		if !d.before(q.heap[parent]) {
			break
		}
		q.put(i, q.heap[parent])
		i = parent
	}
	q.put(i, d)
}

func (q *deadlines) down(i int, d deadline) {
	for {
		child := 4*i + 1
		if child >= len(q.heap) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(q.heap)); c++ {
			if q.heap[c].before(q.heap[least]) {
				least = c
			}
		}
		if !q.heap[least].before(d) {
			break
		}
		q.put(i, q.heap[least])
		i = least
	}
	q.put(i, d)
}

func (q *deadlines) put(i int, d deadline) {
	q.heap[i] = d
	q.at[d.slot] = int32(i)
}

// due visits up to limit leases with deadline <= clockMs, in order, without taking
// them out, and returns the earliest deadline that it did not visit, 0 for none. It
// looks at 4*limit+1 places at most, whatever the number of leases.
func (q *deadlines) due(clockMs int64, limit int, visit func(slot int32)) (nextMs int64) {
	if len(q.heap) == 0 {
		return 0
	}
	// The leases not visited yet whose parents were: a heap of places.
	frontier := make([]int32, 1, 16)
	for len(frontier) > 0 {
		d := q.heap[frontier[0]]
		if d.ms > clockMs || limit <= 0 {
			return d.ms
		}
		limit--
		visit(d.slot)
		i := frontier[0]
		frontier = q.popPlace(frontier)
		for c := 4*int(i) + 1; c < min(4*int(i)+5, len(q.heap)); c++ {
			frontier = q.pushPlace(frontier, int32(c))
		}
	}
	return 0
}

func (q *deadlines) pushPlace(f []int32, place int32) []int32 {
	f = append(f, place)
	i := len(f) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !q.heap[f[i]].before(q.heap[f[parent]]) {
			break
		}
		f[i], f[parent] = f[parent], f[i]
		i = parent
	}
	return f
}

func (q *deadlines) popPlace(f []int32) []int32 {
	last := len(f) - 1
	f[0] = f[last]
	f = f[:last]
	i := 0
	for {
		c := 2*i + 1
		if c >= len(f) {
			return f
		}
		if c+1 < len(f) && q.heap[f[c+1]].before(q.heap[f[c]]) {
			c++
		}
		if !q.heap[f[c]].before(q.heap[f[i]]) {
			return f
		}
		f[i], f[c] = f[c], f[i]
		i = c
	}
}

// check panics when the heap is not one. For tests and FullDigest.
func (q *deadlines) check() {
	for i, d := range q.heap {
		if int(q.at[d.slot]) != i {
			panic(fmt.Sprintf("deadlines: lease %d stands at %d, slot says %d", d.id, i, q.at[d.slot]))
		}
		if i > 0 && d.before(q.heap[(i-1)/4]) {
			panic(fmt.Sprintf("deadlines: lease %d stands below a later one", d.id))
		}
	}
}
