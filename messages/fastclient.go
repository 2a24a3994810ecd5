package messages

import "google.golang.org/protobuf/proto"

// UnmarshalClientMessage decodes what a client says into x, which is empty, like
// proto.Unmarshal. Keys and values of puts and gets share b's memory.
func UnmarshalClientMessage(b []byte, x *ClientMessage) error {
	if x.read(b) {
		return nil
	}
	return proto.Unmarshal(b, x)
}

// UnmarshalServerMessage decodes what a node says to a client into x, which is empty,
// like proto.Unmarshal. It keeps nothing of b.
func UnmarshalServerMessage(b []byte, x *ServerMessage) error {
	if x.read(b) {
		return nil
	}
	return proto.Unmarshal(b, x)
}

func (x *ClientMessage) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		if w.tag != 2<<3|bytesField || x.Message != nil {
			return false
		}
		f := &Frame{}
		x.Message = &ClientMessage_Frame{Frame: f}
		if !f.read(w.data) {
			return false
		}
	}
	return !w.bad
}

func (x *Frame) read(b []byte) bool {
	n := count(b, 4<<3|bytesField)
	s := operationSlab{
		operations: slab[Operation]{left: n}, writes: slab[operationWrite]{left: n},
		puts: slab[writePut]{left: n}, gets: slab[operationGet]{left: n}, keepAlives: slab[writeKeepAlive]{left: n},
	}
	x.Operations = make([]*Operation, 0, n)
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.ClientEpoch = w.v
		case 2<<3 | varintField:
			x.FirstCall = w.v
		case 3<<3 | varintField:
			x.TimeoutMs = uint32(w.v)
		case 4<<3 | bytesField:
			op := s.operations.take()
			if !nested(op.read(w.data, &s), w.data, op) {
				return false
			}
			x.Operations = append(x.Operations, op)
		default:
			return false
		}
	}
	return !w.bad
}

// operationSlab is where the operations of one frame live.
type operationSlab struct {
	operations slab[Operation]
	writes     slab[operationWrite]
	puts       slab[writePut]
	gets       slab[operationGet]
	keepAlives slab[writeKeepAlive]
}

type operationWrite struct {
	op    Operation_Write
	write Write
}

type writePut struct {
	op  Write_Put
	put Put
}

type operationGet struct {
	op    Operation_Query
	query Query
	get   Query_Get
	key   GetRequest
}

func (x *Operation) read(b []byte, s *operationSlab) bool {
	w := wire{rest: b}
	for w.next() {
		if x.Operation != nil {
			return false
		}
		switch w.tag {
		case 1<<3 | bytesField:
			p := s.writes.take()
			p.op.Write = &p.write
			x.Operation = &p.op
			if !nested(p.write.read(w.data, s), w.data, &p.write) {
				return false
			}
		case 2<<3 | bytesField:
			p := s.gets.take()
			p.op.Query = &p.query
			x.Operation = &p.op
			if !nested(p.read(w.data), w.data, &p.query) {
				return false
			}
		default:
			return false
		}
	}
	return !w.bad
}

func (x *Write) read(b []byte, s *operationSlab) bool {
	w := wire{rest: b}
	for w.next() {
		if w.tag >= 16<<3 && x.Op != nil {
			return false // a second operation
		}
		switch w.tag {
		case 1<<3 | varintField:
			x.SessionId = w.v
		case 2<<3 | varintField:
			x.Sequence = w.v
		case 3<<3 | varintField:
			x.Acknowledged = w.v
		case 4<<3 | bytesField:
			if !w.text(&x.IdempotencyKey) {
				return false
			}
		case 5<<3 | varintField:
			x.Incarnation = w.v
		case 16<<3 | bytesField:
			p := s.puts.take()
			p.op.Put = &p.put
			x.Op = &p.op
			if !nested(p.put.read(w.data), w.data, &p.put) {
				return false
			}
		case 20<<3 | bytesField:
			t := &writeTxn{}
			t.op.Txn = &t.of.txn
			x.Op = &t.op
			if !nested(t.of.read(w.data), w.data, &t.of.txn) {
				return false
			}
		case 24<<3 | bytesField:
			g := &GrantLease{}
			x.Op = &Write_GrantLease{GrantLease: g}
			if !nested(g.read(w.data), w.data, g) {
				return false
			}
		case 25<<3 | bytesField:
			k := s.keepAlives.take()
			k.op.KeepAliveLease = &k.of
			x.Op = &k.op
			if !nested(k.of.read(w.data), w.data, &k.of) {
				return false
			}
		default:
			return false
		}
	}
	return !w.bad
}

// read decodes a query that is a get.
func (x *operationGet) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.query.Consistency = Consistency(int32(w.v))
		case 2<<3 | varintField:
			x.query.MinRevision = w.v
		case 16<<3 | bytesField:
			if x.query.Query != nil {
				return false
			}
			x.get.Get = &x.key
			x.query.Query = &x.get
			if !nested(x.key.read(w.data), w.data, &x.key) {
				return false
			}
		default:
			return false
		}
	}
	return !w.bad
}

func (x *GetRequest) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | bytesField:
			x.Key = w.data
		case 2<<3 | varintField:
			x.Revision = w.v
		default:
			return false
		}
	}
	return !w.bad
}

type writeTxn struct {
	op Write_Txn
	of usualTxn
}
