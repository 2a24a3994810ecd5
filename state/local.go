package state

// Messages that carry a view or effects travel by pointer between actors of one
// node. What they point to is immutable.

// GetView asks apply for a view that has applied at least MinApplied. Answered once
// by GotView: now, or after the batch that gets there.
//
// session, watch, expiry -> apply
type GetView struct {
	RequestID  uint64
	MinApplied uint64
}

// GotView answers GetView.
//
// apply -> whoever asked
type GotView struct {
	RequestID uint64
	View      *View
}

// Committed says what a batch of log entries did. It is sent after every batch that
// changed something, in order.
//
// apply -> watch
type Committed struct {
	Effects *Effects
	Applied uint64
	// Spent, unless it is nil, takes the effects back from a receiver that has done with
	// them, on any goroutine; Machine.Recycle may then have their memory used again.
	Spent func(*Effects)
}

// Done gives the effects back, which the receiver must not use after it.
func (c *Committed) Done() {
	if c.Spent != nil {
		c.Spent(c.Effects)
	}
}
