package etcd

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/concord-kv/concord/messages"
)

// watchStream is the watches of one gRPC stream. They run on connections to sessions of
// their own, opened as they are needed. What is to be sent waits in a queue that the
// watches' credit bounds: it is returned when the client has taken the events.
type watchStream struct {
	server *Server
	ctx    context.Context // of the stream
	failed chan error      // the stream ends with it
	wake   chan struct{}   // there is something in the queue

	mu     sync.Mutex
	conns  []*watchConn
	byID   map[int64]*watcher
	nextID int64
	queue  []outgoing
	// asked: the client waits to be told how far all its watches are.
	asked bool
	over  bool
}

// watchConn is one connection, and its watches by our ids.
type watchConn struct {
	conn    *conn
	watches map[uint64]*watcher
	lastID  uint64
	full    bool // it was refused one more
}

// watcher is one watch. The stream's lock guards what changes.
type watcher struct {
	id                       int64
	selector                 *messages.Selector
	types                    []messages.EventType
	mute                     bool // its filters leave nothing
	prevKV, fragment, notify bool

	conn  *watchConn
	ours  uint64
	at    uint64 // everything up to this revision of ours was delivered
	held  bool   // the client has not been told that it exists
	early []*messages.WatchBatch
	part  []*messages.Event // of a revision that is not complete
	// What has been taken and not been returned as credit.
	owedEvents int
	owedBytes  int64
	// answering: it was asked how far it is, for all of them; idle: for itself.
	answering, idle, busy bool
}

func newWatchStream(ctx context.Context, s *Server) *watchStream {
	return &watchStream{server: s, ctx: ctx, failed: make(chan error, 1), wake: make(chan struct{}, 1), byID: map[int64]*watcher{}}
}

// add gives a watch its id: the one asked for, or the next that is free for 0.
func (ws *watchStream) add(w *watcher, id int64) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if id == 0 {
		for ws.byID[ws.nextID] != nil {
			ws.nextID++
		}
		id = ws.nextID
		ws.nextID++
	} else if ws.byID[id] != nil {
		return false
	}
	w.id = id
	ws.byID[id] = w
	return true
}

func (ws *watchStream) remove(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.removeLocked(w)
}

func (ws *watchStream) removeLocked(w *watcher) {
	if ws.byID[w.id] == w {
		delete(ws.byID, w.id)
	}
	if w.conn != nil {
		delete(w.conn.watches, w.ours)
	}
	ws.answerProgress()
}

// start starts a watch on a connection that takes it: from a revision of ours, 0 for now,
// or after a position.
func (ws *watchStream) start(ctx context.Context, w *watcher, from uint64, after *messages.Position) (*messages.WatchStarted, error) {
	for {
		c, err := ws.connFor(ctx)
		if err != nil {
			return nil, err
		}
		ws.mu.Lock()
		c.lastID++
		w.conn, w.ours, w.owedEvents, w.owedBytes = c, c.lastID, 0, 0
		c.watches[w.ours] = w
		others := len(c.watches) > 1
		ws.mu.Unlock()
		r, err := c.conn.do(ctx, &messages.Operation{Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{
			WatchId: w.ours, Selector: w.selector, FromRevision: from, After: after, PrevKv: w.prevKV, Types: w.types,
			ProgressMs: messages.WatchProgressMsMax,
		}}})
		if err == nil {
			return r.GetWatch(), nil
		}
		ws.mu.Lock()
		delete(c.watches, w.ours)
		c.full = c.full || refused(err, messages.Code_CODE_WATCH_LIMIT)
		ws.mu.Unlock()
		if !refused(err, messages.Code_CODE_WATCH_LIMIT) || !others {
			return nil, err
		}
	}
}

// connFor returns a connection with room for another watch.
func (ws *watchStream) connFor(ctx context.Context) (*watchConn, error) {
	ws.mu.Lock()
	for _, c := range ws.conns {
		if !c.full && len(c.watches) < messages.WatchersPerClientDefault {
			ws.mu.Unlock()
			return c, nil
		}
	}
	ws.mu.Unlock()
	c := &watchConn{watches: map[uint64]*watcher{}}
	conn, err := ws.server.sessions.open(ctx, clientOf(ctx), func(m *messages.ServerMessage) { ws.delivered(c, m) })
	if err != nil {
		return nil, err
	}
	c.conn = conn
	go func() {
		<-conn.done
		ws.fail(conn.failure())
	}()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.over {
		conn.close()
		return nil, context.Canceled
	}
	ws.conns = append(ws.conns, c)
	return c, nil
}

// fail ends the stream.
func (ws *watchStream) fail(err error) {
	select {
	case ws.failed <- err:
	default: // it is ending already
	}
}

// close gives up every watch.
func (ws *watchStream) close() {
	ws.mu.Lock()
	ws.over = true
	conns := ws.conns
	ws.mu.Unlock()
	for _, c := range conns {
		c.conn.close()
	}
}

// created tells the client that a watch lives, and then what came before it was told.
func (ws *watchStream) created(w *watcher, started *messages.WatchStarted, first []*messages.Event) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	current := started.GetCurrentRevision()
	w.at = max(w.at, started.GetFromRevision(), 1) - 1
	ws.push(outgoing{response: &pb.WatchResponse{Header: ws.server.header(current), WatchId: w.id, Created: true}})
	if len(first) > 0 {
		ws.push(ws.eventsOf(w, first, current))
	}
	w.held = false
	early := w.early
	w.early = nil
	for _, b := range early {
		ws.batch(w, b, nil)
	}
}

// refuse tells the client that a watch cannot be.
func (ws *watchStream) refuse(reason string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.push(outgoing{response: &pb.WatchResponse{
		Header: ws.server.header(ws.server.cfg.Facts().Revision), WatchId: noWatch, Created: true, Canceled: true, CancelReason: reason,
	}})
}

// cancel ends a watch that the client does not want any more.
func (ws *watchStream) cancel(id int64) {
	ws.mu.Lock()
	w := ws.byID[id]
	if w == nil {
		ws.mu.Unlock()
		return
	}
	c, ours := w.conn, w.ours
	ws.removeLocked(w)
	ws.push(outgoing{response: &pb.WatchResponse{Header: ws.server.header(ws.server.cfg.Facts().Revision), WatchId: id, Canceled: true}})
	ws.mu.Unlock()
	c.conn.tell(&messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: ours}}})
}

// endCompacted tells the client that a watch is over because history is gone.
func (ws *watchStream) endCompacted(w *watcher, c uint64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.removeLocked(w)
	ws.push(outgoing{response: &pb.WatchResponse{
		Header: ws.server.bareHeader(), WatchId: w.id, Canceled: true, CompactRevision: outRevision(c),
	}})
}
