package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/snapfile"
)

// rich is a machine with rows in every table.
func rich(t *testing.T) *script {
	t.Helper()
	s := newScript()
	for _, line := range []string{
		"config protected_prefixes=keep/ lease_ttl_min_ms=100ms",
		"put ancient 1", "put keep/a 1", "put keep/a 2 meta=m:1 type=json", "put gone 1", "delete gone", "put old 1", "put moved 1",
		"compact 7", "put moved 2", "put keep/a 3", "delete keep/a",
		"grant 1h alias=7 meta=who:me", "put leased 1 lease=1", "keep_alive 1", "put short 1 ttl=1h",
		"open_session 1h", "put s 1 session=1 n=1", "put s 2 prev session=1 n=2", "put s 3 lease=404 session=1 n=3 ack=1",
		"put i 1 idem=one", "txn idem=two\n then put i 2\n then get i\n then delete prefix=i prev\n then touch old 1h", "resolve three fence",
		"open_cursor c lease=1 after=7", "report 2 lease=1 after=8",
		"create_index i prefix=keep field=f", "step_index i", "create_index j field=f",
		"wait 1s", "tick", "put k 1", "wait 1s", "tick",
	} {
		s.run(line)
	}
	s.check(t)
	return s
}

func snapshotOf(t *testing.T, m *state.Machine) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.View().Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func rowsOf(t *testing.T, file []byte) (rows []*messages.SnapshotRow) {
	t.Helper()
	r, err := snapfile.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		row, err := r.Next()
		if err == io.EOF {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
}

// loadRows loads a whole and undamaged file of these rows.
func loadRows(rows []*messages.SnapshotRow) (*state.Machine, error) {
	var b bytes.Buffer
	w, err := snapfile.NewWriter(&b)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if err := w.Row(row); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return state.Load(&b)
}

// TestSnapshotHoldsEveryTable: a loaded machine goes on exactly like the one that was
// saved.
func TestSnapshotHoldsEveryTable(t *testing.T) {
	s := rich(t)
	tables := map[string]bool{}
	for _, row := range rowsOf(t, snapshotOf(t, s.machine)) {
		tables[fmt.Sprintf("%T", row.Row)] = true
	}
	if len(tables) != 11 {
		t.Errorf("rows of %d tables, want 11: %v", len(tables), tables)
	}
	other := rich(t)
	other.must(t, "reload", "equal")
	for _, line := range []string{
		"put s 3 session=1 n=3", "put s 4 session=1 n=4 ack=2", "put i 1 idem=one", "put i 1 idem=three", "grant 1s alias=7", "grant 1s",
		"open_session 1s", "info 1", "info alias=7", "get keep/a rev=2", "history keep/a from=2", "step_index j", "lookup i", "cursors", "compact 99",
		"compact 15", "wait 1h", "due", "sweep_leases", "tick", "status", "leases anonymous", "indexes", "changes prefix= after=12 prev",
	} {
		want := s.run(line)
		other.must(t, line, want)
		if s.machine.Digest() != other.machine.Digest() {
			t.Fatalf("%s: digests differ", line)
		}
	}
}

// TestSavingTwiceIsTheSame: a snapshot of a loaded machine is the same file.
func TestSavingTwiceIsTheSame(t *testing.T) {
	file := snapshotOf(t, rich(t).machine)
	m, err := state.Load(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(snapshotOf(t, m), file) {
		t.Fatal("another file")
	}
}

// TestDamagedSnapshotIsRefused: of a file that was cut or altered nothing is loaded,
// and the error says where it went wrong.
func TestDamagedSnapshotIsRefused(t *testing.T) {
	file := snapshotOf(t, rich(t).machine)
	for n := 0; n < len(file); n += 7 {
		m, err := state.Load(bytes.NewReader(file[:n]))
		var at *snapfile.Error
		if err == nil || m != nil || !errors.As(err, &at) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		altered := bytes.Clone(file)
		altered[n] ^= 0x10
		if m, err := state.Load(bytes.NewReader(altered)); err == nil || m != nil {
			t.Fatalf("altered at %d: loaded", n)
		}
	}
}

// untold are fields that a snapshot may change in without anybody noticing: where in
// the log it was taken, and texts for people.
var untold = map[protoreflect.FullName]bool{
	"concord.v1.SnapshotHeader.applied_index": true,
	"concord.v1.ErrorDetail.message":          true,
	"concord.v1.RequestError.message":         true,
}

// TestEveryFieldIsPartOfTheState: a snapshot whose rows were altered in any one
// field, or lack a row, or have one twice, is refused: by a rule or by the digest.
func TestEveryFieldIsPartOfTheState(t *testing.T) {
	rows := rowsOf(t, snapshotOf(t, rich(t).machine))
	if _, err := loadRows(rows); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, rows []*messages.SnapshotRow) {
		t.Helper()
		if m, err := loadRows(rows); err == nil {
			t.Errorf("%s: loaded as %v", what, m)
		}
	}
	changed := 0
	for i, row := range rows {
		with := func(r ...*messages.SnapshotRow) []*messages.SnapshotRow {
			return append(append(append([]*messages.SnapshotRow{}, rows[:i]...), r...), rows[i+1:]...)
		}
		refused(fmt.Sprintf("without %v", row), with())
		refused(fmt.Sprintf("twice %v", row), with(row, row))
		alter(row.ProtoReflect(), "", func(path string) {
			changed++
			refused(fmt.Sprintf("altered %s in %v", path, row), with(proto.Clone(row).(*messages.SnapshotRow)))
		})
	}
	if changed < 240 {
		t.Errorf("only %d fields were altered", changed)
	}
}

// alter changes one field at a time, tells, and changes it back.
func alter(m protoreflect.Message, path string, tell func(path string)) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := path + "." + string(fd.Name())
		if untold[fd.FullName()] {
			return true
		}
		switch {
		case fd.IsList():
			list := v.List()
			for i := range list.Len() {
				if fd.Message() != nil {
					alter(list.Get(i).Message(), fmt.Sprintf("%s[%d]", at, i), tell)
				}
			}
		case fd.Message() != nil:
			alter(v.Message(), at, tell)
		default:
			m.Set(fd, another(fd, v))
			tell(at)
			m.Set(fd, v)
		}
		return true
	})
}

func another(fd protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!v.Bool())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(v.String() + "x")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(append(bytes.Clone(v.Bytes()), 'x'))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(v.Enum()%3 + 1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(v.Int() + 1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(v.Uint()) + 1)
	default:
		return protoreflect.ValueOfUint64(v.Uint() + 1)
	}
}

// TestLargeSessionTakesSeveralRows: answers of many megabytes do not make one row.
func TestLargeSessionTakesSeveralRows(t *testing.T) {
	s := newScript()
	s.do(t, "open_session 1h")
	for n := 1; n <= 12; n++ {
		s.do(t, fmt.Sprintf("put k @1000000 prev session=1 n=%d", n))
	}
	sessions := 0
	for _, row := range rowsOf(t, snapshotOf(t, s.machine)) {
		if row.GetSession() != nil {
			sessions++
		}
	}
	if sessions < 3 {
		t.Errorf("%d rows", sessions)
	}
	s.must(t, "reload", "equal")
	if got := s.run("put k @1000000 prev session=1 n=7"); !strings.HasSuffix(got, "replayed") {
		t.Error(got)
	}
	// And a client that acknowledges nothing is stopped before it fills the replicas.
	for n := 13; n <= 40; n++ {
		if got := s.run(fmt.Sprintf("put k @1000000 prev session=1 n=%d", n)); strings.HasPrefix(got, "error overloaded") {
			return
		}
	}
	t.Error("no limit on the bytes of answers")
}

func v1File(t *testing.T, takenAt int64, rows ...*messages.SnapshotV1Row) io.Reader {
	t.Helper()
	var b bytes.Buffer
	if _, err := protodelim.MarshalTo(&b, &messages.SnapshotV1Header{SchemaVersion: 1, TakenAtUnixMs: takenAt}); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if _, err := protodelim.MarshalTo(&b, row); err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

// TestImport: version 1 rows become records at the restore revision; what expires
// becomes a key with TTL, what has expired is dropped, and there is no history.
func TestImport(t *testing.T) {
	const taken = 1_700_000_000_000
	m, err := state.Import(v1File(t, taken,
		&messages.SnapshotV1Row{Key: []byte("z"), Value: []byte("last")},
		&messages.SnapshotV1Row{Key: []byte("a"), Value: []byte("first")},
		&messages.SnapshotV1Row{Key: []byte("soon"), Value: []byte("1"), ExpiresAtUnixMs: taken + 5000},
		&messages.SnapshotV1Row{Key: []byte("past"), Value: []byte("1"), ExpiresAtUnixMs: taken},
	), state.ImportOptions{ClusterID: []byte("cluster"), Incarnation: 1, Revision: 1000})
	if err != nil {
		t.Fatal(err)
	}
	s := newScript()
	s.machine, s.index = m, 0
	s.must(t, "claim", "rev 1000 epoch 1 clock 0s")
	s.must(t, "list prefix=", "a=first @1000 v1; soon=1 @1000 v1 lease=1 ttl=5s; z=last @1000 v1")
	s.must(t, "revision", "rev 1000 compacted 1000")
	s.must(t, "changes prefix= after=999", "error compacted field=after compacted=1000")
	s.must(t, "changes prefix= after=1000", "nothing next 1000")
	s.must(t, "put a second", "rev 1001")
	s.must(t, "history a", "1000.0 written a=first v1; 1001.0 written a=second v2")
	s.must(t, "wait 5s", "")
	s.must(t, "sweep_leases", "rev 1002 expired 1 skipped 0 deleted 1")
	s.must(t, "grant 999ms", "error invalid_argument field=ttl_ms limit=1000")
	s.check(t)
	s.must(t, "reload", "equal")

	twice := v1File(t, taken, &messages.SnapshotV1Row{Key: []byte("a")}, &messages.SnapshotV1Row{Key: []byte("a")})
	if _, err := state.Import(twice, state.ImportOptions{ClusterID: []byte("c"), Incarnation: 1}); err == nil {
		t.Error("a key twice was taken")
	}
	if _, err := state.Import(v1File(t, taken), state.ImportOptions{}); err == nil {
		t.Error("a cluster without an id was made")
	}
}

// TestReincarnate: a restored cluster hands out nothing that a lost timeline may have
// handed out, and ends what clients of the old one held.
func TestReincarnate(t *testing.T) {
	s := rich(t)
	backup := s.machine.Revision()
	if at := state.RestoreTimeMs(state.RestoreFloor(5, 1_800_000_000)); at != 1_800_000_000_000 {
		t.Errorf("the floor tells the time %d", at)
	}
	if at := state.RestoreTimeMs(1_000_000); at != 0 {
		t.Errorf("a floor that was given tells the time %d", at)
	}
	floor := state.RestoreFloor(backup, 1_800_000_000)
	if floor != 1_800_000_000<<20 || state.RestoreFloor(backup, 0) != backup+1<<40 {
		t.Fatalf("floor %d", floor)
	}
	for _, bad := range []struct{ incarnation, floor uint64 }{{0, floor}, {1, floor}, {2, backup}, {2, 1 << 63}} {
		if err := s.machine.Reincarnate(bad.incarnation, bad.floor); err == nil {
			t.Errorf("incarnation %d from %d was taken", bad.incarnation, bad.floor)
		}
	}
	before := s.run("list prefix=")
	if err := s.machine.Reincarnate(2, floor); err != nil {
		t.Fatal(err)
	}
	s.index = 0
	s.check(t)
	s.must(t, "list prefix=", before)
	s.must(t, "revision", fmt.Sprintf("rev %d compacted %d", floor, floor))
	if got := s.run("put k 1"); got != "error stale_clock" {
		t.Errorf("somebody owns the clock: %s", got)
	}
	s.do(t, "claim")
	// Clients come only after the leftovers are gone.
	for {
		commands := s.machine.View().Leftovers(floor, 1)
		if len(commands) == 0 {
			break
		}
		if r := s.apply(parseWords("x"), commands[0]); r.Error != nil {
			t.Fatal(r)
		}
	}
	s.must(t, "cursors", "nothing")
	if got := s.run("leases anonymous"); strings.Contains(got, "lease 1 ") || !strings.Contains(got, "anonymous") {
		t.Errorf("leases: %s", got)
	}
	if got := s.run("grant 1s"); !strings.Contains(got, fmt.Sprintf("lease %d ", floor)) {
		t.Error(got)
	}
	if got := s.run("open_session 1s"); !strings.Contains(got, fmt.Sprintf("session %d ", floor)) {
		t.Error(got)
	}
	if left := s.machine.View().Leftovers(floor, 10); len(left) != 0 {
		t.Errorf("the new incarnation's own leases are leftovers: %v", left)
	}
	s.check(t)
	s.must(t, "reload", "equal")
}
