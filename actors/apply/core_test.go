package apply

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/auth"
)

// rig plays the log, and writes down what the core decides.
type rig struct {
	t        testing.TB
	core     *core
	index    uint64
	epoch    uint64
	log      []string // what left the core, in order
	views    map[uint64]*state.View
	sweeps   int
	gauges   Gauges
	installs int
	commits  []*state.Committed
	configs  []*messages.ClusterConfig
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, views: map[uint64]*state.View{}}
	r.core = newCore(r, r)
	return r
}

func (r *rig) view(_ any, m *state.GotView) {
	r.log = append(r.log, fmt.Sprint("view ", m.RequestID))
	r.views[m.RequestID] = m.View
}
func (r *rig) committed(m *state.Committed) {
	r.log = append(r.log, fmt.Sprintf("committed %d..%d", m.Effects.FromRevision, m.Effects.ToRevision))
	r.commits = append(r.commits, m)
}
func (r *rig) installed(m *state.Installed) {
	r.log = append(r.log, fmt.Sprint("installed at ", m.View.Revision()))
}
func (r *rig) clockOwner(m *messages.ClockOwner) {
	r.log = append(r.log, fmt.Sprint("owner of epoch ", m.GetEpoch()))
}
func (r *rig) earliestDeadline(m *messages.EarliestDeadline) {
	r.log = append(r.log, fmt.Sprint("deadline ", m.GetDeadlineMs()))
}
func (r *rig) sweepSoon()                                { r.sweeps++ }
func (r *rig) Applied(_ int, _ *state.Effects, g Gauges) { r.gauges = g }
func (r *rig) Configured(_ []byte, _ uint64, c *messages.ClusterConfig) {
	r.configs = append(r.configs, c)
}
func (r *rig) Authorized(*auth.Table) {}
func (r *rig) Applying()              {}
func (r *rig) Answered()              {}
func (r *rig) Installed(g Gauges)     { r.gauges = g; r.installs++ }

func (r *rig) wantLog(want ...string) {
	r.t.Helper()
	if fmt.Sprint(r.log) != fmt.Sprint(want) {
		r.t.Errorf("left the core: %q, want %q", r.log, want)
	}
	r.log = nil
}

func claim(expected uint64) *messages.Command {
	return &messages.Command{Op: &messages.Command_ClaimClock{ClaimClock: &messages.ClaimClock{
		ExpectedEpoch: expected, ReplicaId: 1, Nonce: expected + 100,
	}}}
}

func bootstrap() *messages.Command {
	return &messages.Command{Op: &messages.Command_Bootstrap{Bootstrap: &messages.Bootstrap{
		ClusterId: []byte("test"), Incarnation: 1, Config: messages.DefaultClusterConfig(), ApplyVersion: messages.ApplyVersion,
	}}}
}

func put(key string) *messages.Command {
	return &messages.Command{Op: &messages.Command_Put{Put: &messages.Put{Key: []byte(key), Value: []byte("v")}}}
}

func grant(ttlMs int64) *messages.Command {
	return &messages.Command{Op: &messages.Command_GrantLease{GrantLease: &messages.GrantLease{TtlMs: ttlMs}}}
}

// entry encodes commands as the owner of the current epoch would.
func (r *rig) entry(stampMs int64, commands ...*messages.Command) consensus.Entry {
	r.t.Helper()
	r.index += 2 // the log has gaps
	e := &messages.Entry{Epoch: r.epoch, ReplicaId: 1, Nonce: r.epoch + 99, Commands: commands}
	for _, c := range commands {
		if c.GetClaimClock() == nil {
			c.StampMs = stampMs
		}
	}
	b, err := proto.Marshal(e)
	if err != nil {
		r.t.Fatal(err)
	}
	return consensus.Entry{Index: r.index, Payload: b}
}

// apply applies entries as one batch and fails on a refusal.
func (r *rig) apply(entries ...consensus.Entry) {
	r.t.Helper()
	r.core.apply(entries)
	r.core.after(len(entries))
	for _, e := range entries {
		for _, res := range e.Results {
			if res.GetError() != nil {
				r.t.Fatalf("entry %d: %v", e.Index, res.GetError())
			}
		}
	}
}

// begin makes a bootstrapped machine whose clock we own.
func (r *rig) begin() {
	r.t.Helper()
	r.apply(r.entry(0, claim(r.epoch)))
	r.epoch++
	r.apply(r.entry(1, bootstrap()))
	r.log = nil
}

func TestBatch(t *testing.T) {
	r := newRig(t)
	r.apply(r.entry(0, claim(0)))
	r.epoch = 1
	r.wantLog("owner of epoch 1")
	r.apply(r.entry(1, bootstrap()))
	r.wantLog()
	batch := []consensus.Entry{r.entry(10, put("a"), put("b")), r.entry(11, put("c"))}
	r.apply(batch...)
	if len(batch[0].Results) != 2 || batch[1].Results[0].GetRevision() != 3 {
		t.Errorf("results %v", batch)
	}
	r.wantLog("committed 0..3") // once a batch
	if n := len(r.commits[0].Effects.Events); n != 3 {
		t.Errorf("%d events", n)
	}
	if r.gauges.Revision != 3 || r.gauges.Keys != 3 || r.gauges.ClockMs != 11 {
		t.Errorf("gauges %+v", r.gauges)
	}
	r.apply(r.entry(12, grant(5_000)))
	r.wantLog() // nothing that a watch could see
}

func TestViews(t *testing.T) {
	r := newRig(t)
	r.begin()
	r.apply(r.entry(10, put("a")))
	r.core.getView(nil, &state.GetView{RequestID: 1})
	r.core.getView(nil, &state.GetView{RequestID: 2})
	if r.views[1] != r.views[2] {
		t.Error("two views of one batch")
	}
	r.core.getView(nil, &state.GetView{RequestID: 3, MinApplied: r.index + 3})
	r.log = nil
	r.apply(r.entry(11, put("b")))
	r.wantLog("committed 1..2")
	r.apply(r.entry(12, put("c")))
	r.wantLog("committed 2..3", "view 3")
	if r.views[1].Revision() != 1 || r.views[3].Revision() != 3 {
		t.Errorf("views at %d and %d", r.views[1].Revision(), r.views[3].Revision())
	}
}

func TestDeadlines(t *testing.T) {
	r := newRig(t)
	r.begin()
	r.apply(r.entry(1_000, grant(5_000)))
	r.wantLog() // nobody asked
	if m := r.core.due(&messages.DueLeases{RequestId: 7, ClockMs: 2_000, Limit: 10}); m.GetRequestId() != 7 || len(m.GetPairs()) != 0 || m.GetNextDeadlineMs() != 6_000 {
		t.Errorf("due %v", m)
	}
	r.apply(r.entry(2_000, grant(9_000)))
	r.wantLog()
	r.apply(r.entry(2_100, grant(2_000)))
	r.wantLog("deadline 4100")
	m := r.core.due(&messages.DueLeases{ClockMs: 6_000, Limit: 10})
	if len(m.GetPairs()) != 2 || m.GetPairs()[0].GetLeaseId() != 3 || m.GetPairs()[1].GetLeaseId() != 1 || m.GetNextDeadlineMs() != 11_000 {
		t.Errorf("due %v", m)
	}
}

// TestSweepInSteps: what compaction leaves is freed a bounded step at a time, also
// when no batch comes.
func TestSweepInSteps(t *testing.T) {
	r := newRig(t)
	r.begin()
	const writes = 3 * sweepBudget
	for i := range writes / 512 {
		var commands []*messages.Command
		for range 512 {
			commands = append(commands, put("k"))
		}
		r.apply(r.entry(int64(10+i), commands...))
	}
	r.apply(r.entry(1_000, &messages.Command{Op: &messages.Command_Compact{Compact: &messages.Compact{Revision: writes - 1}}}))
	steps := 1
	for r.sweeps > 0 {
		r.sweeps = 0
		r.core.sweep()
		if steps++; steps > 100 {
			t.Fatal("the sweep does not end")
		}
	}
	if steps < 3 {
		t.Errorf("swept in %d steps: each is bounded", steps)
	}
}

func TestInstall(t *testing.T) {
	r := newRig(t)
	r.begin()
	r.apply(r.entry(10, put("a")))
	other := newRig(t)
	other.core.install(r.core.machine)
	other.wantLog("installed at 1", "owner of epoch 1")
	if other.installs != 1 || other.gauges.Revision != 1 {
		t.Errorf("gauges %+v after %d installs", other.gauges, other.installs)
	}
}

func TestBrokenEntryPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an entry that does not decode was applied")
		}
	}()
	r := newRig(t)
	r.core.apply([]consensus.Entry{{Index: 3, Payload: []byte{0xff}}})
}

// TestConfigIsToldBeforeItsAnswer: a session that checks requests early must know a
// new setting by the time its setter has the answer; it was up to a second late.
func TestConfigIsToldBeforeItsAnswer(t *testing.T) {
	r := newRig(t)
	r.apply(r.entry(0, claim(0)))
	if r.epoch = 1; len(r.configs) != 0 {
		t.Fatal("told before the cluster's life began")
	}
	r.apply(r.entry(1, bootstrap()))
	set := &messages.Command{Op: &messages.Command_SetConfig{SetConfig: &messages.SetConfig{
		Config: &messages.ClusterConfig{LeaseTtlMinMs: 100}, Fields: []string{"lease_ttl_min_ms"},
	}}}
	// Only apply, not what comes after the answer.
	r.core.apply([]consensus.Entry{r.entry(2, set, put("a"))})
	if n := len(r.configs); n != 2 || r.configs[1].GetLeaseTtlMinMs() != 100 {
		t.Errorf("told %v", r.configs)
	}
}
