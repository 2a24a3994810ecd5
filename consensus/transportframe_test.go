package consensus

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// heard is a connection whose other side has said something and gone.
type heard struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (c *heard) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c *heard) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (c *heard) SetReadDeadline(time.Time) error  { return nil }
func (c *heard) SetWriteDeadline(time.Time) error { return nil }

func said(b []byte) *heard { return &heard{in: bytes.NewReader(b)} }

func frameOf(kind byte, payload []byte) []byte {
	b := append(make([]byte, frameHeaderBytes), payload...)
	sealFrame(b, kind)
	return b
}

func TestFramesRoundTrip(t *testing.T) {
	var all []byte
	sizes := []int{0, 1, 100, readStep, readStep + 1, 5 << 20, 3}
	for i, n := range sizes {
		all = append(all, frameOf(frameBatch, bytes.Repeat([]byte{byte(i)}, n))...)
	}
	in := newFrameReader(said(all), 64<<10)
	for i, n := range sizes {
		kind, b, err := in.next(time.Second, only(batchMax, frameBatch))
		if err != nil || kind != frameBatch || !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, n)) {
			t.Fatalf("frame %d of %d bytes: kind %d, %d bytes, %v", i, n, kind, len(b), err)
		}
	}
	if _, _, err := in.next(time.Second, only(batchMax, frameBatch)); err != io.EOF {
		t.Fatalf("at the end: %v", err)
	}
}

func TestBadFramesAreRefused(t *testing.T) {
	good := frameOf(frameBatch, []byte("payload"))
	for at := range good {
		b := bytes.Clone(good)
		b[at] ^= 0x40
		if _, _, err := newFrameReader(said(b), 4096).next(time.Second, only(1000, frameBatch)); err == nil {
			t.Errorf("byte %d is damaged and nobody saw", at)
		}
		want := io.ErrUnexpectedEOF
		if at == 0 {
			want = io.EOF
		}
		if _, _, err := newFrameReader(said(good[:at]), 4096).next(time.Second, only(1000, frameBatch)); !errors.Is(err, want) {
			t.Errorf("cut at %d: %v, want %v", at, err, want)
		}
	}
	in := newFrameReader(said(good), 4096)
	if _, _, err := in.next(time.Second, only(6, frameBatch)); !errors.Is(err, errOversize) || in.buf != nil {
		t.Errorf("oversize: %v, and %d bytes were made for it", err, cap(in.buf))
	}
	if _, _, err := newFrameReader(said(good), 4096).next(time.Second, only(1000, frameChunk)); !errors.Is(err, errNotAFrame) {
		t.Errorf("another kind: %v", err)
	}
}

// heardBy lets a transport of replica 1 at a:1, with replica 2 at a:2, serve what was
// said, and returns the messages and chunks that reached dragonboat.
func heardBy(c net.Conn) (batches []raftpb.MessageBatch, chunks []raftpb.Chunk) {
	cfg := DragonboatConfig{
		ReplicaID: 1, RaftAddress: "127.0.0.1:1", Logger: slog.New(slog.DiscardHandler),
		InitialMembers: map[uint64]string{1: "127.0.0.1:1", 2: "127.0.0.1:2"},
	}
	tr := &transport{
		transports: transports{cfg: cfg, guard: newGuard(cfg)}, deployment: 7,
		batches: func(b raftpb.MessageBatch) { batches = append(batches, b) },
		chunks:  func(c raftpb.Chunk) bool { chunks = append(chunks, c); return true },
	}
	tr.catchUp = newCatchUp(1, tr.own, tr.after)
	tr.guard.open.Store(true)
	tr.serve(c)
	return batches, chunks
}

func hello(kind byte, id uint64, address string) []byte {
	return frameOf(kind, []byte(greeting{Deployment: 7, Replica: id, Address: address}.encode()))
}

func batchOf(t testing.TB, address string, m ...raftpb.Message) []byte {
	b, err := (&raftpb.MessageBatch{SourceAddress: address, Requests: m}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return frameOf(frameBatch, b)
}

func TestWhatDragonboatDiesOfIsKeptFromIt(t *testing.T) {
	const two = "127.0.0.1:2"
	good := raftpb.Message{Type: raftpb.Heartbeat, From: 2, To: 1, ShardID: shardID}
	with := func(change func(*raftpb.Message)) raftpb.Message {
		m := good
		change(&m)
		return m
	}
	for name, x := range map[string]struct {
		id      uint64
		address string
		m       []raftpb.Message
		want    int
	}{
		"good":             {2, two, []raftpb.Message{good, good}, 1},
		"empty":            {2, two, nil, 0},
		"to nobody":        {2, two, []raftpb.Message{good, with(func(m *raftpb.Message) { m.To = 0 })}, 0},
		"another group":    {2, two, []raftpb.Message{with(func(m *raftpb.Message) { m.ShardID = 5 })}, 0},
		"a local one":      {2, two, []raftpb.Message{with(func(m *raftpb.Message) { m.Type = raftpb.InstallSnapshot })}, 0},
		"a twin":           {2, "127.0.0.1:9", []raftpb.Message{good}, 0},
		"one of us":        {1, "127.0.0.1:9", []raftpb.Message{with(func(m *raftpb.Message) { m.From = 1 })}, 0},
		"another's id":     {2, two, []raftpb.Message{with(func(m *raftpb.Message) { m.From = 1 })}, 0},
		"no address":       {5, "nowhere", []raftpb.Message{with(func(m *raftpb.Message) { m.From = 5 })}, 0},
		"not known so far": {5, "127.0.0.1:5", []raftpb.Message{with(func(m *raftpb.Message) { m.From = 5 })}, 0},
	} {
		got, _ := heardBy(said(append(hello(frameHello, x.id, x.address), batchOf(t, x.address, x.m...)...)))
		if len(got) != x.want {
			t.Errorf("%s: %d batches reached dragonboat, want %d", name, len(got), x.want)
		}
	}
}

func chunkOf(t testing.TB, c raftpb.Chunk) []byte {
	b, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return frameOf(frameChunk, b)
}

func TestChunksComeInOrder(t *testing.T) {
	first := raftpb.Chunk{ShardID: shardID, ReplicaID: 1, From: 2, Filepath: "/x/snapshot", ChunkCount: 3, FileChunkCount: 3}
	second := first
	second.ChunkId, second.FileChunkId = 1, 1
	other, nameless := second, first
	other.Filepath, nameless.Filepath = "/x/never-begun", ""
	for name, x := range map[string]struct {
		chunks []raftpb.Chunk
		want   int
	}{
		"good": {[]raftpb.Chunk{first, second}, 2}, "no first": {[]raftpb.Chunk{second}, 0},
		"another file": {[]raftpb.Chunk{first, other}, 1}, "no file": {[]raftpb.Chunk{nameless}, 0},
	} {
		all := hello(frameSnap, 2, "127.0.0.1:2")
		for _, c := range x.chunks {
			all = append(all, chunkOf(t, c)...)
		}
		if _, got := heardBy(said(all)); len(got) != x.want {
			t.Errorf("%s: %d chunks reached dragonboat, want %d", name, len(got), x.want)
		}
	}
}

// FuzzServe lets a peer say anything, with and without good frames around it.
func FuzzServe(f *testing.F) {
	f.Add(byte(0), []byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(byte(1), batchOf(f, "127.0.0.1:2", raftpb.Message{From: 2, To: 1, ShardID: shardID})[frameHeaderBytes:])
	f.Add(byte(2), chunkOf(f, raftpb.Chunk{From: 2, ReplicaID: 1, ShardID: shardID, Filepath: "a"})[frameHeaderBytes:])
	f.Fuzz(func(t *testing.T, how byte, b []byte) {
		all := b
		switch how % 3 {
		case 1:
			all = append(hello(frameHello, 2, "127.0.0.1:2"), frameOf(frameBatch, b)...)
		case 2:
			all = append(hello(frameSnap, 2, "127.0.0.1:2"), frameOf(frameChunk, b)...)
		}
		batches, chunks := heardBy(said(all))
		for _, m := range batches {
			for _, r := range m.Requests {
				if r.To == 0 || r.From != 2 {
					t.Fatalf("%+v reached dragonboat", r)
				}
			}
		}
		for _, c := range chunks {
			if c.From != 2 || c.ReplicaID != 1 {
				t.Fatalf("%+v reached dragonboat", c)
			}
		}
	})
}
