package sim

// WatchStats counts what befell the watches of a run, so that a test can tell that the
// promises were held where they are hard to keep.
type WatchStats struct {
	Begun     int // watches that began
	Restored  int // watches whose node got a snapshot under them
	Cut       int // watches at an end of a one-way cut between nodes
	Compacted int // watches that compaction passed, or came up to, before they had everything
	Ended     int // of them, those that ended for it
	Stalled   int // consumers that took nothing while something was there for them
	Moved     int // watches whose node was stopped, or lost its power
}

// Add sums two.
func (s *WatchStats) Add(o WatchStats) {
	s.Begun, s.Restored, s.Cut = s.Begun+o.Begun, s.Restored+o.Restored, s.Cut+o.Cut
	s.Compacted, s.Ended, s.Stalled, s.Moved = s.Compacted+o.Compacted, s.Ended+o.Ended, s.Stalled+o.Stalled, s.Moved+o.Moved
}

func (x *watched) runs() bool { return x.w != nil && x.end == nil }

// watchesAt returns how many watches a node serves.
func (w *World) watchesAt(id uint64) (n int) {
	at := map[string]bool{}
	w.network.each(func(c *conn) {
		if c.node == id && c.dialer == 0 && !c.atNode {
			at[c.client] = true
		}
	})
	for _, c := range w.clients {
		for _, x := range c.watches {
			if at[c.name] && x.runs() {
				n++
			}
		}
	}
	return n
}

// compacted counts the watches that have not come as far as history is gone now.
func (w *World) compacted(to uint64) {
	for _, c := range w.clients {
		for _, x := range c.watches {
			if x.runs() && x.check.Next() <= to {
				w.watchStats.Compacted++
			}
		}
	}
}

// goOn has the consumer of a watch take what comes.
func (x *watched) goOn() {
	if x.stalled && x.runs() && x.missing(x.check.Next(), x.client.world.truth.revision()) != 0 {
		x.client.world.watchStats.Stalled++
	}
	x.stalled, x.mayHave = false, true
}
