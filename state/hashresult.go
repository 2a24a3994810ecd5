package state

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// hash folds a recorded answer into h. It looks at what an answer says, not at how
// it is encoded, so that one that was read from a snapshot hashes the same.
func (a answer) hash(h hasher) hasher {
	if a.result == nil {
		return hashPut(h.u64(a.revision).u64(answerPut), emptyPut.Put)
	}
	return hashResult(h, a.result)
}

// Kinds of answers in hashes: the tags of Result.answer.
const (
	answerNone = 0
	answerPut  = 16
)

// recordable reports whether a result can be a recorded answer.
func recordable(r *messages.Result) bool {
	switch r.GetAnswer().(type) {
	case *messages.Result_KeepAliveLease, *messages.Result_OpenSession, *messages.Result_CloseSession,
		*messages.Result_ResolveIdempotency, *messages.Result_ClaimClock:
		return false
	}
	return r != nil && !r.GetReplayed()
}

func hashResult(h hasher, r *messages.Result) hasher {
	h = h.u64(r.GetRevision())
	if e := r.GetError(); e != nil {
		return hashError(h.u64(2), e)
	}
	switch a := r.GetAnswer().(type) {
	case nil:
		return h.u64(answerNone)
	case *messages.Result_Put:
		return hashPut(h.u64(answerPut), a.Put)
	case *messages.Result_PutMany:
		h = h.u64(17).u64(uint64(len(a.PutMany.GetPuts())))
		for _, p := range a.PutMany.GetPuts() {
			h = hashPut(h, p)
		}
		return h
	case *messages.Result_Delete:
		return hashDelete(h.u64(18), a.Delete)
	case *messages.Result_Touch:
		return h.u64(19).i64(a.Touch.GetRemainingTtlMs())
	case *messages.Result_Txn:
		h = h.u64(20).bool(a.Txn.GetSucceeded()).u64(uint64(len(a.Txn.GetResponses())))
		for _, o := range a.Txn.GetResponses() {
			h = hashTxnOp(h, o)
		}
		return h
	case *messages.Result_GrantLease:
		return h.u64(24).u64(a.GrantLease.GetLeaseId()).i64(a.GrantLease.GetTtlMs())
	case *messages.Result_RevokeLease:
		return h.u64(26).u64(a.RevokeLease.GetKeysDeleted())
	case *messages.Result_Index:
		i := a.Index.GetIndex()
		return h.u64(40).str(i.GetDefinition().GetName()).bool(i.GetBuilding()).bytes(i.GetCursor()).u64(i.GetEntries())
	case *messages.Result_Cursor:
		c := a.Cursor.GetCursor()
		return h.u64(44).str(c.GetName()).u64(c.GetLeaseId()).u64(c.GetAfterRevision()).bool(c.GetCounted())
	case *messages.Result_Compact:
		return h.u64(48).u64(a.Compact.GetCompactRevision())
	case *messages.Result_Config:
		return h.u64(49).u64(hashConfig(a.Config.GetConfig()))
	case *messages.Result_Auth:
		return hashAuthResult(h, a.Auth)
	case *messages.Result_ExpireLeases:
		x := a.ExpireLeases
		return h.u64(66).u64(uint64(x.GetExpired())).u64(uint64(x.GetSkipped())).u64(x.GetKeysDeleted())
	}
	panic(fmt.Sprintf("state: answer %T is not recorded", r.GetAnswer()))
}

// hashError leaves out the message: its text is for people, and builds may word it
// differently.
func hashError(h hasher, e *messages.ErrorDetail) hasher {
	return h.u64(uint64(e.GetCode())).u64(uint64(e.GetOutcome())).str(e.GetField()).
		bool(e.OpIndex != nil).u64(uint64(e.GetOpIndex())).u64(e.GetCompactRevision()).u64(e.GetCurrentRevision()).
		u64(e.GetLeaseId()).u64(uint64(e.GetRetryAfterMs())).u64(e.GetLimit())
}

func hashPut(h hasher, p *messages.PutResult) hasher {
	if p.GetPrev() == nil {
		return h.u64(0)
	}
	return hashRecord(h.u64(1), p.GetPrev())
}

func hashDelete(h hasher, d *messages.DeleteResult) hasher {
	h = h.u64(d.GetDeleted()).u64(uint64(len(d.GetPrev())))
	for _, r := range d.GetPrev() {
		h = hashRecord(h, r)
	}
	return h
}

func hashTxnOp(h hasher, o *messages.TxnOpResult) hasher {
	switch a := o.GetAnswer().(type) {
	case *messages.TxnOpResult_Get:
		h = h.u64(1).u64(a.Get.GetCount()).bool(a.Get.GetHasMore()).u64(uint64(len(a.Get.GetRecords())))
		for _, r := range a.Get.GetRecords() {
			h = hashRecord(h, r)
		}
		return h
	case *messages.TxnOpResult_Put:
		return hashPut(h.u64(2), a.Put)
	case *messages.TxnOpResult_Delete:
		return hashDelete(h.u64(3), a.Delete)
	case *messages.TxnOpResult_Touch:
		return h.u64(4).i64(a.Touch.GetRemainingTtlMs())
	}
	return h.u64(answerNone)
}

func hashRecord(h hasher, r *messages.Record) hasher {
	return h.bytes(r.GetKey()).bytes(r.GetValue()).u64(r.GetCreateRevision()).u64(r.GetModRevision()).
		u64(r.GetVersion()).u64(r.GetLeaseId()).str(r.GetContentType()).metadata(r.GetMetadata()).
		bool(r.RemainingTtlMs != nil).i64(r.GetRemainingTtlMs())
}
