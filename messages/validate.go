package messages

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// One validator serves every way in: the SDK, the session actor before the log,
// and apply, which checks again with the replicated configuration because a node
// of another version, or an older configuration, may have let something through.
// Each function names the field at fault by its path in the request.

// ValidateWrite checks everything about a write that can be known without the
// state. cfg gives the limits that an operator may change.
func ValidateWrite(w *Write, cfg *ClusterConfig) *Error {
	if w == nil {
		return InvalidField("write", "missing")
	}
	if n := len(w.IdempotencyKey); n > IdempotencyKeyMax {
		return tooLong("idempotency_key", n, IdempotencyKeyMax)
	}
	if len(w.IdempotencyKey) > 0 && w.IdempotencyKey[0] == 0 {
		return InvalidField("idempotency_key", "must not begin with NUL")
	}
	if w.SessionId == 0 && (w.Sequence != 0 || w.Acknowledged != 0) {
		return InvalidField("session_id", "a sequence number needs a session")
	}
	if w.SessionId != 0 && w.Sequence == 0 {
		return InvalidField("sequence", "writes of a session are numbered from 1")
	}
	if w.Acknowledged >= w.Sequence && w.Sequence != 0 {
		return InvalidField("acknowledged", "%d is not below the write's own number %d", w.Acknowledged, w.Sequence)
	}
	switch w.Op.(type) {
	case *Write_KeepAliveLease, *Write_OpenSession, *Write_CloseSession, *Write_ResolveIdempotency:
		// Their answers are never recorded, so a number would promise too much.
		if w.SessionId != 0 {
			return InvalidField("session_id", "this operation is not numbered")
		}
		if w.IdempotencyKey != "" {
			return InvalidField("idempotency_key", "this operation takes none")
		}
	}
	c := CommandOf(w)
	if c == nil {
		return NewError(Code_CODE_UNSUPPORTED, "unknown or missing operation").WithField("op")
	}
	return ValidateOperation(c, cfg)
}

// ValidateOperation checks the operation of a command that a client may send. An
// operation that only nodes send passes.
func ValidateOperation(c *Command, cfg *ClusterConfig) *Error {
	switch op := c.Op.(type) {
	case *Command_Put:
		return validatePut(op.Put, cfg)
	case *Command_PutMany:
		return validatePutMany(op.PutMany, cfg)
	case *Command_Delete:
		return ValidateSelector("selector", op.Delete.GetSelector())
	case *Command_Touch:
		return validateTouch(op.Touch, cfg)
	case *Command_Txn:
		return validateTxn(op.Txn, cfg)
	case *Command_GrantLease:
		if err := validateTTL("ttl_ms", op.GrantLease.GetTtlMs(), cfg); err != nil {
			return err
		}
		return ValidateMetadata("metadata", op.GrantLease.GetMetadata())
	case *Command_KeepAliveLease:
		if op.KeepAliveLease.GetLeaseId() == 0 {
			return InvalidField("lease_id", "must not be 0")
		}
		if ttl := op.KeepAliveLease.GetNewTtlMs(); ttl != 0 {
			return validateTTL("new_ttl_ms", ttl, cfg)
		}
		return nil
	case *Command_RevokeLease:
		if op.RevokeLease.GetLeaseId() == 0 {
			return InvalidField("lease_id", "must not be 0")
		}
		return nil
	case *Command_OpenSession:
		if n := len(op.OpenSession.GetLabel()); n > LabelBytesMax {
			return tooLong("label", n, LabelBytesMax)
		}
		if op.OpenSession.GetTtlMs() > SessionTTLMaxMs {
			return InvalidField("ttl_ms", "%d ms is more than %d ms", op.OpenSession.GetTtlMs(), SessionTTLMaxMs).WithLimit(SessionTTLMaxMs)
		}
		return validateTTL("ttl_ms", op.OpenSession.GetTtlMs(), cfg)
	case *Command_CloseSession:
		if op.CloseSession.GetSessionId() == 0 {
			return InvalidField("session_id", "must not be 0")
		}
		return nil
	case *Command_ResolveIdempotency:
		if n := len(op.ResolveIdempotency.GetKey()); n == 0 || n > IdempotencyKeyMax {
			return badLength("key", n, IdempotencyKeyMax)
		}
		if op.ResolveIdempotency.GetKey()[0] == 0 {
			return InvalidField("key", "must not begin with NUL")
		}
		return nil
	case *Command_CreateIndex:
		return validateIndex(op.CreateIndex.GetDefinition())
	case *Command_DropIndex:
		return validateName("name", op.DropIndex.GetName())
	case *Command_OpenCursor:
		if op.OpenCursor.GetLeaseId() == 0 {
			return InvalidField("lease_id", "a cursor needs a lease")
		}
		if err := ValidateRevision("after_revision", op.OpenCursor.GetAfterRevision()); err != nil {
			return err
		}
		return validateName("name", op.OpenCursor.GetName())
	case *Command_CheckpointCursor:
		if err := ValidateRevision("after_revision", op.CheckpointCursor.GetAfterRevision()); err != nil {
			return err
		}
		return validateName("name", op.CheckpointCursor.GetName())
	case *Command_CloseCursor:
		return validateName("name", op.CloseCursor.GetName())
	case *Command_Compact:
		return ValidateRevision("revision", op.Compact.GetRevision())
	case *Command_SetConfig:
		return validateSetConfig(op.SetConfig)
	case *Command_ChangeAuth:
		return validateChangeAuth(op.ChangeAuth)
	}
	return nil
}

// ValidateKey checks one key.
func ValidateKey(field string, key []byte) *Error {
	if n := len(key); n == 0 || n > KeyBytesMax {
		return badLength(field, n, KeyBytesMax)
	}
	return nil
}

// ValidateSelector checks a selector: exactly one of key, prefix, range. The empty
// prefix selects every key; an empty range end is the end of the key space.
func ValidateSelector(field string, s *Selector) *Error {
	switch by := s.GetBy().(type) {
	case *Selector_Key:
		return within(field, ValidateKey("key", by.Key))
	case *Selector_Prefix:
		if n := len(by.Prefix); n > KeyBytesMax {
			return tooLong(field+".prefix", n, KeyBytesMax)
		}
		return nil
	case *Selector_Range:
		start, end := by.Range.GetStart(), by.Range.GetEnd()
		if n := len(start); n > KeyBytesMax {
			return tooLong(field+".range.start", n, KeyBytesMax)
		}
		if n := len(end); n > KeyBytesMax {
			return tooLong(field+".range.end", n, KeyBytesMax)
		}
		if len(end) > 0 && bytes.Compare(start, end) >= 0 {
			return InvalidField(field+".range", "start is not below end")
		}
		return nil
	}
	return InvalidField(field, "one of key, prefix or range is needed")
}

// ValidateMetadata checks the pairs of a record or a lease: sorted by name, names
// unique, not empty, and all within their limits.
func ValidateMetadata(field string, entries []*MetadataEntry) *Error {
	if n := len(entries); n > MetadataEntriesMax {
		return InvalidField(field, "%d entries, at most %d", n, MetadataEntriesMax).WithLimit(MetadataEntriesMax)
	}
	total := 0
	for i, e := range entries {
		name := e.GetName()
		if n := len(name); n == 0 || n > MetadataNameBytesMax {
			return badLength(fmt.Sprintf("%s[%d].name", field, i), n, MetadataNameBytesMax)
		}
		if i > 0 && entries[i-1].GetName() >= name {
			return InvalidField(fmt.Sprintf("%s[%d].name", field, i), "names must be sorted and unique")
		}
		total += len(name) + len(e.GetValue())
	}
	if total > MetadataBytesMax {
		return tooLong(field, total, MetadataBytesMax)
	}
	return nil
}

// ValidateRevision checks that a revision fits a signed 64-bit integer, so that a
// negative number of a client that converted it is refused by name.
func ValidateRevision(field string, revision uint64) *Error {
	if revision > RevisionMax {
		return InvalidField(field, "%d is not a revision", revision).WithLimit(RevisionMax)
	}
	return nil
}

// ValidateExtractor checks the shape of an extractor.
func ValidateExtractor(field string, x *Extractor) *Error {
	switch by := x.GetBy().(type) {
	case *Extractor_Identity:
		if !by.Identity {
			return InvalidField(field+".identity", "must be true")
		}
		return nil
	case *Extractor_Field:
		if n := len(by.Field); n > FieldNameBytesMax {
			return tooLong(field+".field", n, FieldNameBytesMax)
		}
		return nil
	case *Extractor_Path_:
		names := by.Path.GetNames()
		if n := len(names); n == 0 || n > FieldPathDepthMax {
			return InvalidField(field+".path", "%d names, 1 to %d", n, FieldPathDepthMax).WithLimit(FieldPathDepthMax)
		}
		for i, name := range names {
			if n := len(name); n > FieldNameBytesMax {
				return tooLong(fmt.Sprintf("%s.path[%d]", field, i), n, FieldNameBytesMax)
			}
		}
		return nil
	case *Extractor_Element:
		return nil
	}
	return InvalidField(field, "one of identity, field, path or element is needed")
}

func validatePut(p *Put, cfg *ClusterConfig) *Error {
	if p == nil {
		return InvalidField("put", "missing")
	}
	if err := ValidateKey("key", p.Key); err != nil {
		return err
	}
	if n := uint64(len(p.Value)); n > cfg.GetValueBytesMax() {
		return NewError(Code_CODE_TOO_LARGE, "%d bytes, at most %d", n, cfg.GetValueBytesMax()).
			WithField("value").WithLimit(cfg.GetValueBytesMax())
	}
	if p.IgnoreValue && len(p.Value) > 0 {
		return InvalidField("value", "not together with ignore_value")
	}
	if p.LeaseId != 0 && p.TtlMs != 0 {
		return InvalidField("ttl_ms", "not together with lease_id")
	}
	if p.IgnoreLease && (p.LeaseId != 0 || p.TtlMs != 0) {
		return InvalidField("ignore_lease", "not together with lease_id or ttl_ms")
	}
	if p.TtlMs != 0 {
		if err := validateTTL("ttl_ms", p.TtlMs, cfg); err != nil {
			return err
		}
	}
	if n := len(p.ContentType); n > ContentTypeBytesMax {
		return tooLong("content_type", n, ContentTypeBytesMax)
	}
	return ValidateMetadata("metadata", p.Metadata)
}

func validatePutMany(m *PutMany, cfg *ClusterConfig) *Error {
	if n := len(m.GetPuts()); n == 0 || n > PutManyPutsMax {
		return InvalidField("puts", "%d puts, 1 to %d", n, PutManyPutsMax).WithLimit(PutManyPutsMax)
	}
	if err := validateSize("puts", m, cfg); err != nil {
		return err
	}
	for i, p := range m.Puts {
		if err := validatePut(p, cfg); err != nil {
			return within(fmt.Sprintf("puts[%d]", i), err)
		}
	}
	return nil
}

func validateTouch(t *Touch, cfg *ClusterConfig) *Error {
	if err := ValidateKey("key", t.GetKey()); err != nil {
		return err
	}
	return validateTTL("ttl_ms", t.GetTtlMs(), cfg)
}

func validateTTL(field string, ttlMs int64, cfg *ClusterConfig) *Error {
	if ttlMs < cfg.GetLeaseTtlMinMs() {
		return InvalidField(field, "%d ms is less than the minimum of %d ms", ttlMs, cfg.GetLeaseTtlMinMs()).
			WithLimit(uint64(cfg.GetLeaseTtlMinMs()))
	}
	if ttlMs > cfg.GetLeaseTtlMaxMs() {
		return InvalidField(field, "%d ms is more than the maximum of %d ms", ttlMs, cfg.GetLeaseTtlMaxMs()).
			WithLimit(uint64(cfg.GetLeaseTtlMaxMs()))
	}
	return nil
}

func validateTxn(t *Txn, cfg *ClusterConfig) *Error {
	if n := len(t.GetCompares()); n > TxnComparesMax {
		return InvalidField("compares", "%d compares, at most %d", n, TxnComparesMax).WithLimit(TxnComparesMax)
	}
	if err := validateSize("txn", t, cfg); err != nil {
		return err
	}
	for i, c := range t.GetCompares() {
		if err := validateCompare(c); err != nil {
			return within(fmt.Sprintf("compares[%d]", i), err)
		}
	}
	if err := validateBranch("success", t.GetSuccess(), cfg); err != nil {
		return err
	}
	return validateBranch("failure", t.GetFailure(), cfg)
}

func validateCompare(c *Compare) *Error {
	if c.GetRange() != nil {
		if len(c.Key) > 0 {
			return InvalidField("key", "not together with range")
		}
		if err := ValidateSelector("range", &Selector{By: &Selector_Range{Range: c.Range}}); err != nil {
			return err
		}
	} else if err := ValidateKey("key", c.GetKey()); err != nil {
		return err
	}
	op := c.GetOperator()
	if op < CompareOperator_COMPARE_OPERATOR_EQUAL || op > CompareOperator_COMPARE_OPERATOR_GREATER_OR_EQUAL {
		return InvalidField("operator", "unknown operator %d", op)
	}
	equality := op <= CompareOperator_COMPARE_OPERATOR_NOT_EQUAL || c.GetOrdered()
	switch target := c.GetTarget().(type) {
	case *Compare_Value:
		if c.GetOrdered() && target.Value.GetNull() {
			return InvalidField("value.null", "not together with ordered")
		}
		if !equality {
			return InvalidField("operator", "value compares only with == and !=")
		}
	case *Compare_LeaseId:
		if !equality {
			return InvalidField("operator", "lease compares only with == and !=")
		}
	case *Compare_Field_:
		if len(target.Field.GetJson()) == 0 {
			return InvalidField("field.json", "missing")
		}
		return ValidateExtractor("field.extractor", target.Field.GetExtractor())
	case *Compare_Exists, *Compare_Version, *Compare_CreateRevision, *Compare_ModRevision, *Compare_TtlMs:
	default:
		return InvalidField("target", "missing")
	}
	return nil
}

func validateBranch(name string, ops []*TxnOp, cfg *ClusterConfig) *Error {
	if n := len(ops); n > TxnOperationsMax {
		return InvalidField(name, "%d operations, at most %d", n, TxnOperationsMax).WithLimit(TxnOperationsMax)
	}
	for i, op := range ops {
		var err *Error
		switch o := op.GetOp().(type) {
		case *TxnOp_Get:
			err = validateTxnGet(o.Get)
		case *TxnOp_Put:
			err = validatePut(o.Put, cfg)
		case *TxnOp_Delete:
			err = ValidateSelector("selector", o.Delete.GetSelector())
		case *TxnOp_Touch:
			err = validateTouch(o.Touch, cfg)
		default:
			err = InvalidField("op", "missing")
		}
		if err != nil {
			return within(fmt.Sprintf("%s[%d]", name, i), err).WithOp(i)
		}
	}
	return nil
}

func validateTxnGet(g *TxnGet) *Error {
	if err := ValidateSelector("selector", g.GetSelector()); err != nil {
		return err
	}
	if _, one := g.GetSelector().GetBy().(*Selector_Key); one {
		return nil
	}
	if g.Limit == 0 && !g.CountOnly || g.Limit > TxnGetLimitMax {
		return InvalidField("limit", "%d, 1 to %d for a prefix or a range", g.Limit, TxnGetLimitMax).WithLimit(TxnGetLimitMax)
	}
	return nil
}

func validateIndex(d *IndexDefinition) *Error {
	if err := validateName("definition.name", d.GetName()); err != nil {
		return err
	}
	if n := len(d.GetPrefix()); n > KeyBytesMax {
		return tooLong("definition.prefix", n, KeyBytesMax)
	}
	return ValidateExtractor("definition.extractor", d.GetExtractor())
}

func validateName(field, name string) *Error {
	if n := len(name); n == 0 || n > NameBytesMax {
		return badLength(field, n, NameBytesMax)
	}
	return nil
}

// validateSize bounds the encoded size of a command of many operations: it must
// travel in one frame and one log entry.
func validateSize(field string, m proto.Message, cfg *ClusterConfig) *Error {
	limit := cfg.GetValueBytesMax() + TxnOverheadBytes
	if n := uint64(MessageSize(m)); n > limit {
		return NewError(Code_CODE_TOO_LARGE, "%d bytes encoded, at most %d", n, limit).WithField(field).WithLimit(limit)
	}
	return nil
}

// within puts a path before the field of an error; nil stays nil. Paths are built
// when there is an error only: they are never on the hot path.
func within(path string, err *Error) *Error {
	if err != nil {
		err.Detail.Field = path + "." + err.Detail.Field
	}
	return err
}

func badLength(field string, n, most int) *Error {
	if n == 0 {
		return InvalidField(field, "must not be empty")
	}
	return tooLong(field, n, most)
}

func tooLong(field string, n, most int) *Error {
	return InvalidField(field, "%d bytes, at most %d", n, most).WithLimit(uint64(most))
}
