package state

import (
	"slices"

	"github.com/concord-kv/concord/messages"
)

// resultRoom is memory for results that nobody has had yet. It is allocated for some
// hundred commands at once, so that a put allocates its record and nothing else. What is
// handed out is never used again: sessions may wait long with a result, so a result that
// has records in it gets memory of its own, and nobody keeps the values of others.
type resultRoom struct {
	results  []messages.Result
	pointers []*messages.Result
}

// resultPiece is how many results are allocated at once: 20 KiB.
const resultPiece = 256

// list returns room for the results of an entry.
func (a *resultRoom) list(n int) []*messages.Result {
	if len(a.results) < n {
		a.results = make([]messages.Result, max(n, resultPiece))
	}
	if len(a.pointers) < n {
		a.pointers = make([]*messages.Result, max(n, resultPiece))
	}
	list := a.pointers[:n:n]
	a.pointers = a.pointers[n:]
	return list
}

// next returns the result that take hands out.
func (a *resultRoom) next() *messages.Result { return &a.results[0] }

// take hands out the result that next returned, or, if there are records in it, a copy:
// large says so.
func (a *resultRoom) take() (r *messages.Result, large bool) {
	r = &a.results[0]
	if recordBytes(r) == 0 {
		a.results = a.results[1:]
		return r, false
	}
	own := &messages.Result{Revision: r.Revision, Error: r.Error, Replayed: r.Replayed, Answer: r.Answer}
	r.Reset()
	return own, true
}

// apart returns the list in memory of its own, for one that holds large results.
func (a *resultRoom) apart(list []*messages.Result) []*messages.Result {
	own := slices.Clone(list)
	clear(list)
	return own
}

// recordBytes returns the bytes of keys and values that an answer keeps in memory.
func recordBytes(r *messages.Result) (n int) {
	records := func(list ...*messages.Record) {
		for _, r := range list {
			n += len(r.GetKey()) + len(r.GetValue())
		}
	}
	switch a := r.Answer.(type) {
	case *messages.Result_Put:
		if prev := a.Put.GetPrev(); prev != nil {
			records(prev)
		}
	case *messages.Result_PutMany:
		for _, p := range a.PutMany.GetPuts() {
			records(p.GetPrev())
		}
	case *messages.Result_Delete:
		records(a.Delete.GetPrev()...)
	case *messages.Result_Txn:
		for _, o := range a.Txn.GetResponses() {
			records(o.GetGet().GetRecords()...)
			records(o.GetPut().GetPrev())
			records(o.GetDelete().GetPrev()...)
		}
	}
	return n
}
