package sim

import (
	"fmt"
	"strings"

	"github.com/concord-kv/concord/messages"
)

// wrote returns the revision that an acknowledged write made.
func (op *Op) wrote() (revision uint64, wrote bool) {
	if op.err != nil || !op.over {
		return 0, false
	}
	r := op.reply.GetResult()
	switch op.Kind {
	case OpPut, OpPair:
		return r.GetRevision(), true
	case OpSwap:
		return r.GetRevision(), r.GetTxn().GetSucceeded()
	case OpDelete:
		return r.GetRevision(), r.GetDelete().GetDeleted() > 0
	}
	return 0, false
}

// answer is the transcript's form of an answer.
func (op *Op) answer() string {
	switch {
	case !op.over:
		return "no answer"
	case op.err != nil:
		return fmt.Sprintf("%s, %s", messages.CodeName(messages.CodeOf(op.err)), messages.OutcomeName(messages.OutcomeOf(op.err)))
	}
	if op.reply.GetAdmin() != nil {
		return "done"
	}
	if q := op.reply.GetQuery(); q != nil {
		if x := q.GetIndexLookup(); x != nil {
			var keys []string
			for _, r := range x.Records {
				keys = append(keys, string(r.Key))
			}
			return fmt.Sprintf("[%s]", strings.Join(keys, " "))
		}
		if g := q.GetGet(); g != nil {
			if g.Record == nil {
				return "absent"
			}
			return fmt.Sprintf("%s at %d", g.Record.Value, g.Record.ModRevision)
		}
		if l := q.GetLeaseInfo(); l != nil {
			return fmt.Sprintf("ttl %dms, %d keys", l.Lease.GetTtlMs(), l.Lease.GetKeyCount())
		}
		if l := q.GetLeaseList(); l != nil {
			return fmt.Sprintf("%d leases", len(l.Leases))
		}
		if c := q.GetChanges(); c != nil {
			var b strings.Builder
			for _, e := range c.Events {
				b.WriteString(eventLine(e) + "; ")
			}
			fmt.Fprintf(&b, "next %d.%d", c.Next.GetRevision(), c.Next.GetOpIndex())
			return b.String()
		}
		if l := q.GetList(); l != nil {
			var keys []string
			for _, r := range l.Records {
				keys = append(keys, fmt.Sprintf("%s=%s", r.Key, r.Value))
			}
			return fmt.Sprintf("[%s]", strings.Join(keys, " "))
		}
		return fmt.Sprintf("revision %d", q.Revision)
	}
	r := op.reply.GetResult()
	switch {
	case r.GetGrantLease() != nil:
		return fmt.Sprintf("granted for %dms", r.GetGrantLease().TtlMs)
	case r.GetKeepAliveLease() != nil:
		return fmt.Sprintf("kept for %dms", r.GetKeepAliveLease().RemainingTtlMs)
	case r.GetRevokeLease() != nil:
		return fmt.Sprintf("revoked, %d keys", r.GetRevokeLease().KeysDeleted)
	case r.GetDelete() != nil:
		return fmt.Sprintf("deleted %d at %d", r.GetDelete().Deleted, r.Revision)
	case r.GetTxn() != nil:
		return fmt.Sprintf("succeeded=%v at %d", r.GetTxn().Succeeded, r.Revision)
	case r.GetCompact() != nil:
		return fmt.Sprintf("compacted to %d", r.GetCompact().CompactRevision)
	}
	return fmt.Sprintf("ok at %d", r.GetRevision())
}

func (op *Op) output() opOutput {
	if q := op.reply.GetQuery(); q != nil {
		r := q.GetGet().GetRecord()
		return opOutput{value: string(r.GetValue()), present: r != nil, mod: r.GetModRevision(), revision: q.Revision}
	}
	r := op.reply.GetResult()
	o := opOutput{revision: r.GetRevision(), ok: true}
	switch op.Kind {
	case OpSwap:
		o.ok = r.GetTxn().GetSucceeded()
	case OpDelete:
		o.ok = r.GetDelete().GetDeleted() > 0
	}
	return o
}
