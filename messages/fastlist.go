package messages

// This file: the answer to a list.

// listChunk is how many records of a list share an allocation: who keeps one of them
// keeps so many, without their keys and values.
const listChunk = 16

func (x *ListReply) read(b []byte) bool {
	n := count(b, 1<<3|bytesField)
	if n > 0 {
		x.Records = make([]*Record, 0, n)
	}
	var chunk []Record
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | bytesField:
			if len(chunk) == 0 {
				chunk = make([]Record, min(listChunk, n-len(x.Records)))
			}
			r := &chunk[0]
			chunk = chunk[1:]
			if !nested(r.read(w.data), w.data, r) {
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

func (x *ListReply) fastSize() int {
	if x == nil || len(x.unknownFields) > 0 {
		return slow
	}
	list := sizeList(x.Records)
	if list == slow {
		return slow
	}
	return list + sizeBool(x.HasMore) + sizeBytes(1, len(x.LastKey)) + sizeVarint(1, x.Count) + sizeVarint(1, x.Revision)
}

func (x *ListReply) fastAppend(b []byte) []byte {
	b = appendBool(appendList(b, 1, x.Records), 2, x.HasMore)
	b = appendVarint(appendBytes(b, 3, x.LastKey), 4, x.Count)
	return appendVarint(b, 5, x.Revision)
}
