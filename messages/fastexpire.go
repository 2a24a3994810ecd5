package messages

// This file: the end of leases that are due, fifty to a command.

func (x *ExpireLeases) read(b []byte) bool {
	n := count(b, 1<<3|bytesField)
	pairs := slab[ExpireLeases_Pair]{left: n}
	x.Pairs = make([]*ExpireLeases_Pair, 0, n)
	w := wire{rest: b}
	for w.next() {
		if w.tag != 1<<3|bytesField {
			return false
		}
		p := pairs.take()
		if !nested(p.read(w.data), w.data, p) {
			return false
		}
		x.Pairs = append(x.Pairs, p)
	}
	return !w.bad
}

func (x *ExpireLeases_Pair) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.LeaseId = w.v
		case 2<<3 | varintField:
			x.Renewals = w.v
		default:
			return false
		}
	}
	return !w.bad
}

func (x *ExpireLeases) fastSize() int {
	if x == nil || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeList(x.Pairs)
}

func (x *ExpireLeases) fastWrite(b []byte, at int) int { return writeList(b, at, 1, x.Pairs) }

func (x *ExpireLeases_Pair) fastSize() int {
	if x == nil || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.LeaseId) + sizeVarint(1, x.Renewals)
}

func (x *ExpireLeases_Pair) fastWrite(b []byte, at int) int {
	return writeVarint(b, writeVarint(b, at, 2, x.Renewals), 1, x.LeaseId)
}
