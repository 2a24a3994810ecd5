package consensus

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"time"
)

// A frame is a header of 16 bytes and a payload: the mark, the kind, three zero
// bytes, the payload's length, and the CRC32C of kind to length and payload.
// Numbers are big-endian.
const (
	frameMark        = 0xC07C0D01
	frameHeaderBytes = 16

	frameHello   = 1 // who dials: the first frame of a connection
	frameAnswer  = 2 // of a chunk: empty, it was taken; else, and of a greeting, why not, after which the connection is closed
	frameBatch   = 3
	frameSnap    = 4 // hello of a connection for the chunks of one snapshot
	frameChunk   = 5
	frameMeet    = 6         // hello of a connection that ends with the answer
	frameSelf    = 7         // the other answer to a greeting: go on, and who the replica is that was dialled
	greetingMax  = 4 << 10   // payload of the frames of a greeting
	batchMax     = 160 << 20 // dragonboat's batches hold 64 MiB, and at most one message more
	chunkMax     = 8 << 20   // its chunks hold 2 MiB and what describes them
	keptBytesMax = 4 << 20   // of a buffer between two frames
	readStep     = 1 << 20   // memory follows what has arrived, not what was announced

	idleMax  = 3 * time.Minute // the sender gives up a connection that is idle after one
	stepMax  = 10 * time.Second
	greetMax = 10 * time.Second
)

var (
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
	errNotAFrame = errors.New("what arrived is not a frame")
	errOversize  = errors.New("a frame is larger than its kind may be")
	errChecksum  = errors.New("a frame is damaged")
)

// frameBuffer returns b with room for a frame of n bytes of payload.
func frameBuffer(b []byte, n int) []byte {
	if n += frameHeaderBytes; cap(b) < n {
		return make([]byte, n)
	}
	return b[:cap(b)]
}

// sealFrame fills in the header of the frame in b, whose payload is in place.
func sealFrame(b []byte, kind byte) {
	binary.BigEndian.PutUint32(b, frameMark)
	binary.BigEndian.PutUint32(b[4:], uint32(kind)<<24)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-frameHeaderBytes))
	binary.BigEndian.PutUint32(b[12:], frameSum(b[:frameHeaderBytes], b[frameHeaderBytes:]))
}

func frameSum(header, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(header[4:12], castagnoli), castagnoli, payload)
}

// writeFrame writes the sealed frame b with one write.
func writeFrame(conn net.Conn, b []byte) error {
	wait := stepMax + time.Duration(len(b)/readStep)*time.Second
	if err := conn.SetWriteDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	_, err := conn.Write(b)
	return err
}

// writeSmall writes a frame of a greeting or an answer; a longer text is cut.
func writeSmall(conn net.Conn, kind byte, payload string) error {
	payload = payload[:min(len(payload), greetingMax)]
	b := append(make([]byte, frameHeaderBytes), payload...)
	sealFrame(b, kind)
	return writeFrame(conn, b)
}

// frameReader reads the frames of a connection. Not for concurrent use.
type frameReader struct {
	conn net.Conn
	in   *bufio.Reader
	buf  []byte
}

func newFrameReader(conn net.Conn, size int) *frameReader {
	return &frameReader{conn: conn, in: bufio.NewReaderSize(conn, size)}
}

// next returns the next frame, of one of the kinds that limit allows: it returns the
// bound of a kind's payload, negative for a kind that is not expected. The payload is
// good until the next call. idle bounds the wait for the first byte; what follows must
// not stand still for stepMax. io.EOF means that the other side closed between frames;
// after any error the connection is of no use.
func (r *frameReader) next(idle time.Duration, limit func(kind byte) int) (byte, []byte, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(idle)); err != nil {
		return 0, nil, err
	}
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r.in, header[:]); err != nil {
		return 0, nil, err
	}
	word := binary.BigEndian.Uint32(header[4:])
	kind, n := byte(word>>24), binary.BigEndian.Uint32(header[8:])
	if binary.BigEndian.Uint32(header[:]) != frameMark || word&0xffffff != 0 {
		return 0, nil, errNotAFrame
	}
	most := limit(kind)
	if most < 0 {
		return 0, nil, fmt.Errorf("%w of a kind that belongs here: %d", errNotAFrame, kind)
	}
	if uint64(n) > uint64(most) {
		return 0, nil, fmt.Errorf("%w: %d bytes", errOversize, n)
	}
	if err := r.fill(int(n)); err != nil {
		return 0, nil, err
	}
	if frameSum(header[:], r.buf) != binary.BigEndian.Uint32(header[12:]) {
		return 0, nil, errChecksum
	}
	return kind, r.buf, nil
}

// fill reads n bytes into buf.
func (r *frameReader) fill(n int) error {
	if cap(r.buf) > keptBytesMax && n <= keptBytesMax {
		r.buf = nil
	}
	r.buf = r.buf[:0]
	for len(r.buf) < n {
		at := len(r.buf)
		step := min(n-at, readStep)
		if cap(r.buf) < at+step {
			grown := make([]byte, at, min(n, max(2*cap(r.buf), at+step)))
			copy(grown, r.buf)
			r.buf = grown
		}
		if r.in.Buffered() < step {
			if err := r.conn.SetReadDeadline(time.Now().Add(stepMax)); err != nil {
				return err
			}
		}
		r.buf = r.buf[:at+step]
		if _, err := io.ReadFull(r.in, r.buf[at:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}
