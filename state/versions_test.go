package state_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/statetest"
)

// TestMixedVersions: two builds are fed one log. As long as it is at the version that
// both know they are equal after each entry, answers and digests, although the newer one has
// other rules for later; each reads the other's snapshots. At the raise the older one
// stops, with a message that says what to do, and does not go on by rules of its own.
func TestMixedVersions(t *testing.T) {
	const older = messages.ApplyVersion - 1
	entries := 400
	if testing.Short() {
		entries = 120
	}
	for seed := range uint64(4) {
		twin := statetest.NewTwin()
		g := &statetest.Generator{Source: seeded{rand.New(rand.NewPCG(seed, 1))}, Twin: twin, VersionMax: older}
		before, after := state.NewAt(older), state.New()
		index := uint64(0)
		feed := func(e *messages.Entry) {
			twin.Apply(proto.Clone(e).(*messages.Entry))
			index++
			a := before.Apply(index, proto.Clone(e).(*messages.Entry))
			b := after.Apply(index, proto.Clone(e).(*messages.Entry))
			for i := range a {
				if x, y := withoutText(a[i]), withoutText(b[i]); !proto.Equal(x, y) {
					t.Fatalf("seed %d, entry %d: the older build answers %v, the newer %v", seed, index, short{x}, short{y})
				}
			}
			if before.Digest() != after.Digest() {
				t.Fatalf("seed %d, entry %d: digests %x and %x", seed, index, before.Digest(), after.Digest())
			}
		}
		for _, e := range g.Begin() {
			feed(e)
		}
		for range entries {
			feed(g.Entry())
			if index%50 == 0 { // a rolling upgrade, and one back
				before, after = reloadAt(t, after, older), reloadAt(t, before, messages.ApplyVersion)
			}
		}

		epoch, replica, nonce := after.ClockOwner()
		raise := func() *messages.Entry {
			return &messages.Entry{Epoch: epoch, ReplicaId: replica, Nonce: nonce, Commands: []*messages.Command{
				{StampMs: after.ClockMs(), Op: &messages.Command_RaiseApplyVersion{RaiseApplyVersion: &messages.RaiseApplyVersion{Version: messages.ApplyVersion}}},
			}}
		}
		index++
		if r := after.Apply(index, raise())[0]; r.Error != nil {
			t.Fatal(r.Error)
		}
		want := fmt.Sprintf("the cluster applies by version %d and this build knows %d: install a newer one", messages.ApplyVersion, older)
		if got := panicOf(func() { before.Apply(index, raise()) }); !strings.Contains(got, want) {
			t.Fatalf("the older build said %q at the raise, want %q", got, want)
		}
		var file bytes.Buffer
		if err := after.View().Save(&file); err != nil {
			t.Fatal(err)
		}
		if _, err := state.LoadAt(&file, older); err == nil || !strings.Contains(err.Error(), "install a newer one") {
			t.Fatalf("the older build takes a snapshot from after the raise: %v", err)
		}
		// From here on the newer rules hold: a refusal names its field.
		index++
		r := after.Apply(index, &messages.Entry{Epoch: epoch, ReplicaId: replica, Nonce: nonce, Commands: []*messages.Command{
			{StampMs: after.ClockMs(), Op: &messages.Command_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: 1 << 50}}},
		}})[0]
		if r.GetError().GetField() != "lease_id" {
			t.Fatalf("after the raise: %v", r)
		}
	}
}

// TestVersion1ReadsWhatItKnows: options that came with version 2 do nothing before it,
// as in a build that does not know them, and operations that would stop such a build
// are refused.
func TestVersion1ReadsWhatItKnows(t *testing.T) {
	put := func(lease uint64) *messages.Put {
		return &messages.Put{Key: []byte("k"), Value: []byte("v"), LeaseId: lease, MoveLease: true}
	}
	txn := func(x *messages.Compare, then ...*messages.TxnOp) *messages.Command {
		return &messages.Command{Op: &messages.Command_Txn{Txn: &messages.Txn{Compares: []*messages.Compare{x}, Success: then}}}
	}
	for _, c := range []struct {
		name    string
		command *messages.Command
		v1, v2  messages.Code
	}{
		{"put", &messages.Command{Op: &messages.Command_Put{Put: put(2)}},
			messages.Code_CODE_LEASE_CONFLICT, messages.Code_CODE_OK},
		{"put_many", &messages.Command{Op: &messages.Command_PutMany{PutMany: &messages.PutMany{Puts: []*messages.Put{put(2)}}}},
			messages.Code_CODE_LEASE_CONFLICT, messages.Code_CODE_OK},
		{"transaction", txn(&messages.Compare{Key: []byte("k"), Operator: messages.CompareOperator_COMPARE_OPERATOR_EQUAL, Target: &messages.Compare_Exists{Exists: true}},
			&messages.TxnOp{Op: &messages.TxnOp_Put{Put: put(2)}}),
			messages.Code_CODE_LEASE_CONFLICT, messages.Code_CODE_OK},
		{"range", txn(&messages.Compare{Range: &messages.KeyRange{Start: []byte("a")}, Operator: messages.CompareOperator_COMPARE_OPERATOR_EQUAL, Target: &messages.Compare_Exists{Exists: true}}),
			messages.Code_CODE_INVALID_ARGUMENT, messages.Code_CODE_OK},
		{"order", txn(&messages.Compare{Key: []byte("k"), Ordered: true, Operator: messages.CompareOperator_COMPARE_OPERATOR_LESS,
			Target: &messages.Compare_Value{Value: &messages.Compare_NullableBytes{Value: []byte("w")}}}),
			messages.Code_CODE_INVALID_ARGUMENT, messages.Code_CODE_OK},
		{"exact", &messages.Command{Op: &messages.Command_Compact{Compact: &messages.Compact{Revision: 1, Exact: true}}},
			messages.Code_CODE_OK, messages.Code_CODE_COMPACTED},
		{"users", &messages.Command{Op: &messages.Command_ChangeAuth{ChangeAuth: &messages.ChangeAuth{Change: &messages.ChangeAuth_AddRole{
			AddRole: &messages.AddRole{Name: "r"}}}}},
			messages.Code_CODE_UNSUPPORTED, messages.Code_CODE_OK},
	} {
		for version, want := range map[uint32]messages.Code{1: c.v1, 2: c.v2} {
			s := &script{machine: state.New()}
			s.verbs = s.table()
			s.do(t, fmt.Sprintf("bootstrap version=%d", version))
			s.do(t, "claim")
			s.do(t, "grant 1h")
			s.do(t, "grant 1h")
			s.do(t, "put k u lease=1")
			s.do(t, "compact 1")
			sent := proto.CloneOf(c.command)
			r := s.apply(parse("x"), sent)
			if got := r.GetError().GetCode(); got != want {
				t.Errorf("%s at version %d: %v, want %v", c.name, version, r, want)
			}
			s.check(t)
		}
	}
}

// TestVersion1KeepsNoAudit: a build of version 1 does not see that a command wants an
// audit record, so none is kept before the raise.
func TestVersion1KeepsNoAudit(t *testing.T) {
	for version, want := range map[int]int{1: 0, 2: 1} {
		s := &script{machine: state.New()}
		s.verbs = s.table()
		s.do(t, fmt.Sprintf("bootstrap version=%d", version))
		s.do(t, "claim")
		r := s.apply(parse("x"), &messages.Command{
			Audit: &messages.AuditContext{Action: "compact"}, Op: &messages.Command_Compact{Compact: &messages.Compact{}},
		})
		if r.Error != nil {
			t.Fatal(r)
		}
		s.check(t)
		reply, err := s.machine.View().Query(&messages.Query{Query: &messages.Query_Audit{Audit: &messages.AuditRequest{}}}, state.Now{})
		if err != nil || len(reply.GetAudit().GetRecords()) != want {
			t.Errorf("version %d: %v %v, want %d records", version, reply, err, want)
		}
	}
}

// reloadAt is what a build that knows a version reads of another one's snapshot.
func reloadAt(t *testing.T, m *state.Machine, version uint32) *state.Machine {
	t.Helper()
	var file bytes.Buffer
	if err := m.View().Save(&file); err != nil {
		t.Fatal(err)
	}
	loaded, err := state.LoadAt(&file, version)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// panicOf returns what fn panics with, "" if it does not.
func panicOf(fn func()) (said string) {
	defer func() {
		if p := recover(); p != nil {
			said = fmt.Sprint(p)
		}
	}()
	fn()
	return ""
}
