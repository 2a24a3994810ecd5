package pipeline

// batches is a queue that keeps its memory: most watches hold one batch at a time.
type batches struct {
	all  []Batch
	head int // what is before it was taken
}

func (q *batches) len() int { return len(q.all) - q.head }

func (q *batches) push(b Batch) {
	if len(q.all) == cap(q.all) && 2*q.head > len(q.all) {
		n := copy(q.all, q.all[q.head:])
		clear(q.all[n:])
		q.all, q.head = q.all[:n], 0
	}
	q.all = append(q.all, b)
}

func (q *batches) pop() (b Batch, ok bool) {
	if q.head == len(q.all) {
		return b, false
	}
	b = q.all[q.head]
	q.all[q.head] = Batch{}
	if q.head++; q.head == len(q.all) {
		q.all, q.head = q.all[:0], 0
		if cap(q.all) > batchesKept {
			q.all = nil
		}
	}
	return b, true
}

// batchesKept bounds the memory that an empty queue keeps.
const batchesKept = 16
