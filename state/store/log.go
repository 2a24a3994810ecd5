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
}

// link leads from an event to earlier ones of its key.
type link struct {
	// back is the distance to the entry of prev, back2 to that of the one before; 0 when
	// that was not in the log.
	back, back2 uint32
	// jump is a distance down the same chain, at least back; 0 for none. By it the
	// chain is a skew-binary list: of n versions one is found in O(log n).
	jump  uint32
	level uint8
	tomb  bool // the event is a tombstone
}

// segment is a piece of the log. Links lie close together and apart from the records: a
// search in the past goes from link to link, and each step waits for memory, the longer
// the farther apart they are.
type segment struct {
	entries [segmentEvents]entry
	links   [segmentEvents]link
}

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
	return &l.segs[seq>>segmentBits-l.segBase].entries[seq&(segmentEvents-1)]
}

func (l *log) linkAt(seq uint64) *link {
	return &l.segs[seq>>segmentBits-l.segBase].links[seq&(segmentEvents-1)]
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

// link returns the link of the event that will be at next, whose predecessor in the chain
// is prev. level says how many versions jump passes: 2^level - 1.
func (l *log) link(prev Rec, tag uint32) (k link) {
	at, ok := l.place(prev, tag)
	if !ok {
		return k
	}
	d := l.next - at
	k.back, k.jump, k.level = uint32(d), uint32(d), 1
	p := l.linkAt(at)
	if far := d + uint64(p.back); p.back != 0 && far < 1<<32 {
		k.back2 = uint32(far)
	}
	if p.level == 0 || uint64(p.jump) > at-l.base {
		return k
	}
	q := l.linkAt(at - uint64(p.jump))
	if far := d + uint64(p.jump) + uint64(q.jump); q.level == p.level && far < 1<<32 {
		k.jump, k.level = uint32(far), p.level+1
	}
	return k
}

// append stores an event at next. A new segment starts when the last one is full.
func (l *log) append(e entry, k link) (fresh bool) {
	i := l.next>>segmentBits - l.segBase
	if fresh = i == uint64(len(l.segs)); fresh {
		l.segs = append(l.segs, new(segment))
	}
	at := l.next & (segmentEvents - 1)
	l.segs[i].entries[at], l.segs[i].links[at] = e, k
	l.next++
	return fresh
}
