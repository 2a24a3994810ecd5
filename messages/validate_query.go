package messages

import "fmt"

// ValidateQuery checks everything about a read that can be known without the
// state.
func ValidateQuery(q *Query) *Error {
	if q == nil {
		return InvalidField("query", "missing")
	}
	if c := q.Consistency; c != Consistency_CONSISTENCY_LINEARIZABLE && c != Consistency_CONSISTENCY_STALE {
		return InvalidField("consistency", "unknown value %d", c)
	}
	if err := ValidateRevision("min_revision", q.MinRevision); err != nil {
		return err
	}
	switch r := q.Query.(type) {
	case *Query_Get:
		if err := ValidateKey("key", r.Get.GetKey()); err != nil {
			return err
		}
		return ValidateRevision("revision", r.Get.GetRevision())
	case *Query_GetMany:
		return validateGetMany(r.GetMany)
	case *Query_List:
		return ValidateList("", r.List)
	case *Query_History:
		return validateHistory(r.History)
	case *Query_Changes:
		return validateChanges(r.Changes)
	case *Query_LeaseInfo:
		if (r.LeaseInfo.GetLeaseId() == 0) == (r.LeaseInfo.GetAlias() == 0) {
			return InvalidField("lease_id", "one of lease_id and alias is needed")
		}
		return nil
	case *Query_LeaseList:
		return validateLimit("limit", r.LeaseList.GetLimit())
	case *Query_IndexLookup:
		return validateLookup(r.IndexLookup)
	case *Query_UserList:
		return validateLimit("limit", r.UserList.GetLimit())
	case *Query_RoleList:
		return validateLimit("limit", r.RoleList.GetLimit())
	case *Query_Audit:
		return validateLimit("limit", r.Audit.GetLimit())
	case *Query_Revision, *Query_IndexList, *Query_CursorList, *Query_Config, *Query_Status, *Query_AuthStatus:
		return nil
	}
	return NewError(Code_CODE_UNSUPPORTED, "unknown or missing query").WithField("query")
}

// ValidateList checks a list request; at is the path of the request, with a dot at
// its end, or empty.
func ValidateList(at string, r *ListRequest) *Error {
	if err := ValidateSelector(at+"selector", r.GetSelector()); err != nil {
		return err
	}
	if err := ValidateRevision(at+"revision", r.GetRevision()); err != nil {
		return err
	}
	if n := len(r.GetAfterKey()); n > KeyBytesMax {
		return tooLong(at+"after_key", n, KeyBytesMax)
	}
	for _, f := range []struct {
		name     string
		min, max uint64
	}{
		{"mod_revision_min", r.GetModRevisionMin(), r.GetModRevisionMax()},
		{"create_revision_min", r.GetCreateRevisionMin(), r.GetCreateRevisionMax()},
	} {
		if f.max != 0 && f.min > f.max {
			return InvalidField(at+f.name, "%d is above the maximum %d", f.min, f.max)
		}
	}
	return validateLimit(at+"limit", r.GetLimit())
}

// ValidateWatch checks a request to watch.
func ValidateWatch(w *WatchRequest) *Error {
	if w == nil {
		return InvalidField("watch", "missing")
	}
	if w.WatchId == 0 {
		return InvalidField("watch_id", "must not be 0")
	}
	if err := ValidateSelector("selector", w.Selector); err != nil {
		return err
	}
	if err := ValidateRevision("from_revision", w.FromRevision); err != nil {
		return err
	}
	if w.After != nil {
		if w.FromRevision != 0 {
			return InvalidField("after", "not together with from_revision")
		}
		if err := ValidateRevision("after.revision", w.After.Revision); err != nil {
			return err
		}
	}
	if w.CreditEvents > WatchCreditEventsMax {
		return InvalidField("credit_events", "%d, at most %d", w.CreditEvents, WatchCreditEventsMax).WithLimit(WatchCreditEventsMax)
	}
	if w.CreditBytes > WatchCreditBytesMax {
		return InvalidField("credit_bytes", "%d, at most %d", w.CreditBytes, WatchCreditBytesMax).WithLimit(WatchCreditBytesMax)
	}
	if p := w.ProgressMs; p != 0 && (p < WatchProgressMsMin || p > WatchProgressMsMax) {
		return InvalidField("progress_ms", "%d is not within %d and %d", p, WatchProgressMsMin, WatchProgressMsMax)
	}
	if err := validateTypes("types", w.Types); err != nil {
		return err
	}
	if w.List != nil {
		if w.FromRevision != 0 || w.After != nil {
			return InvalidField("list", "not together with from_revision or after: the watch goes on from the list")
		}
		if w.List.Revision != 0 {
			return InvalidField("list.revision", "the list is read at the latest revision")
		}
		return ValidateList("list.", w.List)
	}
	return nil
}

func validateGetMany(r *GetManyRequest) *Error {
	if n := len(r.GetKeys()); n == 0 || n > GetManyKeysMax {
		return InvalidField("keys", "%d keys, 1 to %d", n, GetManyKeysMax).WithLimit(GetManyKeysMax)
	}
	for i, k := range r.Keys {
		if err := ValidateKey(fmt.Sprintf("keys[%d]", i), k); err != nil {
			return err
		}
	}
	return ValidateRevision("revision", r.Revision)
}

func validateHistory(r *HistoryRequest) *Error {
	if err := ValidateKey("key", r.GetKey()); err != nil {
		return err
	}
	if err := ValidateRevision("from_revision", r.GetFromRevision()); err != nil {
		return err
	}
	if err := ValidateRevision("to_revision", r.GetToRevision()); err != nil {
		return err
	}
	if r.GetToRevision() != 0 && r.GetFromRevision() > r.GetToRevision() {
		return InvalidField("from_revision", "%d is above to_revision %d", r.GetFromRevision(), r.GetToRevision())
	}
	return validateLimit("limit", r.GetLimit())
}

func validateChanges(r *ChangesRequest) *Error {
	if err := ValidateSelector("selector", r.GetSelector()); err != nil {
		return err
	}
	if err := ValidateRevision("after.revision", r.GetAfter().GetRevision()); err != nil {
		return err
	}
	if err := validateTypes("types", r.GetTypes()); err != nil {
		return err
	}
	return validateLimit("limit", r.GetLimit())
}

func validateLookup(r *IndexLookupRequest) *Error {
	if err := validateName("name", r.GetName()); err != nil {
		return err
	}
	if len(r.GetEqualJson()) > 0 && (len(r.GetMinJson()) > 0 || len(r.GetMaxJson()) > 0) {
		return InvalidField("equal_json", "not together with a range")
	}
	return validateLimit("limit", r.GetLimit())
}

func validateTypes(field string, types []EventType) *Error {
	for i, t := range types {
		if t != EventType_EVENT_TYPE_PUT && t != EventType_EVENT_TYPE_DELETE {
			return InvalidField(fmt.Sprintf("%s[%d]", field, i), "unknown type %d", t)
		}
	}
	return nil
}

func validateLimit(field string, limit uint32) *Error {
	if limit > ListLimitMax {
		return InvalidField(field, "%d, at most %d", limit, ListLimitMax).WithLimit(ListLimitMax)
	}
	return nil
}
