package state_test

import (
	"fmt"
	"strings"

	"github.com/concord-kv/concord/messages"
)

func (l *line) put() *messages.Put {
	p := &messages.Put{
		Key: []byte(l.word(0)), LeaseId: l.number("lease", 0), TtlMs: l.millis(l.option("ttl", "")), Metadata: l.metadata(),
		PrevKv: l.flags["prev"], IgnoreValue: l.flags["ignore_value"], IgnoreLease: l.flags["ignore_lease"],
	}
	if !p.IgnoreValue {
		p.Value = []byte(l.word(1))
	}
	if t := l.option("type", ""); t != "" {
		p.ContentType = "application/" + t
	}
	return p
}

func prevOf(p *messages.PutResult) string {
	if p.GetPrev() == nil {
		return ""
	}
	return "was " + formatRecord(p.GetPrev())
}

func (s *script) put(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_Put{Put: l.put()}})
	if was := prevOf(r.GetPut()); was != "" {
		return formatResult(r, "%s", was)
	}
	return formatResult(r, "")
}

func (s *script) putMany(l *line) string {
	m := &messages.PutMany{}
	for _, b := range l.body {
		b.words = append([]string{unquote(b.verb)}, b.words...)
		m.Puts = append(m.Puts, b.put())
	}
	r := s.apply(l, &messages.Command{Op: &messages.Command_PutMany{PutMany: m}})
	var was []string
	for i, p := range r.GetPutMany().GetPuts() {
		if w := prevOf(p); w != "" {
			was = append(was, fmt.Sprintf("%d %s", i, w))
		}
	}
	if len(was) > 0 {
		return formatResult(r, "%s", strings.Join(was, "; "))
	}
	return formatResult(r, "")
}

// fill puts count keys prefix00000, prefix00001, ... in as few commands as it takes.
func (s *script) fill(l *line) string {
	count, from := int(l.number("count", 0)), int(l.number("from", 0))
	var r *messages.Result
	for done := 0; done < count; {
		m := &messages.PutMany{}
		for len(m.Puts) < messages.PutManyPutsMax && done < count {
			m.Puts = append(m.Puts, &messages.Put{
				Key: fmt.Appendf(nil, "%s%05d", l.word(0), from+done), Value: []byte(l.option("value", "")), LeaseId: l.number("lease", 0),
			})
			done++
		}
		if r = s.apply(l, &messages.Command{Op: &messages.Command_PutMany{PutMany: m}}); r.Error != nil {
			break
		}
	}
	return formatResult(r, "")
}

func (s *script) delete(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_Delete{Delete: &messages.Delete{Selector: l.selector(0), PrevKv: l.flags["prev"]}}})
	d := r.GetDelete()
	if len(d.GetPrev()) > 0 {
		return formatResult(r, "deleted %d was %s", d.GetDeleted(), formatRecords(d.GetPrev()))
	}
	return formatResult(r, "deleted %d", d.GetDeleted())
}

func (s *script) touch(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_Touch{Touch: &messages.Touch{Key: []byte(l.word(0)), TtlMs: l.millis(l.word(1))}}})
	return formatResult(r, "left %s", millis(r.GetTouch().GetRemainingTtlMs()))
}

func (s *script) txn(l *line) string {
	t := &messages.Txn{}
	for _, b := range l.body {
		switch b.verb {
		case "if":
			t.Compares = append(t.Compares, b.compare())
		case "then":
			t.Success = append(t.Success, b.txnOp())
		case "else":
			t.Failure = append(t.Failure, b.txnOp())
		default:
			l.bad = "if, then or else, not " + b.verb
		}
		if b.bad != "" {
			l.bad = b.bad
		}
	}
	r := s.apply(l, &messages.Command{Op: &messages.Command_Txn{Txn: t}})
	var b strings.Builder
	fmt.Fprintf(&b, "%v", r.GetTxn().GetSucceeded())
	for _, o := range r.GetTxn().GetResponses() {
		b.WriteString("; ")
		switch a := o.Answer.(type) {
		case *messages.TxnOpResult_Get:
			fmt.Fprintf(&b, "got %d of %d: %s", len(a.Get.Records), a.Get.Count, formatRecords(a.Get.Records))
			if a.Get.HasMore {
				b.WriteString(" more")
			}
		case *messages.TxnOpResult_Put:
			b.WriteString(strings.TrimRight("put "+prevOf(a.Put), " "))
		case *messages.TxnOpResult_Delete:
			fmt.Fprintf(&b, "deleted %d", a.Delete.Deleted)
			if len(a.Delete.Prev) > 0 {
				b.WriteString(" was " + formatRecords(a.Delete.Prev))
			}
		case *messages.TxnOpResult_Touch:
			fmt.Fprintf(&b, "left %s", millis(a.Touch.RemainingTtlMs))
		}
	}
	return formatResult(r, "%s", b.String())
}

var operators = map[string]messages.CompareOperator{"==": 1, "!=": 2, "<": 3, "<=": 4, ">": 5, ">=": 6}

// compare reads "if KEY TARGET OPERATOR VALUE".
func (l *line) compare() *messages.Compare {
	c := &messages.Compare{Key: []byte(l.word(0)), Operator: operators[l.word(2)]}
	value := l.word(3)
	number := func() uint64 { return l.parseNumber(value) }
	switch l.word(1) {
	case "exists":
		c.Target = &messages.Compare_Exists{Exists: value == "true"}
	case "value":
		c.Target = &messages.Compare_Value{Value: &messages.Compare_NullableBytes{Null: value == "null", Value: []byte(value)}}
	case "json":
		c.Target = &messages.Compare_Field_{Field: &messages.Compare_Field{Extractor: l.extractor(), Json: []byte(value)}}
	case "version":
		c.Target = &messages.Compare_Version{Version: number()}
	case "created":
		c.Target = &messages.Compare_CreateRevision{CreateRevision: number()}
	case "modified":
		c.Target = &messages.Compare_ModRevision{ModRevision: number()}
	case "lease":
		c.Target = &messages.Compare_LeaseId{LeaseId: number()}
	case "ttl":
		n := &messages.Compare_NullableInt64{Null: value == "null"}
		if !n.Null {
			n.Value = l.millis(value)
		}
		c.Target = &messages.Compare_TtlMs{TtlMs: n}
	}
	return c
}

func (l *line) txnOp() *messages.TxnOp {
	verb := l.word(0)
	l.words = l.words[1:]
	switch verb {
	case "get":
		return &messages.TxnOp{Op: &messages.TxnOp_Get{Get: &messages.TxnGet{
			Selector: l.selector(0), Limit: uint32(l.number("limit", 0)), KeysOnly: l.flags["keys_only"], CountOnly: l.flags["count_only"], Descending: l.flags["descending"],
		}}}
	case "put":
		return &messages.TxnOp{Op: &messages.TxnOp_Put{Put: l.put()}}
	case "delete":
		return &messages.TxnOp{Op: &messages.TxnOp_Delete{Delete: &messages.Delete{Selector: l.selector(0), PrevKv: l.flags["prev"]}}}
	case "touch":
		return &messages.TxnOp{Op: &messages.TxnOp_Touch{Touch: &messages.Touch{Key: []byte(l.word(0)), TtlMs: l.millis(l.word(1))}}}
	}
	l.bad = "no operation " + verb
	return &messages.TxnOp{}
}
