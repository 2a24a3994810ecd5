package store

const (
	segmentBits   = 10
	segmentEvents = 1 << segmentBits
	blockBits     = 10
	blockRevs     = 1 << blockBits
)

// entry is one event of the log. Events are numbered by seq, from 0, without gaps.
type entry struct {
	rec  Rec
	prev Rec // what it replaced, tombstones too; "" for none
	// back is the distance to the entry of prev; 0 when that is not in the log.
	back uint32
	// jump is a distance down the same chain, at least back; 0 for none. By it the
	// chain is a skew-binary list: of n versions one is found in O(log n).
	jump  uint32
	level uint8
	tomb  bool
}

type segment [segmentEvents]entry

// block says for each of its revisions the seq of the first event, less base.
type block struct {
	base  uint64
	first *[blockRevs]uint32
}

// log is the change log of a Store, and a frozen copy of it in each View: slices
// only grow at the end or are replaced by shorter copies, entries are written once.
type log struct {
	segs     []*segment // segs[0] holds seq segBase<<segmentBits
	segBase  uint64
	blocks   []block // blocks[0] holds revision blockBase<<blockBits
	revBlock uint64

	base, next uint64 // entries base <= seq < next can be read
	baseRev    uint64 // revision of entry base; rev + 1 when the log is empty
	rev        uint64 // newest revision
	compacted  uint64 // C
}

func (l *log) at(seq uint64) *entry {
	return &l.segs[seq>>segmentBits-l.segBase][seq&(segmentEvents-1)]
}

// first returns the seq of the first event of a revision: next for one that has not
// happened, base for one that is gone. Entries from it on are of rev or later.
func (l *log) first(rev uint64) uint64 {
	if rev > l.rev {
		return l.next
	}
	i := rev >> blockBits
	if i < l.revBlock {
		return l.base
	}
	b := l.blocks[i-l.revBlock]
	return max(l.base, b.base+uint64(b.first[rev&(blockRevs-1)]))
}

// place returns the seq of the entry of a head record by its tag, the low bits of
// the seq; ok is false when it is no longer in the log.
func (l *log) place(head Rec, tag uint32) (seq uint64, ok bool) {
	if head.Mod() < l.baseRev {
		return 0, false
	}
	d := uint64(uint32(l.next) - tag)
	if d == 0 || d > l.next-l.base {
		return 0, false
	}
	return l.next - d, true
}

// begin opens the next revision.
func (l *log) begin() {
	l.rev++
	i := l.rev >> blockBits
	if i == l.revBlock+uint64(len(l.blocks)) {
		l.blocks = append(l.blocks, block{l.next, new([blockRevs]uint32)})
	}
	b := l.blocks[i-l.revBlock]
	b.first[l.rev&(blockRevs-1)] = uint32(l.next - b.base)
}

// link fills back, jump and level of the entry that will be at next, whose
// predecessor in the chain is prev. level says how many versions jump passes:
// 2^level - 1.
func (l *log) link(e *entry, prev Rec, tag uint32) {
	at, ok := l.place(prev, tag)
	if !ok {
		return
	}
	d := l.next - at
	e.back, e.jump, e.level = uint32(d), uint32(d), 1
	p := l.at(at)
	if p.level == 0 || uint64(p.jump) > at-l.base {
		return
	}
	q := l.at(at - uint64(p.jump))
	if far := d + uint64(p.jump) + uint64(q.jump); q.level == p.level && far < 1<<32 {
		e.jump, e.level = uint32(far), p.level+1
	}
}

// append stores e at next. A new segment starts when the last one is full.
func (l *log) append(e entry) (fresh bool) {
	i := l.next>>segmentBits - l.segBase
	if fresh = i == uint64(len(l.segs)); fresh {
		l.segs = append(l.segs, new(segment))
	}
	l.segs[i][l.next&(segmentEvents-1)] = e
	l.next++
	return fresh
}
