package messages

import "bytes"

// This file: the answer to a list.

// listChunk is how many records of a list share an allocation, and listBytes up to how
// many bytes of keys and values do: who keeps one of them keeps so many. Two allocations
// for each record were a quarter of what a list cost its client.
const (
	listChunk = 16
	listBytes = 4 << 10
)

// copier copies keys and values into pieces that they share.
type copier struct{ free []byte }

// copy returns its own copy of b. left is how much is still to come, at most.
func (c *copier) copy(b []byte, left int) []byte {
	switch {
	case len(b) <= len(c.free):
	case len(b) > listBytes/4:
		return bytes.Clone(b) // for itself
	default:
		c.free = make([]byte, min(listBytes, max(left, len(b))))
	}
	own := c.free[:len(b):len(b)]
	c.free = c.free[len(b):]
	copy(own, b)
	return own
}

func (x *ListReply) read(b []byte) bool {
	n := count(b, 1<<3|bytesField)
	if n > 0 {
		x.Records = make([]*Record, 0, n)
	}
	var (
		chunk []Record
		own   copier
	)
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | bytesField:
			if len(chunk) == 0 {
				chunk = make([]Record, min(listChunk, n-len(x.Records)))
			}
			r := &chunk[0]
			chunk = chunk[1:]
			if !nested(r.readTo(w.data, &own, len(w.rest)+len(w.data)), w.data, r) {
				return false
			}
			x.Records = append(x.Records, r)
		case 2<<3 | varintField:
			x.HasMore = w.v != 0
		case 3<<3 | bytesField:
			x.LastKey = append([]byte{}, w.data...)
		case 4<<3 | varintField:
			x.Count = w.v
		case 5<<3 | varintField:
			x.Revision = w.v
		default:
			return false
		}
	}
	return !w.bad
}

// Records that were encoded before, where they are stored, are among the unknown fields.
func (x *ListReply) fastSize() int {
	if x == nil {
		return slow
	}
	list := sizeList(x.Records)
	if list == slow {
		return slow
	}
	return list + len(x.unknownFields) + sizeBool(x.HasMore) + sizeBytes(1, len(x.LastKey)) + sizeVarint(1, x.Count) + sizeVarint(1, x.Revision)
}

func (x *ListReply) fastWrite(b []byte, at int) int {
	at = writeUnknown(b, at, x.unknownFields)
	at = writeVarint(b, at, 5, x.Revision)
	at = writeVarint(b, at, 4, x.Count)
	at = writeBool(b, writeBytes(b, at, 3, x.LastKey), 2, x.HasMore)
	return writeList(b, at, 1, x.Records)
}
