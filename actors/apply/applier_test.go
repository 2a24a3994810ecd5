package apply

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type quiet struct{}

func (quiet) Applied(int, *state.Effects, Gauges)                {}
func (quiet) Configured([]byte, uint64, *messages.ClusterConfig) {}
func (quiet) Authorized(*auth.Table)                             {}
func (quiet) Applying()                                          {}
func (quiet) Answered()                                          {}
func (quiet) Installed(Gauges)                                   {}

// stage is a real apply actor; the other actors swallow what they get.
func stage(t testing.TB, halted <-chan struct{}) (*actor.ActorSystem, *actor.PID, *Applier) {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
	sink := system.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
	pid := system.Root.Spawn(Props(Config{Replica: sink, Expiry: sink, Watch: sink, Telemetry: quiet{}}))
	t.Cleanup(func() {
		for _, p := range []*actor.PID{pid, sink} {
			if err := system.Root.StopFuture(p).Wait(); err != nil {
				t.Error(err)
			}
		}
		system.Shutdown()
	})
	return system, pid, NewApplier(system, pid, halted)
}

func digest(t testing.TB, system *actor.ActorSystem, pid *actor.PID) uint64 {
	t.Helper()
	got, err := system.Root.RequestFuture(pid, &state.GetView{}, 10*time.Second).Result()
	if err != nil {
		t.Fatal(err)
	}
	return got.(*state.GotView).View.Digest()
}

func TestApplierSavesAndRestores(t *testing.T) {
	system, pid, a := stage(t, nil)
	r := newRig(t) // makes entries
	a.Apply([]consensus.Entry{r.entry(0, claim(0))})
	r.epoch = 1
	batch := []consensus.Entry{r.entry(1, bootstrap()), r.entry(2, put("a"), put("b"))}
	a.Apply(batch)
	if len(batch[1].Results) != 2 || batch[1].Results[1].GetRevision() != 2 {
		t.Fatalf("results %v", batch[1].Results)
	}
	saved, atSave := a.Freeze(), digest(t, system, pid)
	a.Apply([]consensus.Entry{r.entry(3, put("c"))}) // goes on while it is saved
	var file bytes.Buffer
	if err := saved.Save(&file, nil); err != nil {
		t.Fatal(err)
	}
	system2, pid2, b := stage(t, nil)
	if err := b.Restore(batch[1].Index, bytes.NewReader(file.Bytes())); err != nil {
		t.Fatal(err)
	}
	if got := digest(t, system2, pid2); got != atSave || got == digest(t, system, pid) {
		t.Errorf("restored digest %x, saved at %x", got, atSave)
	}
	if err := b.Restore(batch[1].Index, bytes.NewReader(file.Bytes()[:file.Len()/2])); err == nil {
		t.Error("a torn snapshot was restored")
	}
	stopped := make(chan struct{})
	close(stopped)
	if err := a.Freeze().Save(&file, stopped); !errors.Is(err, errStopped) {
		t.Errorf("a stopped save: %v", err)
	}
}

// TestApplierOfAFailedNode: the log is let go when the actor will never answer.
func TestApplierOfAFailedNode(t *testing.T) {
	halted := make(chan struct{})
	close(halted)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
	defer system.Shutdown()
	mute := system.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
	a := NewApplier(system, mute, halted)
	batch := []consensus.Entry{{Index: 1}}
	if a.Apply(batch); batch[0].Results != nil {
		t.Error("results out of nothing")
	}
	if err := a.Freeze().Save(&bytes.Buffer{}, nil); !errors.Is(err, errHalted) {
		t.Errorf("a snapshot of a failed node: %v", err)
	}
	if err := system.Root.StopFuture(mute).Wait(); err != nil {
		t.Error(err)
	}
}
