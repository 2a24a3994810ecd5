package messages

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

func key(k string) *Selector    { return &Selector{By: &Selector_Key{Key: []byte(k)}} }
func prefix(p string) *Selector { return &Selector{By: &Selector_Prefix{Prefix: []byte(p)}} }

// TestWriteRefusals is the table of bad input: what is sent, and the code and
// field that come back.
func TestWriteRefusals(t *testing.T) {
	cfg := DefaultClusterConfig()
	long := bytes.Repeat([]byte("k"), KeyBytesMax+1)
	edge := long[:KeyBytesMax]
	put := func(p *Put) *Write { return &Write{Op: &Write_Put{Put: p}} }
	txn := func(x *Txn) *Write { return &Write{Op: &Write_Txn{Txn: x}} }
	success := func(op *TxnOp) *Write {
		return txn(&Txn{Success: []*TxnOp{{Op: &TxnOp_Get{Get: &TxnGet{Selector: key("a")}}}, op}})
	}
	for _, c := range []struct {
		name  string
		write *Write
		code  Code
		field string
	}{
		{"ok", put(&Put{Key: []byte("a"), Value: []byte("v")}), Code_CODE_OK, ""},
		{"ok longest key", put(&Put{Key: edge}), Code_CODE_OK, ""},
		{"ok largest value", put(&Put{Key: edge, Value: make([]byte, 1<<20)}), Code_CODE_OK, ""},
		{"no operation", &Write{}, Code_CODE_UNSUPPORTED, "op"},
		{"empty key", put(&Put{}), Code_CODE_INVALID_ARGUMENT, "key"},
		{"long key", put(&Put{Key: long}), Code_CODE_INVALID_ARGUMENT, "key"},
		{"large value", put(&Put{Key: edge, Value: make([]byte, 1<<20+1)}), Code_CODE_TOO_LARGE, "value"},
		{"ttl and lease", put(&Put{Key: edge, LeaseId: 1, TtlMs: 2000}), Code_CODE_INVALID_ARGUMENT, "ttl_ms"},
		{"short ttl", put(&Put{Key: edge, TtlMs: 999}), Code_CODE_INVALID_ARGUMENT, "ttl_ms"},
		{"negative ttl", put(&Put{Key: edge, TtlMs: -1}), Code_CODE_INVALID_ARGUMENT, "ttl_ms"},
		{"long ttl", put(&Put{Key: edge, TtlMs: LeaseTTLMaxMs + 1}), Code_CODE_INVALID_ARGUMENT, "ttl_ms"},
		{"keep and give a lease", put(&Put{Key: edge, IgnoreLease: true, LeaseId: 1}), Code_CODE_INVALID_ARGUMENT, "ignore_lease"},
		{"keep and give a value", put(&Put{Key: edge, IgnoreValue: true, Value: []byte("v")}), Code_CODE_INVALID_ARGUMENT, "value"},
		{"unsorted metadata", put(&Put{Key: edge, Metadata: []*MetadataEntry{{Name: "b"}, {Name: "a"}}}), Code_CODE_INVALID_ARGUMENT, "metadata[1].name"},
		{"double metadata", put(&Put{Key: edge, Metadata: []*MetadataEntry{{Name: "b"}, {Name: "b"}}}), Code_CODE_INVALID_ARGUMENT, "metadata[1].name"},
		{"large metadata", put(&Put{Key: edge, Metadata: []*MetadataEntry{{Name: "b", Value: make([]byte, MetadataBytesMax)}}}), Code_CODE_INVALID_ARGUMENT, "metadata"},
		{"empty put_many", &Write{Op: &Write_PutMany{PutMany: &PutMany{}}}, Code_CODE_INVALID_ARGUMENT, "puts"},
		{"put_many names the put", &Write{Op: &Write_PutMany{PutMany: &PutMany{Puts: []*Put{{Key: edge}, {}}}}}, Code_CODE_INVALID_ARGUMENT, "puts[1].key"},
		{"no selector", &Write{Op: &Write_Delete{Delete: &Delete{}}}, Code_CODE_INVALID_ARGUMENT, "selector"},
		{"delete everything", &Write{Op: &Write_Delete{Delete: &Delete{Selector: prefix("")}}}, Code_CODE_OK, ""},
		{"range upside down", &Write{Op: &Write_Delete{Delete: &Delete{Selector: &Selector{By: &Selector_Range{Range: &KeyRange{Start: []byte("b"), End: []byte("b")}}}}}}, Code_CODE_INVALID_ARGUMENT, "selector.range"},
		{"touch without ttl", &Write{Op: &Write_Touch{Touch: &Touch{Key: edge}}}, Code_CODE_INVALID_ARGUMENT, "ttl_ms"},
		{"grant without ttl", &Write{Op: &Write_GrantLease{GrantLease: &GrantLease{}}}, Code_CODE_INVALID_ARGUMENT, "ttl_ms"},
		{"keep-alive of 0", &Write{Op: &Write_KeepAliveLease{KeepAliveLease: &KeepAliveLease{}}}, Code_CODE_INVALID_ARGUMENT, "lease_id"},
		{"numbered keep-alive", &Write{SessionId: 1, Sequence: 1, Op: &Write_KeepAliveLease{KeepAliveLease: &KeepAliveLease{LeaseId: 1}}}, Code_CODE_INVALID_ARGUMENT, "session_id"},
		{"number without session", &Write{Sequence: 1, Op: put(&Put{Key: edge}).Op}, Code_CODE_INVALID_ARGUMENT, "session_id"},
		{"session without number", &Write{SessionId: 1, Op: put(&Put{Key: edge}).Op}, Code_CODE_INVALID_ARGUMENT, "sequence"},
		{"acknowledges itself", &Write{SessionId: 1, Sequence: 2, Acknowledged: 2, Op: put(&Put{Key: edge}).Op}, Code_CODE_INVALID_ARGUMENT, "acknowledged"},
		{"long idempotency key", &Write{IdempotencyKey: strings.Repeat("x", IdempotencyKeyMax+1), Op: put(&Put{Key: edge}).Op}, Code_CODE_INVALID_ARGUMENT, "idempotency_key"},
		{"txn get without limit", success(&TxnOp{Op: &TxnOp_Get{Get: &TxnGet{Selector: prefix("a")}}}), Code_CODE_INVALID_ARGUMENT, "success[1].limit"},
		{"txn long key", success(&TxnOp{Op: &TxnOp_Put{Put: &Put{Key: long}}}), Code_CODE_INVALID_ARGUMENT, "success[1].key"},
		{"txn empty operation", success(&TxnOp{}), Code_CODE_INVALID_ARGUMENT, "success[1].op"},
		{"value compares by order", txn(&Txn{Compares: []*Compare{{Key: edge, Operator: CompareOperator_COMPARE_OPERATOR_LESS, Target: &Compare_Value{Value: &Compare_NullableBytes{}}}}}), Code_CODE_INVALID_ARGUMENT, "compares[0].operator"},
		{"compare without target", txn(&Txn{Compares: []*Compare{{Key: edge, Operator: CompareOperator_COMPARE_OPERATOR_LESS}}}), Code_CODE_INVALID_ARGUMENT, "compares[0].target"},
		{"compare of a long key", txn(&Txn{Compares: []*Compare{{Key: long}}}), Code_CODE_INVALID_ARGUMENT, "compares[0].key"},
		{"too many compares", txn(&Txn{Compares: make([]*Compare, TxnComparesMax+1)}), Code_CODE_INVALID_ARGUMENT, "compares"},
		{"too many operations", txn(&Txn{Failure: make([]*TxnOp, TxnOperationsMax+1)}), Code_CODE_INVALID_ARGUMENT, "failure"},
		{"large txn", txn(&Txn{Success: []*TxnOp{{Op: &TxnOp_Put{Put: &Put{Key: edge, Value: make([]byte, 1<<20)}}}, {Op: &TxnOp_Put{Put: &Put{Key: edge, Value: make([]byte, 1<<20)}}}}}), Code_CODE_TOO_LARGE, "txn"},
		{"negative compact revision", &Write{Op: &Write_Compact{Compact: &Compact{Revision: ^uint64(0)}}}, Code_CODE_INVALID_ARGUMENT, "revision"},
		{"unknown setting", &Write{Op: &Write_SetConfig{SetConfig: &SetConfig{Config: &ClusterConfig{}, Fields: []string{"nope"}}}}, Code_CODE_INVALID_ARGUMENT, "fields[0]"},
		{"setting out of bounds", &Write{Op: &Write_SetConfig{SetConfig: &SetConfig{Config: &ClusterConfig{}, Fields: []string{"leases_max"}}}}, Code_CODE_INVALID_ARGUMENT, "config.leases_max"},
		{"index without extractor", &Write{Op: &Write_CreateIndex{CreateIndex: &CreateIndex{Definition: &IndexDefinition{Name: "i"}}}}, Code_CODE_INVALID_ARGUMENT, "definition.extractor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := ValidateWrite(c.write, cfg)
			if c.code == Code_CODE_OK {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			if err.Code() != c.code || err.Detail.Field != c.field {
				t.Errorf("got %s (%s), want %s (%s)", CodeName(err.Code()), err.Detail.Field, CodeName(c.code), c.field)
			}
			if err.Outcome() != Outcome_OUTCOME_NOT_APPLIED {
				t.Errorf("outcome %s", OutcomeName(err.Outcome()))
			}
		})
	}
}

// TestQueryRefusals is the same for reads and watches.
func TestQueryRefusals(t *testing.T) {
	long := bytes.Repeat([]byte("k"), KeyBytesMax+1)
	negative := ^uint64(0)
	for _, c := range []struct {
		name  string
		query *Query
		field string
	}{
		{"no query", &Query{}, "query"},
		{"unknown consistency", &Query{Consistency: 9}, "consistency"},
		{"empty key", &Query{Query: &Query_Get{Get: &GetRequest{}}}, "key"},
		{"negative revision", &Query{Query: &Query_Get{Get: &GetRequest{Key: []byte("a"), Revision: negative}}}, "revision"},
		{"no keys", &Query{Query: &Query_GetMany{GetMany: &GetManyRequest{}}}, "keys"},
		{"long key", &Query{Query: &Query_GetMany{GetMany: &GetManyRequest{Keys: [][]byte{[]byte("a"), long}}}}, "keys[1]"},
		{"list limit", &Query{Query: &Query_List{List: &ListRequest{Selector: prefix(""), Limit: ListLimitMax + 1}}}, "limit"},
		{"list without selector", &Query{Query: &Query_List{List: &ListRequest{}}}, "selector"},
		{"filter upside down", &Query{Query: &Query_List{List: &ListRequest{Selector: prefix(""), ModRevisionMin: 2, ModRevisionMax: 1}}}, "mod_revision_min"},
		{"history upside down", &Query{Query: &Query_History{History: &HistoryRequest{Key: []byte("a"), FromRevision: 2, ToRevision: 1}}}, "from_revision"},
		{"changes of a type unknown", &Query{Query: &Query_Changes{Changes: &ChangesRequest{Selector: prefix(""), Types: []EventType{9}}}}, "types[0]"},
		{"lease by nothing", &Query{Query: &Query_LeaseInfo{LeaseInfo: &LeaseInfoRequest{}}}, "lease_id"},
		{"lookup by both", &Query{Query: &Query_IndexLookup{IndexLookup: &IndexLookupRequest{Name: "i", EqualJson: []byte("1"), MinJson: []byte("1")}}}, "equal_json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := ValidateQuery(c.query)
			if err == nil {
				t.Fatal("accepted")
			}
			if err.Detail.Field != c.field {
				t.Errorf("field %q, want %q", err.Detail.Field, c.field)
			}
		})
	}
	for field, w := range map[string]*WatchRequest{
		"watch_id":      {Selector: prefix("")},
		"selector":      {WatchId: 1},
		"from_revision": {WatchId: 1, Selector: prefix(""), FromRevision: negative},
		"credit_events": {WatchId: 1, Selector: prefix(""), CreditEvents: WatchCreditEventsMax + 1},
		"progress_ms":   {WatchId: 1, Selector: prefix(""), ProgressMs: 1},
		"after":         {WatchId: 1, Selector: prefix(""), FromRevision: 1, After: &Position{}},
		"list":          {WatchId: 1, Selector: prefix(""), FromRevision: 1, List: &ListRequest{}},
	} {
		if err := ValidateWatch(w); err == nil || err.Detail.Field != field {
			t.Errorf("watch: got %v, want field %s", err, field)
		}
	}
}

// TestEveryWriteHasItsCommand fails when an operation is added to Write and
// forgotten in CommandOf, or gets another number than in Command.
func TestEveryWriteHasItsCommand(t *testing.T) {
	op := (&Write{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range op.Len() {
		f := op.Get(i)
		w := &Write{SessionId: 1, Sequence: 3, Acknowledged: 2, IdempotencyKey: "i"}
		w.ProtoReflect().Set(f, w.ProtoReflect().NewField(f))
		c := CommandOf(w)
		if c == nil {
			t.Errorf("%s: no command", f.Name())
			continue
		}
		var number protoreflect.FieldNumber
		if set := c.ProtoReflect().WhichOneof(c.ProtoReflect().Descriptor().Oneofs().ByName("op")); set != nil {
			number = set.Number()
		}
		if number != f.Number() {
			t.Errorf("%s: command %d, write %d", f.Name(), number, f.Number())
		}
		if c.SessionId != 1 || c.Sequence != 3 || c.Acknowledged != 2 || c.IdempotencyKey != "i" {
			t.Errorf("%s: numbers lost", f.Name())
		}
	}
}

// TestEverySettingHasBounds fails when a number is added to ClusterConfig and has
// no bounds.
func TestEverySettingHasBounds(t *testing.T) {
	if err := ValidateConfig(DefaultClusterConfig()); err != nil {
		t.Fatal(err)
	}
	fields := (&ClusterConfig{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if _, ok := configBounds[f.Name()]; !ok && !f.IsList() {
			t.Errorf("%s has no bounds", f.Name())
		}
	}
}

// TestRequestHash: the numbers of a session do not change it, the request does.
func TestRequestHash(t *testing.T) {
	hash := func(w *Write) string {
		h, err := RequestHash(w)
		if err != nil {
			t.Fatal(err)
		}
		return string(h)
	}
	op := &Write_Put{Put: &Put{Key: []byte("a"), Value: []byte("1")}}
	a := hash(&Write{Op: op, IdempotencyKey: "k"})
	if a != hash(&Write{Op: op, IdempotencyKey: "k", SessionId: 4, Sequence: 9}) {
		t.Error("a session number changed the hash")
	}
	if a == hash(&Write{Op: &Write_Put{Put: &Put{Key: []byte("a"), Value: []byte("2")}}, IdempotencyKey: "k"}) {
		t.Error("another value has the same hash")
	}
}

func TestErrorText(t *testing.T) {
	err := InvalidField("key", "must not be empty").WithOp(2)
	if got, want := err.Error(), "invalid_argument (key) [operation 2]: must not be empty"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if OutcomeOf(nil) != Outcome_OUTCOME_APPLIED || CodeOf(ErrorFrom(err.Detail)) != Code_CODE_INVALID_ARGUMENT {
		t.Error("code or outcome lost")
	}
}
