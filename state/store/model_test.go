package store

import (
	"fmt"
	"slices"
	"strings"
)

// model is the store written to be obviously right: a list of every event since the
// beginning, and each answer computed from it.
type model struct {
	events    []Rec
	rev       uint64
	compacted uint64
	protected []Protected
}

func (m *model) clone() *model {
	c := *m
	c.events = slices.Clip(m.events)
	c.protected = slices.Clone(m.protected)
	return &c
}

// at returns the newest version of key at rev, tombstones too.
func (m *model) at(key string, rev uint64) (found Rec) {
	for _, e := range m.events {
		if e.Mod() <= rev && e.Key() == key {
			found = e
		}
	}
	return found
}

func (m *model) get(key string, rev uint64) Rec {
	if r := m.at(key, rev); r.live() {
		return r
	}
	return ""
}

func (m *model) keys() []string {
	var keys []string
	for _, e := range m.events {
		keys = append(keys, e.Key())
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (m *model) list(lo, hi string, rev uint64) (out []Rec) {
	for _, k := range m.keys() {
		if r := m.get(k, rev); r != "" && Contains(lo, hi, k) {
			out = append(out, r)
		}
	}
	return out
}

// prev returns the version that the event replaced.
func (m *model) prev(e Rec) (found Rec) {
	for _, p := range m.events {
		if p == e {
			return found
		}
		if p.Key() == e.Key() {
			found = p
		}
	}
	panic("no such event")
}

func livePrev(p Rec) Rec {
	if p.live() {
		return p
	}
	return ""
}

func (m *model) changes(rev uint64, op uint32) (out []Event) {
	for _, e := range m.events {
		if e.Mod() > rev || e.Mod() == rev && e.OpIndex() > op {
			out = append(out, Event{e, livePrev(m.prev(e))})
		}
	}
	return out
}

func (m *model) floor(key string) (uint64, bool) {
	floor, ok := uint64(0), false
	for _, p := range m.protected {
		if strings.HasPrefix(key, p.Prefix) && (!ok || p.Floor < floor) {
			floor, ok = p.Floor, true
		}
	}
	return floor, ok
}

func (m *model) history(key string, from, to uint64) (out []Event) {
	start := m.compacted
	if f, ok := m.floor(key); ok && from < start {
		start = f
	}
	if r := m.get(key, start); from == start && r != "" && to >= start {
		out = append(out, Event{Rec: r})
	}
	for _, e := range m.events {
		if e.Key() == key && e.Mod() > start && e.Mod() >= from && e.Mod() <= to {
			out = append(out, Event{e, livePrev(m.prev(e))})
		}
	}
	return out
}

// kept returns the replaced versions that protected prefixes keep.
func (m *model) kept() (out []Rec) {
	for _, e := range m.events {
		floor, ok := m.floor(e.Key())
		if !ok || e.Mod() <= floor || e.Mod() > m.compacted {
			continue
		}
		if p := m.prev(e); p.live() || p != "" && p.Mod() > floor {
			out = append(out, p)
		}
	}
	return out
}

func (m *model) digest() uint64 {
	var state, floor, events, kept uint64
	for _, r := range m.list("", "", m.rev) {
		state += r.hash()
	}
	for _, r := range m.list("", "", m.compacted) {
		floor += r.hash()
	}
	for _, e := range m.changes(m.compacted, ^uint32(0)) {
		events += e.Rec.hash()
	}
	for _, r := range m.kept() {
		kept += r.hash()
	}
	return digest(m.rev, m.compacted, state, floor, events, kept)
}

func (m *model) bytes() (n uint64) {
	for _, r := range m.list("", "", m.rev) {
		n += r.LogicalBytes()
	}
	for _, e := range m.changes(m.compacted, ^uint32(0)) {
		n += EventBytes
		if e.Rec.Tombstone() {
			n += e.Rec.LogicalBytes()
		}
		if e.Prev != "" {
			n += e.Prev.LogicalBytes()
		}
	}
	for _, r := range m.kept() {
		n += r.LogicalBytes()
	}
	return n
}

// show writes events so that a difference can be read.
func show(events []Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s <- %s\n", showRec(e.Rec), showRec(e.Prev))
	}
	return b.String()
}

func showRec(r Rec) string {
	if r == "" {
		return "-"
	}
	return fmt.Sprintf("%q@%d.%d create %d version %d value %q tombstone %v", r.Key(), r.Mod(), r.OpIndex(), r.Create(), r.Version(), r.Value(), r.Tombstone())
}

func plain(recs []Rec) (out []Event) {
	for _, r := range recs {
		out = append(out, Event{Rec: r})
	}
	return out
}
