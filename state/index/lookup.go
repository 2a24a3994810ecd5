package index

import (
	"sort"
	"strings"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
)

// LookupScanMax is the number of entries that one lookup looks at.
const LookupScanMax = 20_000

// Query says which keys a lookup finds: those with the value Equal, or those with a
// value in the half-open range from Min to Max, where "" is an open end. With all
// three empty it finds every key that has an entry. Null equals nothing and is in no
// range: what is null is not indexed.
type Query struct {
	Equal, Min, Max field.Value

	After []byte // Page.After of the page before; nil for the first
	Limit int    // keys taken at most
}

// Page says how a lookup ended.
type Page struct {
	// More: the lookup stopped before the end of what it could find. The next page may
	// still turn out empty.
	More bool
	// After continues behind what was taken; set when More is. Its bytes are opaque.
	After []byte
}

// Lookup calls take with each key that the query finds, in the order of their values,
// then keys, a key with several values in the range once, at the least of them. It
// stops when take returns false: that key was not taken, and the next page begins with
// it. It also stops after Limit keys, and after LookupScanMax entries, so that a page
// may be short, even empty, with more behind it.
//
// get returns the record of a key in the very state that the view shows. It is asked
// only on later pages of a range, of an index where some key has several entries; a
// nil get leaves such keys to come once on each page.
//
// Refusals: CODE_INDEX_NOT_FOUND, CODE_INDEX_BUILDING, and CODE_INVALID_ARGUMENT with
// the field of IndexLookupRequest for a range bound longer than ValueBytesMax, for a
// range together with Equal, and for an After that is not of this query.
func (v *View) Lookup(name string, q Query, get func(key string) Content, take func(key string) bool) (Page, *messages.Error) {
	at, exists := find(v.indexes, name)
	if !exists {
		return Page{}, notFound(name)
	}
	ix := v.indexes[at]
	if ix.building {
		return Page{}, messages.NewError(messages.Code_CODE_INDEX_BUILDING, "index %q is being built, at key %q", name, ix.cursor)
	}
	s, err := ix.scanOf(q)
	if err != nil {
		return Page{}, err
	}
	if !s.exact && ix.several > 0 {
		s.seen = make(map[string]struct{})
		if q.After != nil && get != nil {
			s.get, s.parser = get, new(field.Parser)
		}
	}
	return s.run(ix, q.Limit, take), nil
}

// scan is one lookup under way: over the entries with lo <= entry, up to hi.
type scan struct {
	lo, hi string // hi is an end of entries for a range, their common beginning when exact
	exact  bool
	after  string // the last entry of the page before, "" if none

	seen map[string]struct{}      // keys met on this page; nil when none can come twice
	get  func(key string) Content // set when a key may have come on a page before

	parser *field.Parser // with get
	set    entrySet
	path   [1]field.Path
}

func (ix *index) scanOf(q Query) (*scan, *messages.Error) {
	s := &scan{path: [1]field.Path{ix.path}}
	if q.Equal != "" {
		if q.Min != "" || q.Max != "" {
			return nil, messages.InvalidField("equal_json", "together with a range")
		}
		s.lo = string(appendKept(nil, q.Equal))
		s.hi, s.exact = s.lo, true
	} else {
		for _, bound := range []struct {
			field string
			value field.Value
		}{{"min_json", q.Min}, {"max_json", q.Max}} {
			if n := len(bound.value); n > ValueBytesMax {
				return nil, messages.InvalidField(bound.field, "a bound of %d bytes encoded", n).WithLimit(ValueBytesMax)
			}
		}
		s.lo, s.hi = string(q.Min), string(q.Max)
	}
	if q.After == nil {
		return s, nil
	}
	ok := len(q.After) > 1 && q.After[0] == cursorVersion
	if ok {
		s.after = string(q.After[1:])
		_, key, whole := splitEntry(s.after)
		ok = whole && len(key) <= messages.KeyBytesMax && s.after >= s.lo && s.within(s.after)
	}
	if !ok {
		return nil, messages.InvalidField("after", "not a cursor of this lookup")
	}
	return s, nil
}

// cursorVersion opens every cursor, so that another form can be told from this one.
const cursorVersion = 1

// within says that an entry at or above lo is not past the end.
func (s *scan) within(entry string) bool {
	if s.exact {
		return strings.HasPrefix(entry, s.hi)
	}
	return s.hi == "" || entry < s.hi
}

func (s *scan) run(ix *index, limit int, take func(key string) bool) (page Page) {
	taken, looked := 0, 0
	last := s.after // what the next page continues behind
	ix.entries.Ascend(max(s.lo, s.after), func(entry string) bool {
		if entry == s.after {
			return true
		}
		if !s.within(entry) {
			return false
		}
		if looked == LookupScanMax || taken == limit {
			page.More = true
			return false
		}
		looked++
		kept, key, _ := splitEntry(entry)
		if !s.repeated(ix, kept, key) {
			if !take(key) {
				page.More = true
				return false
			}
			taken++
		}
		last = entry
		return true
	})
	if page.More && last != "" {
		page.After = append([]byte{cursorVersion}, last...)
	}
	return page
}

// repeated says that the key has come with a lesser value of the range, on this page
// or on one before.
func (s *scan) repeated(ix *index, kept, key string) bool {
	if s.seen == nil {
		return false
	}
	if _, yes := s.seen[key]; yes {
		return true
	}
	s.seen[key] = struct{}{}
	if s.get == nil {
		return false
	}
	c := s.get(key)
	if !c.Present {
		return false // not of this view; better once too often than never
	}
	s.parser.Scan(s.path[:], c.ContentType, c.Value)
	s.set.fill(field.Value(s.parser.AppendValue(nil, 0)), key, ix.perKeyMax)
	i := sort.SearchStrings(s.set.list, s.lo)
	return i < len(s.set.list) && s.set.list[i][:len(s.set.list[i])-len(key)] != kept
}
