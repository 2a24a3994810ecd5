package consensus

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// greeting says who dials.
type greeting struct {
	Deployment, Replica, Incarnation uint64
	Address                          string
}

func (g greeting) encode() string {
	b := binary.BigEndian.AppendUint64(nil, g.Deployment)
	b = binary.BigEndian.AppendUint64(b, g.Replica)
	return string(binary.BigEndian.AppendUint64(b, g.Incarnation)) + g.Address
}

func decodeGreeting(b []byte) (greeting, error) {
	if len(b) < 24 {
		return greeting{}, errNotAFrame
	}
	return greeting{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:]), string(b[24:])}, nil
}

// only returns limits that allow these kinds with payloads of at most n bytes.
func only(n int, kinds ...byte) func(byte) int {
	return func(kind byte) int {
		for _, k := range kinds {
			if k == kind {
				return n
			}
		}
		return -1
	}
}

// readAnswer returns what the other side of a greeting has against us, or who it is.
func readAnswer(in *frameReader) (why string, self greeting, err error) {
	kind, b, err := in.next(greetMax, only(greetingMax, frameAnswer, frameSelf))
	if err != nil || kind == frameAnswer {
		return string(b), greeting{}, err
	}
	self, err = decodeGreeting(b)
	return "", self, err
}

type marshaler interface{ MarshalTo([]byte) (int, error) }

// send writes m, of at most size bytes, as one frame, encoded into buf; it returns the
// buffer to use next.
func send(conn net.Conn, buf []byte, kind byte, most, size int, m marshaler) ([]byte, error) {
	if size > most {
		return buf, fmt.Errorf("%w: %d bytes", errOversize, size)
	}
	b := frameBuffer(buf, size)
	n, err := m.MarshalTo(b[frameHeaderBytes:])
	if err != nil {
		return buf, err
	}
	frame := b[:frameHeaderBytes+n]
	sealFrame(frame, kind)
	if cap(b) > keptBytesMax {
		b = nil
	}
	return b, writeFrame(conn, frame)
}

// chunkConn sends the chunks of a snapshot; each waits until the last one was taken, and
// as long again, as catchUp has it.
type chunkConn struct {
	conn    net.Conn
	in      *frameReader
	catchUp *catchUp
	closing context.Context
	buf     []byte
}

// Close implements raftio.ISnapshotConnection.
func (c *chunkConn) Close() { _ = c.conn.Close() }

// SendChunk implements raftio.ISnapshotConnection: nil means that the receiver took it.
func (c *chunkConn) SendChunk(chunk raftpb.Chunk) (err error) {
	began := time.Now()
	if c.buf, err = send(c.conn, c.buf, frameChunk, chunkMax, chunk.Size(), &chunk); err != nil {
		return err
	}
	_, b, err := c.in.next(idleMax, only(greetingMax, frameAnswer)) // it syncs the file
	if err == nil && len(b) > 0 {
		err = errors.New(string(b))
	}
	if err == nil {
		c.rest(c.catchUp.rest(time.Since(began)))
	}
	return err
}

func (c *chunkConn) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closing.Done():
	}
}

// decode turns what dragonboat's decoder does with garbage, an error or a panic, into an
// error. It holds no lock and has written nothing but m, which is then dropped.
func decode(m interface{ Unmarshal([]byte) error }, b []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w of messages: %v", errNotAFrame, r)
		}
	}()
	if err := m.Unmarshal(b); err != nil {
		return fmt.Errorf("%w of messages: %w", errNotAFrame, err)
	}
	return nil
}

// serve reads a connection until it ends. Nothing that arrives may make it panic.
func (t *transport) serve(conn net.Conn) {
	if c, ok := conn.(*tls.Conn); ok {
		_ = c.SetDeadline(time.Now().Add(greetMax))
		if err := c.Handshake(); err != nil {
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			t.guard.refuse(fmt.Sprintf("TLS with %s: %v", host, err))
			return
		}
		_ = c.SetDeadline(time.Time{})
	}
	in := newFrameReader(conn, 64<<10)
	kind, b, err := in.next(greetMax, only(greetingMax, frameHello, frameSnap, frameMeet))
	if err != nil {
		return
	}
	g, err := decodeGreeting(b)
	if err != nil {
		return
	}
	if t.guard.incarnations.Load() == nil && !t.guard.open.Load() {
		return // it does not know yet who it is
	}
	why := t.refusal(g)
	if kind == frameMeet && why == "" && !t.guard.knows(g) {
		why = notMetYet
	}
	if why != "" {
		_ = writeSmall(conn, frameAnswer, why)
		return
	}
	if err := writeSmall(conn, frameSelf, t.self().encode()); err != nil || kind == frameMeet {
		return
	}
	if kind == frameSnap {
		err = t.serveChunks(conn, in, g)
	} else {
		err = t.serveBatches(in, g)
	}
	if errors.Is(err, errNotAFrame) || errors.Is(err, errOversize) || errors.Is(err, errChecksum) {
		t.guard.refuse(fmt.Sprintf("the connection from %s: %v", g.Address, err))
	}
}

// refusal returns why a peer that greets so is not heard, or nothing.
func (t *transport) refusal(g greeting) string {
	if g.Deployment != t.deployment {
		why := fmt.Sprintf("replica %d at %q is of another cluster", g.Replica, g.Address)
		t.guard.refuse(why)
		return why
	}
	ok, why := t.guard.allows(g.Replica, g.Address)
	if ok {
		why = t.guard.another(g)
	}
	if why != "" {
		t.guard.refuse(why)
	}
	return why
}

// serveBatches gives batches to dragonboat. It ends when the sender is not, or is no
// longer, who it says: its next greeting gets the reason.
func (t *transport) serveBatches(in *frameReader, g greeting) error {
	known := false
	for {
		_, b, err := in.next(idleMax, only(batchMax, frameBatch))
		if err != nil {
			return err
		}
		var batch raftpb.MessageBatch
		if err := decode(&batch, b); err != nil {
			return err
		}
		ok, why := t.guard.batch(&batch, g.Address)
		if ok && !known {
			// Its greeting may have come before it was known where the replica is.
			why = t.guard.another(g)
			known = true
		}
		if why != "" {
			t.guard.refuse(why)
			return nil
		}
		if ok {
			if batch.Requests = t.catchUp.answered(batch.Requests); len(batch.Requests) > 0 {
				t.batches(batch)
			}
		}
	}
}

// serveChunks gives the chunks of one snapshot to dragonboat and answers each.
func (t *transport) serveChunks(conn net.Conn, in *frameReader, g greeting) error {
	var order chunkOrder
	for {
		_, b, err := in.next(idleMax, only(chunkMax, frameChunk))
		if err != nil {
			return err
		}
		var c raftpb.Chunk
		if err := decode(&c, b); err != nil {
			return err
		}
		ok, why := t.guard.allows(c.From, g.Address)
		if ok && c.ChunkId == 0 {
			why = t.guard.another(g)
		}
		switch {
		case why != "":
		case !ok || !t.guard.open.Load():
			why = "the receiver is not ready"
		case c.From != g.Replica || c.ShardID != shardID || c.ReplicaID != t.cfg.ReplicaID || !order.next(&c):
			why = "a chunk does not belong here"
			t.guard.refuse(why)
		case !t.chunks(c):
			why = "the chunk was not taken"
		}
		if err := writeSmall(conn, frameAnswer, why); err != nil || why != "" {
			return err
		}
	}
}

// chunkOrder holds the chunks of a connection to what dragonboat takes for granted: one
// snapshot from its first chunk on, each file from its first part on, under its name.
type chunkOrder struct {
	count uint64
	index uint64
	file  string
}

func (o *chunkOrder) next(c *raftpb.Chunk) bool {
	file := path.Base(c.Filepath)
	if file == "." || file == ".." || file == "/" || c.ChunkId != o.count {
		return false
	}
	if o.count > 0 && c.Index != o.index || c.FileChunkId > 0 && (o.count == 0 || file != o.file) {
		return false
	}
	o.count++
	o.index, o.file = c.Index, file
	return true
}
