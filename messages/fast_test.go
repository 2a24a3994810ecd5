package messages

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fastMessages are the messages that are decoded by hand, each with its decoder.
var fastMessages = []struct {
	name   string
	empty  func() proto.Message
	decode func([]byte, proto.Message) error
}{
	{"entry", func() proto.Message { return &Entry{} }, func(b []byte, m proto.Message) error { return UnmarshalEntry(b, m.(*Entry)) }},
	{"client", func() proto.Message { return &ClientMessage{} }, func(b []byte, m proto.Message) error { return UnmarshalClientMessage(b, m.(*ClientMessage)) }},
	{"server", func() proto.Message { return &ServerMessage{} }, func(b []byte, m proto.Message) error { return UnmarshalServerMessage(b, m.(*ServerMessage)) }},
	{"peer", func() proto.Message { return &PeerMessage{} }, func(b []byte, m proto.Message) error { return UnmarshalPeerMessage(b, m.(*PeerMessage)) }},
}

// checkDecode holds a decoder to proto.Unmarshal: the same verdict, the same message.
func checkDecode(t *testing.T, kind int, b []byte) {
	t.Helper()
	k := fastMessages[kind]
	want, got := k.empty(), k.empty()
	wantErr, gotErr := proto.Unmarshal(b, want), k.decode(bytes.Clone(b), got)
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("%s %x: error %v, protobuf says %v", k.name, b, gotErr, wantErr)
	}
	if wantErr == nil && !proto.Equal(want, got) {
		t.Fatalf("%s %x:\ngot  %v\nwant %v", k.name, b, got, want)
	}
}

// filler fills messages at random: with the fields that are decoded by hand mostly.
type filler struct {
	*rand.Rand
	all bool // also what is left to protobuf
}

func (f filler) fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if o := fd.ContainingOneof(); o != nil && !o.IsSynthetic() {
			continue
		}
		if f.IntN(3) > 0 {
			f.set(m, fd, depth)
		}
	}
	oneofs := m.Descriptor().Oneofs()
	for i := range oneofs.Len() {
		of := oneofs.Get(i).Fields()
		fd := of.Get(f.IntN(of.Len()))
		if !f.all {
			// The hot ones.
			for j := range of.Len() {
				switch of.Get(j).Name() {
				case "put", "get", "frame", "replies", "forward", "forwarded", "result":
					fd = of.Get(j)
				case "write", "query", "txn", "mod_revision", "list", "watch_batch":
					if f.IntN(2) == 0 {
						fd = of.Get(j)
					}
				case "grant_lease", "keep_alive_lease", "expire_leases":
					if f.IntN(4) == 0 {
						fd = of.Get(j)
					}
				}
			}
		}
		f.set(m, fd, depth)
	}
}

func (f filler) set(m protoreflect.Message, fd protoreflect.FieldDescriptor, depth int) {
	if fd.IsList() {
		list := m.Mutable(fd).List()
		if fd.Message() != nil && !f.all && (fd.Name() == "metadata" || depth > 6) {
			return
		}
		for range f.IntN(4) {
			if fd.Message() != nil {
				if depth < 9 {
					f.fill(list.AppendMutable().Message(), depth+1)
				}
				continue
			}
			list.Append(f.value(fd))
		}
		return
	}
	if fd.IsMap() {
		return
	}
	if fd.Message() == nil {
		m.Set(fd, f.value(fd))
		return
	}
	if !f.all && (fd.Name() == "audit" || fd.Name() == "error" || fd.Name() == "prev") || depth >= 9 {
		return
	}
	f.fill(m.Mutable(fd).Message(), depth+1)
}

func (f filler) value(fd protoreflect.FieldDescriptor) protoreflect.Value {
	n := f.Uint64() >> f.IntN(64)
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n&1 == 1)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(n)))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(n)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("text-äö"[:f.IntN(6)])
	}
	return protoreflect.ValueOfBytes(bytes.Repeat([]byte{byte(n)}, f.IntN(300)))
}

// TestFastMessages decodes and encodes random messages by hand and by protobuf, whole
// and damaged. A field that the messages get in future is filled too, so an encoder
// that would leave it out is found here.
func TestFastMessages(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	fast, encoded, txns, leases := 0, 0, 0, 0
	for i := range 1_200 {
		f := filler{Rand: r, all: i%3 == 0}
		for kind, k := range fastMessages {
			m := k.empty()
			f.fill(m.ProtoReflect(), 0)
			b, err := proto.Marshal(m)
			if err != nil {
				continue // text cut in the middle of a letter
			}
			checkDecode(t, kind, b)
			if n, ok := EncodedSize(m); ok {
				encoded++
				own := make([]byte, n)
				Encode(own, m)
				if n != proto.Size(m) {
					t.Fatalf("%s: %d bytes, said to be %d, protobuf takes %d: %v", k.name, len(own), n, proto.Size(m), m)
				}
				back := k.empty()
				if err := proto.Unmarshal(own, back); err != nil || !proto.Equal(back, m) {
					t.Fatalf("%s: %v\nencoded %v\nas      %v", k.name, err, m, back)
				}
			}
			if e, ok := m.(*Entry); ok {
				for _, c := range e.Commands {
					if c.fastSize() >= 0 {
						fast++
						if c.GetTxn() != nil {
							txns++
						}
						if c.GetGrantLease() != nil || c.GetKeepAliveLease() != nil || len(c.GetExpireLeases().GetPairs()) > 0 {
							leases++
						}
					}
					own, err := AppendCommand(nil, c)
					back := &Command{}
					if err != nil || len(own) != CommandSize(c) || proto.Unmarshal(own, back) != nil || !proto.Equal(back, c) {
						t.Fatalf("command %v as %v, error %v", c, back, err)
					}
				}
			}
			for range 8 {
				if len(b) == 0 {
					break
				}
				d := bytes.Clone(b)
				switch r.IntN(4) {
				case 0:
					d = d[:r.IntN(len(d))]
				case 1:
					d[r.IntN(len(d))] ^= 1 << r.IntN(8)
				case 2:
					at := r.IntN(len(d))
					d = append(d[:at:at], append([]byte{byte(r.Uint32())}, d[at:]...)...)
				case 3:
					d = append(d, b[:r.IntN(len(b)+1)]...)
				}
				checkDecode(t, kind, d)
			}
		}
	}
	if fast < 300 || encoded < 300 || txns < 30 || leases < 100 {
		t.Errorf("only %d commands, of them %d transactions and %d of leases, and %d messages were encoded by hand: nothing was tested", fast, txns, leases, encoded)
	}
}

// TestFastSizeOfNothing: what a hostile frame may hold is sized like anything else.
func TestFastSizeOfNothing(t *testing.T) {
	if n := OperationSize(nil) + CommandSize(nil) + ResultSize(nil) + OperationSize(&Operation{}); n != 0 {
		t.Errorf("%d bytes", n)
	}
	if _, ok := EncodedSize(&ClientMessage{Message: &ClientMessage_Frame{}}); ok {
		t.Error("a frame that is not there was sized")
	}
}

// FuzzFastMessages holds the decoders to protobuf.
func FuzzFastMessages(f *testing.F) {
	r := filler{Rand: rand.New(rand.NewPCG(1, 1))}
	for kind, k := range fastMessages {
		for range 20 {
			m := k.empty()
			r.fill(m.ProtoReflect(), 0)
			if b, err := proto.Marshal(m); err == nil {
				f.Add(uint8(kind), b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) { checkDecode(t, int(kind)%len(fastMessages), b) })
}

// BenchmarkEntry decodes an entry of 128 puts of 256 bytes.
func BenchmarkEntry(b *testing.B) {
	e := &Entry{Epoch: 3, ReplicaId: 1, Nonce: 1 << 60}
	for i := range 128 {
		e.Commands = append(e.Commands, &Command{
			StampMs: 123_456_789, SessionId: 77, Sequence: uint64(1_000 + i), Acknowledged: 900,
			Op: &Command_Put{Put: &Put{Key: []byte("key/00001234"), Value: make([]byte, 256)}},
		})
	}
	text, err := proto.Marshal(e)
	if err != nil {
		b.Fatal(err)
	}
	for name, decode := range map[string]func(*Entry) error{
		"hand":     func(e *Entry) error { return UnmarshalEntry(text, e) },
		"protobuf": func(e *Entry) error { return proto.Unmarshal(text, e) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(&Entry{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
