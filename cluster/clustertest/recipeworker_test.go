package clustertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/election"
	"github.com/concord-kv/concord/actors/client/fence"
	"github.com/concord-kv/concord/actors/client/flight"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/mutex"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

const workerEnv = "CONCORD_RECIPE_WORKER"

// TestMain runs this binary as one process that uses a recipe, when the environment says
// so: what befalls processes can only be tried on processes.
func TestMain(m *testing.M) {
	text := os.Getenv(workerEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	w := &process{in: bufio.NewScanner(os.Stdin)}
	if err := json.Unmarshal([]byte(text), &w.spec); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	if err := w.run(); err != nil {
		w.say("failed %v", err)
		os.Exit(1)
	}
}

// processSpec is what such a process shall do. It is told more on its standard input, and
// tells on its standard output, a line for each thing.
type processSpec struct {
	Endpoints []string
	Recipe    string // hold, handover, elect, fly
	Subject   string
	TTL       time.Duration
	Rounds    int
	Dir       string // shared by all: what the machine itself sees
}

type process struct {
	spec processSpec
	in   *bufio.Scanner
	out  sync.Mutex

	client  *client.Client
	session *session.Session
	lists   atomic.Int64 // list requests that were sent
}

func (p *process) say(format string, args ...any) {
	p.out.Lock()
	defer p.out.Unlock()
	fmt.Printf(format+"\n", args...)
}

// hear waits for a line; false at the end of the input.
func (p *process) hear() (string, bool) {
	ok := p.in.Scan()
	return p.in.Text(), ok
}

func (p *process) run() (err error) {
	wire := recipetest.NewWire(transport.NewGRPCDialer(transport.DialerOptions{}))
	wire.OnSend(p.sent)
	p.client, err = client.New(client.Config{Endpoints: p.spec.Endpoints, Dialer: wire, Name: p.spec.Recipe, Timeout: time.Minute})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if p.session, err = session.Open(ctx, p.client, session.Options{TTL: p.spec.TTL}); err != nil {
		return err
	}
	switch p.spec.Recipe {
	case "hold":
		err = p.hold(ctx)
	case "handover":
		err = p.handover(ctx)
	case "elect":
		err = p.elect(ctx)
	case "fly":
		err = p.fly(ctx)
	}
	return errors.Join(err, p.session.Close(ctx), p.client.Close())
}

// sent looks at what the client asks for.
func (p *process) sent(m *messages.ClientMessage) {
	for _, op := range m.GetFrame().GetOperations() {
		if op.GetQuery().GetList() != nil {
			p.lists.Add(1)
		}
		if w := op.GetWatch(); p.spec.Recipe == "fly" && strings.HasPrefix(string(w.GetSelector().GetKey()), "/concord/flight/") {
			p.say("joined")
		}
	}
}

// alone takes what the machine gives to one process at a time; it says so when another
// has it. The machine takes it back from a process that dies.
func (p *process) alone() (leave func()) {
	f, err := os.OpenFile(filepath.Join(p.spec.Dir, "alone"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		p.say("two: %v", err)
	}
	return func() { _ = f.Close() }
}

// note adds a line to a file that all processes share.
func (p *process) note(file, format string, args ...any) error {
	f, err := os.OpenFile(filepath.Join(p.spec.Dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, format+"\n", args...)
	return errors.Join(err, f.Close())
}

// hold locks once and does what it is told.
func (p *process) hold(ctx context.Context) error {
	m, err := mutex.New(p.session, p.spec.Subject)
	if err != nil {
		return err
	}
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	p.say("granted %d", h.Token())
	guard := fence.Key("/guard/" + p.spec.Subject)
	for line, ok := p.hear(); ok; line, ok = p.hear() {
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "err":
			p.say("err %v", errors.Is(h.Lease().Err(), lease.ErrLost))
		case "write":
			_, err := guard.Do(ctx, p.client, h.Token(), client.OpPut("/written/"+p.spec.Subject, []byte(rest), client.PutOptions{}))
			switch {
			case err == nil:
				p.say("wrote")
			case errors.Is(err, fence.ErrStale):
				p.say("stale")
			default:
				return err
			}
		case "unlock":
			p.say("unlocked %v", h.Unlock(ctx) == nil)
		case "end":
			return nil
		}
	}
	return nil
}

// handover locks and unlocks again and again.
func (p *process) handover(ctx context.Context) error {
	m, err := mutex.New(p.session, p.spec.Subject)
	if err != nil {
		return err
	}
	p.say("ready")
	p.hear()
	for range p.spec.Rounds {
		h, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		leave := p.alone()
		err = p.note("grants", "%d", h.Token())
		leave()
		if err := errors.Join(err, h.Unlock(ctx)); err != nil {
			return err
		}
	}
	p.say("done %d", p.lists.Load())
	return nil
}

// elect leads as often as it can, until it is told to resign.
func (p *process) elect(ctx context.Context) error {
	e, err := election.New(p.session, p.spec.Subject)
	if err != nil {
		return err
	}
	resign := make(chan struct{})
	go func() {
		p.hear()
		close(resign)
	}()
	term, err := e.Campaign(ctx, nil)
	if err != nil {
		return err
	}
	leave := p.alone()
	p.say("leads %d", term.Epoch())
	select {
	case <-term.Lease().Context().Done():
		leave()
		p.say("lost %v", context.Cause(term.Lease().Context()))
	case <-resign:
		leave()
		p.say("resigned %v", term.Resign(ctx) == nil)
	}
	return nil
}

// fly asks for a run, which takes until somebody writes the key /land.
func (p *process) fly(ctx context.Context) error {
	p.say("ready")
	p.hear()
	r, err := flight.New(p.session).Do(ctx, p.spec.Subject, func(ctx context.Context, run *flight.Run) ([]byte, error) {
		w, err := p.client.Watch(ctx, client.KeySelector("/land"), client.WatchOptions{From: 1})
		if err != nil {
			return nil, err
		}
		defer w.Close()
		if err := p.note("runs", "%d", run.Token()); err != nil {
			return nil, err
		}
		p.say("runs")
		if _, err := w.Next(ctx); err != nil {
			return nil, err
		}
		return []byte(run.Token().String()), nil
	})
	if err != nil {
		return err
	}
	p.say("value %s %v", r.Value, r.Joined)
	return nil
}
