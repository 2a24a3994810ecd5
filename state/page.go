package state

import (
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
	"github.com/concord-kv/concord/state/store"
)

// Shown is a record as a client sees it, where the state holds it: nothing of it has
// been copied. The strings that its methods return share the stored bytes, which
// nobody ever changes, and keep them in memory as long as they are held. It may be
// used on any goroutine and kept for as long as one likes; what is kept for long should
// be copied, since it holds the whole record.
type Shown struct {
	store.Rec
	// RemainingTTLMs is what the key's lease has left, if HasTTL, and ExpiresAtUnixMs
	// the answering node's guess at the end of it, 0 for none.
	RemainingTTLMs  int64
	ExpiresAtUnixMs int64
	// HasTTL: the record is of the latest state and has a lease.
	HasTTL bool
}

// Page is the answer to a list, without copies: what ListReply says in messages.
type Page struct {
	// Records are in the order that was asked for, at most as many as the limit and as
	// AnswerBytesMax allow; without values if the list said keys_only, which the reader
	// of the page has to heed.
	Records []Shown
	// Count is the number of keys that match, only for count_only.
	Count   uint64
	HasMore bool
	// Revision is the one that was read: the next page continues there.
	Revision uint64
}

// LastKey is after_key of the next page, "" when the page is empty.
func (p *Page) LastKey() string {
	if n := len(p.Records); n > 0 {
		return p.Records[n-1].Key()
	}
	return ""
}

// ReadList is QueryAs of a list for those who encode the answer themselves. It fills
// in page, whose Records it uses again; the records are the caller's afterwards. What
// is refused, and with what, is as QueryAs has it; page is undefined then. q must be a
// list.
func (v *View) ReadList(rights *auth.Rights, q *messages.Query, now Now, page *Page) *messages.Error {
	if err := v.permit(rights, q); err != nil {
		return err
	}
	return v.page(q.GetList(), &shower{view: v, now: now, rights: rights}, page)
}

// ReadGet is QueryAs of a get for those who encode the answer themselves; found is false
// for a key that does not exist. q must be a get.
func (v *View) ReadGet(rights *auth.Rights, q *messages.Query, now Now) (r Shown, found bool, err *messages.Error) {
	if err := v.permit(rights, q); err != nil {
		return Shown{}, false, err
	}
	key := q.GetGet().GetKey()
	rev, err := v.atKey(key, q.GetGet().GetRevision())
	if err != nil {
		return Shown{}, false, err
	}
	rec, found := v.kv.Get(keyOf(key), rev)
	if !found {
		return Shown{}, false, nil
	}
	s := shower{view: v, now: now, rights: rights}
	return s.show(rec, rev == v.kv.Revision()), true, nil
}

// permit refuses a query that is malformed, or that asks for what may not be read.
func (v *View) permit(rights *auth.Rights, q *messages.Query) *messages.Error {
	if err := messages.ValidateQuery(q); err != nil {
		return err
	}
	return auth.CheckQuery(rights, q)
}

// page reads keys in order. It ends at the limit or at the size of an answer; the next
// one goes on after the last key at the same revision.
func (v *View) page(q *messages.ListRequest, s *shower, page *Page) *messages.Error {
	lo, hi := store.Bounds(q.GetSelector())
	rev, err := v.at(lo, hi, q.GetRevision())
	if err != nil {
		return err
	}
	walk := v.kv.Ascend
	if after := string(q.GetAfterKey()); q.GetDescending() {
		walk = v.kv.Descend
		if after != "" && (hi == "" || after < hi) {
			hi = after
		}
	} else if after != "" {
		lo = max(lo, after+"\x00")
	}
	*page = Page{Records: page.Records[:0], Revision: rev}
	if hi != "" && lo >= hi {
		return nil
	}
	limit, latest := limitOf(q.GetLimit()), rev == v.kv.Revision()
	var budget answerBudget
	inGroups(min(limit+1, pageGroup), func(fn func(store.Rec) bool) { walk(lo, hi, rev, fn) }, func(r store.Rec) bool {
		if !listed(q, r) {
			return true
		}
		if q.GetCountOnly() {
			page.Count++
			return true
		}
		if len(page.Records) == limit || !budget.fits(r, q.GetKeysOnly()) {
			page.HasMore = true
			return false
		}
		page.Records = append(page.Records, s.show(r, latest))
		return true
	})
	return nil
}

// pageGroup is how many records are read ahead of what is done with them.
const pageGroup = 64

// inGroups visits what walk does, n records behind it, until fn returns false. The walk
// by itself is a short loop, in which the waits for the memory of several records
// overlap; with the work for each in between they come one after another.
func inGroups(n int, walk func(func(store.Rec) bool), fn func(store.Rec) bool) {
	group := make([]store.Rec, 0, n)
	flush := func() (more bool) {
		for _, r := range group {
			if !fn(r) {
				return false
			}
		}
		group = group[:0]
		return true
	}
	more := true
	walk(func(r store.Rec) bool {
		if group = append(group, r); len(group) == n {
			more = flush()
		}
		return more
	})
	if more {
		flush()
	}
}

// show adds to a record what is not stored with it. latest says that it is of the latest
// state: only then has it time left.
func (s *shower) show(r store.Rec, latest bool) Shown {
	p := Shown{Rec: r}
	if !latest || r.Lease() == 0 {
		return p
	}
	row, ok := s.view.leases.find(r.Lease())
	if !ok {
		return p
	}
	p.HasTTL, p.RemainingTTLMs = true, max(0, row.deadlineMs-s.clockMs())
	if s.now.WallMs != 0 {
		p.ExpiresAtUnixMs = s.now.WallMs + p.RemainingTTLMs
	}
	return p
}

// listed applies the filters of a list; 0 is no bound.
func listed(q *messages.ListRequest, r store.Rec) bool {
	within := func(x, low, high uint64) bool { return x >= low && (high == 0 || x <= high) }
	return within(r.Mod(), q.GetModRevisionMin(), q.GetModRevisionMax()) &&
		within(r.Create(), q.GetCreateRevisionMin(), q.GetCreateRevisionMax())
}
