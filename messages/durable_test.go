package messages

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// durable are the files whose messages live in logs and snapshots.
func durable() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{File_concord_v1_record_proto, File_concord_v1_command_proto, File_concord_v1_snapshot_proto, File_concord_v1_auth_proto}
}

// TestDurableTagsNeverChange holds every field of every DURABLE message to the
// number, type and name that testdata/durable_tags.txt gives it. New fields are
// added to the file by hand; a line that is there never changes.
func TestDurableTagsNeverChange(t *testing.T) {
	want, err := os.ReadFile("testdata/durable_tags.txt")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, line := range durableTags() {
		got[line] = true
	}
	known := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(want)), "\n") {
		known[line] = true
		if !got[line] {
			t.Errorf("a durable tag changed or went: %q", line)
		}
	}
	var fresh []string
	for line := range got {
		if !known[line] {
			fresh = append(fresh, line)
		}
	}
	sort.Strings(fresh)
	for _, line := range fresh {
		t.Errorf("new durable tag, add this line to testdata/durable_tags.txt:\n%s", line)
	}
}

func durableTags() []string {
	var lines []string
	var walk func(ms protoreflect.MessageDescriptors)
	enum := func(e protoreflect.EnumDescriptor) {
		for i := range e.Values().Len() {
			v := e.Values().Get(i)
			lines = append(lines, fmt.Sprintf("%s = %d", v.FullName(), v.Number()))
		}
	}
	walk = func(ms protoreflect.MessageDescriptors) {
		for i := range ms.Len() {
			m := ms.Get(i)
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				kind := f.Kind().String()
				if f.Message() != nil {
					kind = string(f.Message().FullName())
				}
				lines = append(lines, fmt.Sprintf("%s = %d %s %s", f.FullName(), f.Number(), f.Cardinality(), kind))
			}
			for j := range m.Enums().Len() {
				enum(m.Enums().Get(j))
			}
			walk(m.Messages())
		}
	}
	for _, file := range durable() {
		walk(file.Messages())
		for i := range file.Enums().Len() {
			enum(file.Enums().Get(i))
		}
	}
	sort.Strings(lines)
	return lines
}

// TestDurableGoldenBytes decodes bytes that an earlier build wrote and compares
// them with what they meant then. The files are never rewritten.
func TestDurableGoldenBytes(t *testing.T) {
	paths, err := filepath.Glob("testdata/golden/*.hex")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < 3 {
		t.Fatalf("only %d golden files", len(paths))
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".hex")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
			if err != nil {
				t.Fatal(err)
			}
			meaning, err := os.ReadFile(strings.TrimSuffix(path, ".hex") + ".txtpb")
			if err != nil {
				t.Fatal(err)
			}
			got, want := newDurable(t, name), newDurable(t, name)
			if err := proto.Unmarshal(raw, got); err != nil {
				t.Fatal(err)
			}
			if err := prototext.Unmarshal(meaning, want); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(got, want) {
				t.Errorf("the bytes now mean\n%s", prototext.Format(got))
			}
			again, err := proto.MarshalOptions{Deterministic: true}.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(raw, again) {
				t.Errorf("encodes as\n%x\nnot as\n%x", again, raw)
			}
		})
	}
}

func newDurable(t *testing.T, name string) proto.Message {
	switch name {
	case "entry":
		return &Entry{}
	case "results":
		// Results of one entry, wrapped so that one file holds every kind.
		return &SnapshotSession{}
	case "snapshot_row":
		return &SnapshotRow{}
	}
	t.Fatalf("no durable message for %s", name)
	return nil
}

// TestWriteGoldenBytes writes golden files that do not exist yet.
func TestWriteGoldenBytes(t *testing.T) {
	if os.Getenv("CONCORD_WRITE_GOLDEN") == "" {
		t.Skip("set CONCORD_WRITE_GOLDEN=1 to write golden files that are missing")
	}
	if err := os.MkdirAll("testdata/golden", 0o755); err != nil {
		t.Fatal(err)
	}
	entry := &Entry{Epoch: 3, ReplicaId: 1, Nonce: 77}
	fillOneof(entry.ProtoReflect(), "commands", "op")
	session := &SnapshotSession{Id: 1 << 40, LeaseId: 9, LastSequence: 12}
	results := oneofVariants((&Result{}).ProtoReflect(), "answer")
	for i, r := range results {
		session.Answers = append(session.Answers, &SnapshotSession_Answer{Sequence: uint64(i + 1), Result: r.(*Result)})
	}
	row := &SnapshotRow{Row: &SnapshotRow_Header{Header: &SnapshotHeader{}}}
	fill(row.GetHeader().ProtoReflect(), 0)
	for name, m := range map[string]proto.Message{"entry": entry, "results": session, "snapshot_row": row} {
		path := filepath.Join("testdata/golden", name+".hex")
		if _, err := os.Stat(path); err == nil {
			continue
		}
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for i := 0; i < len(raw); i += 32 {
			fmt.Fprintf(&b, "%x\n", raw[i:min(i+32, len(raw))])
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		text := prototext.MarshalOptions{Multiline: true}.Format(m)
		if err := os.WriteFile(filepath.Join("testdata/golden", name+".txtpb"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat("testdata/durable_tags.txt"); err != nil {
		text := strings.Join(durableTags(), "\n") + "\n"
		if err := os.WriteFile("testdata/durable_tags.txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fillOneof appends to the list one element for each variant of its oneof.
func fillOneof(m protoreflect.Message, list, oneof protoreflect.Name) {
	l := m.Mutable(m.Descriptor().Fields().ByName(list)).List()
	for _, e := range oneofVariants(l.NewElement().Message(), oneof) {
		l.Append(protoreflect.ValueOfMessage(e.ProtoReflect()))
	}
}

func oneofVariants(empty protoreflect.Message, oneof protoreflect.Name) []proto.Message {
	var all []proto.Message
	fields := empty.Descriptor().Oneofs().ByName(oneof).Fields()
	for i := range fields.Len() {
		m := empty.New()
		v := m.NewField(fields.Get(i))
		fill(v.Message(), 0)
		m.Set(fields.Get(i), v)
		all = append(all, m.Interface())
	}
	return all
}

// fill sets every field that is not in a oneof, and the last one of each oneof.
func fill(m protoreflect.Message, depth int) {
	if depth > 5 {
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.IsList() {
			l := m.Mutable(f).List()
			for n := range 2 {
				l.Append(sample(l.NewElement(), f, n, depth))
			}
			continue
		}
		m.Set(f, sample(m.NewField(f), f, 0, depth))
	}
}

func sample(v protoreflect.Value, f protoreflect.FieldDescriptor, n, depth int) protoreflect.Value {
	i := int(f.Number()) + n
	switch f.Kind() {
	case protoreflect.MessageKind:
		fill(v.Message(), depth+1)
		return v
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(f.Enum().Values().Get(1).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("%s-%d", f.Name(), i))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0xFF, byte(i)})
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1<<40 + uint64(i))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(1000 + i))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(-i))
	}
	return v
}
