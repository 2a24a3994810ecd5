package messages

// This file: leases that are granted without labels, and kept alive, with their answers.

type writeKeepAlive struct {
	op Write_KeepAliveLease
	of KeepAliveLease
}

type commandKeepAlive struct {
	op Command_KeepAliveLease
	of KeepAliveLease
}

type resultKeepAlive struct {
	answer Result_KeepAliveLease
	of     KeepAliveLeaseResult
}

func (x *KeepAliveLease) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.LeaseId = w.v
		case 2<<3 | varintField:
			x.NewTtlMs = int64(w.v)
		default:
			return false
		}
	}
	return !w.bad
}

func (x *KeepAliveLease) fastSize() int {
	if x == nil || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.LeaseId) + sizeVarint(1, uint64(x.NewTtlMs))
}

func (x *KeepAliveLease) fastWrite(b []byte, at int) int {
	return writeVarint(b, writeVarint(b, at, 2, uint64(x.NewTtlMs)), 1, x.LeaseId)
}

func (x *KeepAliveLeaseResult) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.LeaseId = w.v
		case 2<<3 | varintField:
			x.TtlMs = int64(w.v)
		case 3<<3 | varintField:
			x.RemainingTtlMs = int64(w.v)
		default:
			return false
		}
	}
	return !w.bad
}

func (x *KeepAliveLeaseResult) fastSize() int {
	if x == nil || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.LeaseId) + sizeVarint(1, uint64(x.TtlMs)) + sizeVarint(1, uint64(x.RemainingTtlMs))
}

func (x *KeepAliveLeaseResult) fastWrite(b []byte, at int) int {
	at = writeVarint(b, writeVarint(b, at, 3, uint64(x.RemainingTtlMs)), 2, uint64(x.TtlMs))
	return writeVarint(b, at, 1, x.LeaseId)
}

func (x *GrantLease) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.TtlMs = int64(w.v)
		case 3<<3 | varintField:
			x.Alias = w.v
		default:
			return false
		}
	}
	return !w.bad
}

func (x *GrantLease) fastSize() int {
	if x == nil || len(x.Metadata) > 0 || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, uint64(x.TtlMs)) + sizeVarint(1, x.Alias)
}

func (x *GrantLease) fastWrite(b []byte, at int) int {
	return writeVarint(b, writeVarint(b, at, 3, x.Alias), 1, uint64(x.TtlMs))
}

func (x *GrantLeaseResult) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.LeaseId = w.v
		case 2<<3 | varintField:
			x.TtlMs = int64(w.v)
		default:
			return false
		}
	}
	return !w.bad
}

func (x *GrantLeaseResult) fastSize() int {
	if x == nil || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.LeaseId) + sizeVarint(1, uint64(x.TtlMs))
}

func (x *GrantLeaseResult) fastWrite(b []byte, at int) int {
	return writeVarint(b, writeVarint(b, at, 2, uint64(x.TtlMs)), 1, x.LeaseId)
}
