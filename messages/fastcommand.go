package messages

import (
	"bytes"

	"google.golang.org/protobuf/proto"
)

// UnmarshalEntry decodes an entry of the log into x, which is empty, like
// proto.Unmarshal. Keys and values of puts share b's memory, which must not change as
// long as they are used.
func UnmarshalEntry(b []byte, x *Entry) error {
	if x.read(b) {
		return nil
	}
	return proto.Unmarshal(b, x)
}

// UnmarshalPeerMessage decodes what a node says to another into x, which is empty, like
// proto.Unmarshal. Keys and values of puts share b's memory.
func UnmarshalPeerMessage(b []byte, x *PeerMessage) error {
	if x.read(b) {
		return nil
	}
	return proto.Unmarshal(b, x)
}

func (x *Entry) read(b []byte) bool {
	n := count(b, 4<<3|bytesField)
	commands := commandSlabOf(n)
	if n > 0 {
		x.Commands = make([]*Command, 0, n)
	}
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.Epoch = w.v
		case 2<<3 | varintField:
			x.ReplicaId = w.v
		case 3<<3 | varintField:
			x.Nonce = w.v
		case 4<<3 | bytesField:
			c := commands.read(w.data)
			if c == nil {
				return false
			}
			x.Commands = append(x.Commands, c)
		default:
			return false
		}
	}
	return !w.bad
}

// commandSlab is where the commands of one batch live.
type commandSlab struct {
	commands   slab[Command]
	puts       slab[commandPut]
	keepAlives slab[commandKeepAlive]
}

func commandSlabOf(n int) commandSlab {
	return commandSlab{
		commands: slab[Command]{left: n}, puts: slab[commandPut]{left: n}, keepAlives: slab[commandKeepAlive]{left: n},
	}
}

type commandPut struct {
	op  Command_Put
	put Put
}

type commandTxn struct {
	op Command_Txn
	of usualTxn
}

// read decodes a command; nil if it is not one.
func (s *commandSlab) read(b []byte) *Command {
	x := s.commands.take()
	if !nested(x.read(b, s), b, x) {
		return nil
	}
	return x
}

func (x *Command) read(b []byte, s *commandSlab) bool {
	w := wire{rest: b}
	for w.next() {
		if w.tag >= 16<<3 && x.Op != nil {
			return false // a second operation
		}
		switch w.tag {
		case 1<<3 | varintField:
			x.StampMs = int64(w.v)
		case 2<<3 | varintField:
			x.SessionId = w.v
		case 3<<3 | varintField:
			x.Sequence = w.v
		case 4<<3 | varintField:
			x.Acknowledged = w.v
		case 5<<3 | bytesField:
			if !w.text(&x.IdempotencyKey) {
				return false
			}
		case 6<<3 | bytesField:
			x.RequestHash = bytes.Clone(w.data) // it is kept
		case 7<<3 | bytesField:
			if !w.text(&x.Principal) {
				return false
			}
		case 8<<3 | varintField:
			x.UserId = w.v
		case 9<<3 | varintField:
			x.Trusted = w.v != 0
		case 16<<3 | bytesField:
			p := s.puts.take()
			p.op.Put = &p.put
			x.Op = &p.op
			if !nested(p.put.read(w.data), w.data, &p.put) {
				return false
			}
		case 20<<3 | bytesField:
			t := &commandTxn{}
			t.op.Txn = &t.of.txn
			x.Op = &t.op
			if !nested(t.of.read(w.data), w.data, &t.of.txn) {
				return false
			}
		case 24<<3 | bytesField:
			g := &GrantLease{}
			x.Op = &Command_GrantLease{GrantLease: g}
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
		case 66<<3 | bytesField:
			e := &ExpireLeases{}
			x.Op = &Command_ExpireLeases{ExpireLeases: e}
			if !nested(e.read(w.data), w.data, e) {
				return false
			}
		default:
			return false
		}
	}
	return !w.bad
}

func (x *PeerMessage) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		if x.Message != nil {
			return false
		}
		switch w.tag {
		case 2<<3 | bytesField:
			m := &ForwardRequest{}
			x.Message = &PeerMessage_Forward{Forward: m}
			if !m.read(w.data) {
				return false
			}
		case 3<<3 | bytesField:
			m := &ForwardReply{}
			x.Message = &PeerMessage_Forwarded{Forwarded: m}
			if !m.read(w.data) {
				return false
			}
		default:
			return false
		}
	}
	return !w.bad
}

func (x *ForwardRequest) read(b []byte) bool {
	n := count(b, 3<<3|bytesField)
	commands := commandSlabOf(n)
	x.Commands = make([]*Command, 0, n)
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.Call = w.v
		case 2<<3 | varintField:
			x.TimeoutMs = uint32(w.v)
		case 3<<3 | bytesField:
			c := commands.read(w.data)
			if c == nil {
				return false
			}
			x.Commands = append(x.Commands, c)
		default:
			return false
		}
	}
	return !w.bad
}

func (x *ForwardReply) read(b []byte) bool {
	n := count(b, 3<<3|bytesField)
	results := resultSlabOf(n)
	x.Results = make([]*Result, 0, n)
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.Call = w.v
		case 2<<3 | varintField:
			x.First = uint32(w.v)
		case 3<<3 | bytesField:
			r := results.read(w.data)
			if r == nil {
				return false
			}
			x.Results = append(x.Results, r)
		default:
			return false
		}
	}
	return !w.bad
}

// resultSlab is where the results of one batch live.
type resultSlab struct {
	results    slab[Result]
	puts       slab[resultPut]
	keepAlives slab[resultKeepAlive]
}

func resultSlabOf(n int) resultSlab {
	return resultSlab{
		results: slab[Result]{left: n}, puts: slab[resultPut]{left: n}, keepAlives: slab[resultKeepAlive]{left: n},
	}
}

type resultPut struct {
	answer Result_Put
	put    PutResult
}

// read decodes a result; nil if it is not one.
func (s *resultSlab) read(b []byte) *Result {
	x := s.results.take()
	if !nested(x.read(b, s), b, x) {
		return nil
	}
	return x
}

func (x *Result) read(b []byte, s *resultSlab) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.Revision = w.v
		case 3<<3 | varintField:
			x.Replayed = w.v != 0
		case 16<<3 | bytesField:
			if x.Answer != nil {
				return false
			}
			p := s.puts.take()
			p.answer.Put = &p.put
			x.Answer = &p.answer
			if len(w.data) > 0 && proto.Unmarshal(w.data, &p.put) != nil {
				return false
			}
		case 20<<3 | bytesField:
			if x.Answer != nil {
				return false
			}
			t := &TxnResult{}
			x.Answer = &Result_Txn{Txn: t}
			if !nested(t.read(w.data), w.data, t) {
				return false
			}
		case 24<<3 | bytesField:
			if x.Answer != nil {
				return false
			}
			g := &GrantLeaseResult{}
			x.Answer = &Result_GrantLease{GrantLease: g}
			if !nested(g.read(w.data), w.data, g) {
				return false
			}
		case 25<<3 | bytesField:
			if x.Answer != nil {
				return false
			}
			k := s.keepAlives.take()
			k.answer.KeepAliveLease = &k.of
			x.Answer = &k.answer
			if !nested(k.of.read(w.data), w.data, &k.of) {
				return false
			}
		default:
			return false
		}
	}
	return !w.bad
}
