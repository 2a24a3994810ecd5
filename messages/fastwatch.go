package messages

// This file: what watches are sent, decoded. Keys and values of a batch of many events
// share pieces of memory, as those of a list do.

// readBatch decodes the message of a batch for watches.
func (x *ServerMessage) readBatch(b []byte) bool {
	m := &WatchBatch{}
	x.Message = &ServerMessage_WatchBatch{WatchBatch: m}
	return m.read(b)
}

func (x *WatchBatch) read(b []byte) bool {
	n := count(b, 2<<3|bytesField)
	var own copier
	events := slab[Event]{left: min(n, listChunk)}
	if n > 0 {
		x.Events = make([]*Event, 0, n)
	}
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.WatchId = w.v
		case 2<<3 | bytesField:
			if len(events.free) == 0 {
				events.left = min(listChunk, n-len(x.Events))
			}
			e := events.take()
			if !nested(e.read(w.data, &own, len(w.rest)+len(w.data)), w.data, e) {
				return false
			}
			x.Events = append(x.Events, e)
		case 3<<3 | bytesField:
			if x.To != nil {
				return false
			}
			x.To = &Position{}
			if !nested(x.To.read(w.data), w.data, x.To) {
				return false
			}
		case 4<<3 | varintField:
			x.Last = w.v != 0
		case 5<<3 | varintField:
			x.Ready = w.v != 0
		case 6<<3 | bytesField:
			if x.AlsoWatchIds != nil || !readUvarints(&x.AlsoWatchIds, w.data) {
				return false
			}
		default:
			return false
		}
	}
	return !w.bad
}

// readUvarints decodes packed numbers.
func readUvarints(to *[]uint64, b []byte) bool {
	n := 0
	for _, c := range b {
		if c < 0x80 {
			n++
		}
	}
	ids := make([]uint64, 0, n)
	for len(b) > 0 {
		v, m := uvarint(b)
		if m <= 0 {
			return false
		}
		ids, b = append(ids, v), b[m:]
	}
	*to = ids
	return true
}

func (x *Position) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.Revision = w.v
		case 2<<3 | varintField:
			x.OpIndex = uint32(w.v)
		default:
			return false
		}
	}
	return !w.bad
}

// read decodes an event; left is how many bytes of the batch are to come.
func (x *Event) read(b []byte, own *copier, left int) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.Revision = w.v
		case 2<<3 | varintField:
			x.OpIndex = uint32(w.v)
		case 3<<3 | varintField:
			x.Type = EventType(int32(w.v))
		case 4<<3 | varintField:
			x.Cause = EventCause(int32(w.v))
		case 5<<3 | bytesField:
			if x.Record != nil {
				return false
			}
			x.Record = &Record{}
			if !nested(x.Record.readTo(w.data, own, left), w.data, x.Record) {
				return false
			}
		case 6<<3 | bytesField:
			if x.Prev != nil {
				return false
			}
			x.Prev = &Record{}
			if !nested(x.Prev.readTo(w.data, own, left), w.data, x.Prev) {
				return false
			}
		default:
			return false
		}
	}
	return !w.bad
}
