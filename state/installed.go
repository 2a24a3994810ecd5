package state

// Installed tells that the machine was replaced by one from a snapshot, of which
// View is a view. It stands in the order of Committed: what came before it was
// before the snapshot.
//
// apply -> watch
type Installed struct {
	View *View
}
