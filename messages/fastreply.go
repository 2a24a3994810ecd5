package messages

// This file: what a node answers its clients, decoded.

func (x *ServerMessage) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		if x.Message != nil {
			return false
		}
		if w.tag == 3<<3|bytesField {
			if !x.readBatch(w.data) {
				return false
			}
			continue
		}
		if w.tag != 2<<3|bytesField {
			return false
		}
		r := &Replies{}
		x.Message = &ServerMessage_Replies{Replies: r}
		if !r.read(w.data) {
			return false
		}
	}
	return !w.bad
}

// replySlab is where the replies of one message live. The caller of each keeps only
// its own for long, if it keeps any, so they are few to a slab.
type replySlab struct {
	replies slab[Reply]
	results slab[replyResult]
	inner   resultSlab
	gets    slab[replyGet]
}

type replyResult struct {
	reply  Reply_Result
	result Result
}

type replyGet struct {
	reply  Reply_Query
	query  QueryReply
	get    QueryReply_Get
	answer GetReply
}

func (x *Replies) read(b []byte) bool {
	n := count(b, 2<<3|bytesField)
	s := replySlab{replies: slab[Reply]{left: n}, results: slab[replyResult]{left: n}, inner: resultSlabOf(n)}
	x.Replies = make([]*Reply, 0, n)
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.ClientEpoch = w.v
		case 2<<3 | bytesField:
			r := s.replies.take()
			if !nested(r.read(w.data, &s), w.data, r) {
				return false
			}
			x.Replies = append(x.Replies, r)
		default:
			return false
		}
	}
	return !w.bad
}

func (x *Reply) read(b []byte, s *replySlab) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.Call = w.v
		case 3<<3 | bytesField:
			if x.Reply != nil {
				return false
			}
			p := s.results.take()
			p.reply.Result = &p.result
			x.Reply = &p.reply
			if !nested(p.result.read(w.data, &s.inner), w.data, &p.result) {
				return false
			}
		case 4<<3 | bytesField:
			if x.Reply != nil {
				return false
			}
			p := s.gets.take()
			p.reply.Query = &p.query
			x.Reply = &p.reply
			if !nested(p.read(w.data), w.data, &p.query) {
				return false
			}
		default:
			return false
		}
	}
	return !w.bad
}

// read decodes the answer to a get or a list.
func (x *replyGet) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | varintField:
			x.query.Revision = w.v
		case 2<<3 | varintField:
			x.query.CompactRevision = w.v
		case 3<<3 | varintField:
			x.query.LeaderSilentMs = w.v
		case 16<<3 | bytesField:
			if x.query.Reply != nil {
				return false
			}
			x.get.Get = &x.answer
			x.query.Reply = &x.get
			if !nested(x.answer.read(w.data), w.data, &x.answer) {
				return false
			}
		case 18<<3 | bytesField:
			if x.query.Reply != nil {
				return false
			}
			l := &ListReply{}
			x.query.Reply = &QueryReply_List{List: l}
			if !nested(l.read(w.data), w.data, l) {
				return false
			}
		default:
			return false
		}
	}
	return !w.bad
}

func (x *GetReply) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		if w.tag != 1<<3|bytesField || x.Record != nil {
			return false
		}
		x.Record = &Record{}
		if !nested(x.Record.read(w.data), w.data, x.Record) {
			return false
		}
	}
	return !w.bad
}
