package messages

// This file: transactions, as far as they compare a revision, a version, a lease or
// existence, and put.

// usualTxn is a transaction that compares one thing and then puts one, as most do, in one
// allocation instead of seven. What more there is has its own.
type usualTxn struct {
	txn      Txn
	compare  usualCompare
	put      txnPut
	compares [1]*Compare
	success  [1]*TxnOp
}

type usualCompare struct {
	of      Compare
	version Compare_Version
	create  Compare_CreateRevision
	mod     Compare_ModRevision
	lease   Compare_LeaseId
}

func (u *usualTxn) read(b []byte) bool {
	x := &u.txn
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | bytesField:
			c := &u.compare
			if x.Compares == nil {
				x.Compares = u.compares[:0]
			} else {
				c = &usualCompare{}
			}
			if !nested(c.read(w.data), w.data, &c.of) {
				return false
			}
			x.Compares = append(x.Compares, &c.of)
		case 2<<3 | bytesField:
			op := &u.put
			if x.Success == nil {
				x.Success = u.success[:0]
			} else {
				op = &txnPut{}
			}
			if !nested(op.read(w.data), w.data, &op.op) {
				return false
			}
			x.Success = append(x.Success, &op.op)
		case 3<<3 | bytesField:
			op := &txnPut{}
			if !nested(op.read(w.data), w.data, &op.op) {
				return false
			}
			x.Failure = append(x.Failure, &op.op)
		default:
			return false
		}
	}
	return !w.bad
}

func (u *usualCompare) read(b []byte) bool {
	x := &u.of
	w := wire{rest: b}
	for w.next() {
		if w.tag > 3<<3 && x.Target != nil {
			return false // which of two counts is protobuf's to say
		}
		switch w.tag {
		case 1<<3 | bytesField:
			x.Key = w.data
		case 2<<3 | varintField:
			x.Operator = CompareOperator(int32(w.v))
		case 6<<3 | varintField:
			u.version.Version = w.v
			x.Target = &u.version
		case 7<<3 | varintField:
			u.create.CreateRevision = w.v
			x.Target = &u.create
		case 8<<3 | varintField:
			u.mod.ModRevision = w.v
			x.Target = &u.mod
		case 9<<3 | varintField:
			u.lease.LeaseId = w.v
			x.Target = &u.lease
		default:
			return false
		}
	}
	return !w.bad
}

// txnPut is an operation that puts, in one allocation.
type txnPut struct {
	op  TxnOp
	of  TxnOp_Put
	put Put
}

func (x *txnPut) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		if w.tag != 2<<3|bytesField || x.op.Op != nil {
			return false
		}
		x.of.Put = &x.put
		x.op.Op = &x.of
		if !nested(x.put.read(w.data), w.data, &x.put) {
			return false
		}
	}
	return !w.bad
}

func (x *TxnResult) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.Succeeded = w.v != 0
		case 2<<3 | bytesField:
			r := &TxnOpResult{}
			if len(w.data) == 2 && w.data[0] == 2<<3|bytesField && w.data[1] == 0 {
				r.Answer = &TxnOpResult_Put{Put: &PutResult{}} // of a put, without the record before
			} else if !nested(false, w.data, r) {
				return false
			}
			x.Responses = append(x.Responses, r)
		default:
			return false
		}
	}
	return !w.bad
}

func (x *Txn) fastSize() int {
	if x == nil || len(x.unknownFields) > 0 {
		return slow
	}
	compares, success, failure := sizeList(x.Compares), sizeList(x.Success), sizeList(x.Failure)
	if compares == slow || success == slow || failure == slow {
		return slow
	}
	return compares + success + failure
}

func (x *Txn) fastWrite(b []byte, at int) int {
	return writeList(b, writeList(b, writeList(b, at, 3, x.Failure), 2, x.Success), 1, x.Compares)
}

// target is the field and the value of what is compared; false for another target.
func (x *Compare) target() (tag uint64, v uint64, ok bool) {
	switch t := x.GetTarget().(type) {
	case *Compare_Version:
		return 6, t.Version, true
	case *Compare_CreateRevision:
		return 7, t.CreateRevision, true
	case *Compare_ModRevision:
		return 8, t.ModRevision, true
	case *Compare_LeaseId:
		return 9, t.LeaseId, true
	}
	return 0, 0, false
}

func (x *Compare) fastSize() int {
	_, v, ok := x.target()
	if !ok || x.Range != nil || x.Ordered || len(x.unknownFields) > 0 {
		return slow
	}
	// A member of a oneof is there also when it is 0.
	target := 2
	if v > 0 {
		target = sizeVarint(1, v)
	}
	return sizeBytes(1, len(x.Key)) + sizeVarint(1, uint64(x.Operator)) + target
}

func (x *Compare) fastWrite(b []byte, at int) int {
	tag, v, _ := x.target()
	at = writeUvarint(b, writeUvarint(b, at, v), tag<<3|varintField)
	return writeBytes(b, writeVarint(b, at, 2, uint64(x.Operator)), 1, x.Key)
}

func (x *TxnOp) fastSize() int {
	p, ok := x.GetOp().(*TxnOp_Put)
	if !ok || len(x.unknownFields) > 0 {
		return slow
	}
	n := p.Put.fastSize()
	if n == slow {
		return slow
	}
	return sizeNested(1, n)
}

func (x *TxnOp) fastWrite(b []byte, at int) int {
	return writeNested(b, at, 2, x.Op.(*TxnOp_Put).Put)
}

func (x *TxnResult) fastSize() int {
	if x == nil || len(x.unknownFields) > 0 {
		return slow
	}
	list := sizeList(x.Responses)
	if list == slow {
		return slow
	}
	return sizeBool(x.Succeeded) + list
}

func (x *TxnResult) fastWrite(b []byte, at int) int {
	return writeBool(b, writeList(b, at, 2, x.Responses), 1, x.Succeeded)
}

// The answer to a put without the record that it replaced.
func (x *TxnOpResult) fastSize() int {
	p, ok := x.GetAnswer().(*TxnOpResult_Put)
	if !ok || p.Put == nil || p.Put.Prev != nil || len(x.unknownFields) > 0 || len(p.Put.unknownFields) > 0 {
		return slow
	}
	return 2
}

func (x *TxnOpResult) fastWrite(b []byte, at int) int {
	return writeHead(b, at, at, 2)
}
