package consensus

import (
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// A piece that is read at once, how many are there before they are asked for, and the
// bytes that are kept at most of all that was read.
const (
	pieceEntriesMax = 512
	pieceBytesMax   = 1 << 20
	piecesAhead     = 4
	aheadBytesMax   = 12 << 20
)

// readAhead reads entries from a log for followers that are behind on a goroutine of its
// own, before they are asked for, and rests after each piece for as long as it took. The
// reader gets what is there.
type readAhead struct {
	log raftio.ILogDB

	mu     sync.Mutex
	pieces []piece // the newest at the end
	bytes  int
	// next, below end, is what is asked for next.
	node      raftio.NodeInfo
	next, end uint64
	// reading is the piece that is being read; stale says that it holds entries that were
	// replaced or removed since, failed that the last one could not be read.
	running       bool
	reading       *piece
	stale, failed bool
	stop          chan struct{} // closed by close
	closed        bool
	work          sync.WaitGroup
}

func newReadAhead(log raftio.ILogDB) *readAhead {
	return &readAhead{log: log, stop: make(chan struct{})}
}

// piece is entries without a gap, from first to below end.
type piece struct {
	node       raftio.NodeInfo
	first, end uint64
	entries    []raftpb.Entry
	bytes      int
}

// find returns the piece that holds an entry. a.mu is held.
func (a *readAhead) find(node raftio.NodeInfo, index uint64) *piece {
	for i := len(a.pieces) - 1; i >= 0; i-- {
		if p := &a.pieces[i]; p.node == node && p.first <= index && index < p.end {
			return p
		}
	}
	return nil
}

// take appends the entries from low on, below high, that were read, until they are more
// than maxSize bytes, and has those read that are asked for next, below end. size is as
// IterateEntries has it.
func (a *readAhead) take(ents []raftpb.Entry, size uint64, node raftio.NodeInfo, low, high, end, maxSize uint64) ([]raftpb.Entry, uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := low
	for next < high && size <= maxSize {
		p := a.find(node, next)
		if p == nil {
			break
		}
		for _, e := range p.entries[next-p.first:] {
			if next >= high || size > maxSize {
				break
			}
			ents, size, next = append(ents, e), size+uint64(e.SizeUpperLimit()), next+1
		}
	}
	a.node, a.next, a.end = node, next, end
	if !a.running && !a.closed {
		a.running = true
		a.work.Go(a.run)
	}
	return ents, size
}

// one returns an entry that was read.
func (a *readAhead) one(node raftio.NodeInfo, index uint64) (e raftpb.Entry, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.find(node, index); p != nil {
		return p.entries[index-p.first], true
	}
	return e, false
}

// run reads what is asked for next until enough of it is there.
func (a *readAhead) run() {
	for p := a.missing(); p != nil; p = a.missing() {
		began := time.Now()
		ents, _, err := a.log.IterateEntries(nil, 0, p.node.ShardID, p.node.ReplicaID, p.first, p.end, pieceBytesMax)
		if err != nil {
			ents = nil // who asks for the first of them hears of it
		}
		a.keep(p, ents)
		rest := time.NewTimer(time.Since(began))
		select {
		case <-rest.C:
		case <-a.stop:
			rest.Stop()
		}
	}
}

// missing returns the first piece that is to be read, or nil, after which run has ended.
func (a *readAhead) missing() *piece {
	a.mu.Lock()
	defer a.mu.Unlock()
	failed := a.failed
	a.reading, a.stale, a.failed = nil, false, false
	next := a.next
	for range piecesAhead {
		p := a.find(a.node, next)
		if p == nil && !failed && !a.closed && next < a.end {
			a.reading = &piece{node: a.node, first: next, end: min(a.end, next+pieceEntriesMax)}
			return a.reading
		}
		if p == nil {
			break
		}
		next = p.end
	}
	a.running = false
	return nil
}

// keep adds what was read of a piece unless that was forgotten meanwhile, and forgets the
// oldest ones beyond the bound.
func (a *readAhead) keep(p *piece, ents []raftpb.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed = len(ents) == 0 || ents[0].Index != p.first; a.failed || a.stale {
		return
	}
	p.entries, p.end = ents, ents[len(ents)-1].Index+1
	for i := range ents {
		p.bytes += entryBytes(&ents[i])
	}
	a.pieces, a.bytes = append(a.pieces, *p), a.bytes+p.bytes
	for a.bytes > aheadBytesMax && len(a.pieces) > 2 {
		a.drop(0)
	}
}

// drop forgets the piece at i. a.mu is held.
func (a *readAhead) drop(i int) {
	a.bytes -= a.pieces[i].bytes
	copy(a.pieces[i:], a.pieces[i+1:])
	a.pieces[len(a.pieces)-1] = piece{}
	a.pieces = a.pieces[:len(a.pieces)-1]
}

// forget drops what holds an entry from first to last.
func (a *readAhead) forget(node raftio.NodeInfo, first, last uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	holds := func(p *piece) bool { return p.node == node && p.first <= last && first < p.end }
	for i := len(a.pieces) - 1; i >= 0; i-- {
		if holds(&a.pieces[i]) {
			a.drop(i)
		}
	}
	if a.reading != nil && holds(a.reading) {
		a.stale = true
	}
}

// close waits for a read that is going on; none begins after it.
func (a *readAhead) close() {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.stop)
	}
	a.mu.Unlock()
	a.work.Wait()
}
