package node

import (
	"context"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/state"
)

// WithLog puts faults between a node's replica and its log.
func WithLog(cfg Config, wrap func(consensus.Log) consensus.Log) Config {
	cfg.Seams = &Seams{OpenLog: func(a consensus.Applier, l consensus.Listener) (consensus.Log, error) {
		c, err := cfg.withDefaults()
		if err != nil {
			return nil, err
		}
		d, err := c.dragonboat()
		if err != nil {
			return nil, err
		}
		log, err := consensus.OpenDragonboat(d, a, l)
		if err != nil {
			return nil, err
		}
		return wrap(log), nil
	}}
	return cfg
}

// Break makes one of the node's actors panic.
func (n *Node) Break(actor string) { n.system.Root.Send(n.system.NewLocalPID(actor), "not a message") }

// View is the state as of now.
func (n *Node) View() (*state.View, error) { return n.view(context.Background()) }

// Actors returns how many actors there are, the library's own included.
func (n *Node) Actors() int {
	count := 0
	for _, m := range n.system.ProcessRegistry.LocalPIDs.LocalPIDs {
		count += m.Count()
	}
	return count
}

// Watches and connections, as the metrics have them.
func (n *Node) Open() (watches, connections int64) {
	return n.facts.watches.Load(), n.facts.connections.Load()
}
