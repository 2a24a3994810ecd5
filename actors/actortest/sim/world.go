package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/concord-kv/concord/consensus/memlog"
	"github.com/concord-kv/concord/messages"
)

// Options of a World. Zero values stand for the defaults named.
type Options struct {
	// Seed decides everything random.
	Seed uint64
	// Nodes of the cluster. Default 3.
	Nodes int
	// Tick is the step of time: of the log's timers and of the nodes' clocks. Default
	// 50 ms.
	Tick time.Duration
	// Batch bounds the entries in one Apply. Default 64; 1 compares digests at every
	// index.
	Batch int
	// Config of the cluster. Default messages.DefaultClusterConfig.
	Config *messages.ClusterConfig
	// GRPC lets clients speak gRPC to nodes, over the same network; else the plain
	// codec.
	GRPC bool
	// Trace gets what happens, as text. Default: nobody.
	Trace io.Writer
	// Calm lets everything that can happen do so before time goes on; else the seed
	// leaves some for later.
	Calm bool
	// Turns has every call of a client wait for its turn, for clients that do many things
	// at a time.
	Turns bool
}

// Failure is a broken promise.
type Failure struct {
	// Invariant is its name: I1 to I8, P1 to P9, watch-gap-free and so on.
	Invariant string
	Detail    string
	// Step and Time say when it was seen.
	Step int
	Time time.Duration
}

// Error implements error.
func (f *Failure) Error() string {
	return fmt.Sprintf("%s broken at step %d, %v: %s", f.Invariant, f.Step, f.Time, f.Detail)
}

// World is a cluster, its clients and their environment. All of it belongs to the
// goroutine that made it, inside a bubble of testing/synctest.
type World struct {
	opts       Options
	rng        *rand.Rand
	now        time.Duration
	shared     atomic.Int64 // now, for goroutines of clients that wake by themselves
	steps      int
	log        *memlog.Cluster
	network    network
	nodes      []*Node
	clients    []*Client
	truth      truth
	leases     leaseModel
	recipes    recipes
	watchStats WatchStats
	history    history

	choices []choice
	logIdle bool
	logDead bool          // it has panicked
	woke    bool          // the log has answered a goroutine
	holes   map[path]bool // paths that swallow bytes
	last    *Op           // of the last client line

	mu      sync.Mutex
	failure *Failure
	stuck   bool // something could not be closed
}

// path is one direction between a client and a node.
type path struct {
	client string
	node   uint64
	up     bool // from client to node
}

// New returns a world whose nodes are down.
func New(opts Options) *World {
	if opts.Nodes == 0 {
		opts.Nodes = 3
	}
	if opts.Tick == 0 {
		opts.Tick = 50 * time.Millisecond
	}
	if opts.Batch == 0 {
		opts.Batch = 64
	}
	w := &World{opts: opts, rng: rand.New(rand.NewPCG(opts.Seed, 1)), holes: map[path]bool{}}
	w.log = memlog.New(memlog.Config{
		Replicas: opts.Nodes, Tick: opts.Tick, ElectionTicks: 15, HeartbeatTicks: 3, ApplyBatchMax: opts.Batch, SnapshotKeep: 5,
	}, rand.New(rand.NewPCG(opts.Seed, 2)))
	w.network.prompt = opts.GRPC
	w.truth.init(w)
	w.leases.init(w)
	w.recipes.init(w)
	for id := range uint64(opts.Nodes) {
		w.addNode(id + 1)
	}
	return w
}

// mix is a hash of two numbers (splitmix64's finalizer).
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// failf notes a broken promise; the first counts.
func (w *World) failf(invariant, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = &Failure{Invariant: invariant, Detail: fmt.Sprintf(format, args...), Step: w.steps, Time: w.now}
	}
}

// Failure returns the first broken promise, nil while all are kept.
func (w *World) Failure() *Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

func (w *World) node(id uint64) *Node {
	if id == 0 || id > uint64(len(w.nodes)) {
		return nil
	}
	return w.nodes[id-1]
}

func (w *World) client(name string) *Client {
	for _, c := range w.clients {
		if c.name == name {
			return c
		}
	}
	return nil
}

// Leader returns the node that leads, 0 for none.
func (w *World) Leader() uint64 { return w.log.Leader() }

// Steps and Now say how far the world has come.
func (w *World) Steps() int { return w.steps }

// Now is the real time, which no node and no client can read.
func (w *World) Now() time.Duration { return w.now }
