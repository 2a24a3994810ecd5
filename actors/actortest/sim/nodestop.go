package sim

import (
	"testing/synctest"
	"time"

	"github.com/concord-kv/concord/actors/node"
)

// lookAfterNodes ends the processes that cannot go on: their disk is full, or they have
// learnt that they were removed.
func (w *World) lookAfterNodes() {
	for _, n := range w.nodes {
		if !n.up {
			continue
		}
		if err := w.log.Failed(n.id); err != nil {
			w.trace("n%d ends: %v", n.id, err)
			w.say("n%d ends: %v", n.id, err)
			n.crash()
			continue
		}
		select {
		case <-n.node.Removed():
			w.trace("n%d was removed", n.id)
			n.stop()
			n.removed = true
		default:
		}
	}
}

// crash is a loss of power. The actors of the dead node are stopped out of sight: that
// too must work, whatever they were doing.
func (n *Node) crash() {
	if !n.up {
		return
	}
	w := n.world
	w.watchStats.Moved += w.watchesAt(n.id)
	w.log.Crash(n.id)
	n.up, n.paused = false, false
	w.network.resetNode(n.id)
	b, l, dead := n.board, n.log, n.node
	n.board = nil
	l.detach()
	n.bury(b, l, dead)
}

// stop closes the node in order: clients are told.
func (n *Node) stop() {
	if !n.up {
		return
	}
	n.world.watchStats.Moved += n.world.watchesAt(n.id)
	b, l, dead := n.board, n.log, n.node
	n.bury(b, l, dead)
	n.up, n.paused, n.board = false, false, nil
	n.world.network.resetNode(n.id)
	synctest.Wait()
}

// bury stops a node's actors and waits for them.
func (n *Node) bury(b *board, l *nodeLog, dead *node.Node) {
	done := make(chan struct{})
	server := n.server
	n.server, n.listener = nil, nil
	go func() {
		_ = dead.Close()
		if server != nil {
			server.Stop()
		}
		close(done)
	}()
	for range buryMax {
		synctest.Wait()
		select {
		case <-done:
			b.mu.Lock()
			b.dead = true
			b.mu.Unlock()
			return
		default:
		}
		if !l.detached {
			l.serveAsk()
		}
		l.serveClose()
		moved := false
		for m := b.at(0); m != nil; m = b.at(0) {
			if !m.handle() {
				break
			}
			synctest.Wait()
			moved = true
		}
		if n.world.network.flush(n.id) {
			moved = true
		}
		if !moved {
			time.Sleep(10 * time.Millisecond) // the bubble's time: the node's own patience
		}
	}
	n.world.stuck = true
	n.world.failf("I8", "n%d does not stop", n.id)
}

const buryMax = 100_000
