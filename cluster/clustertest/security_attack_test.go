package clustertest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/cluster/credential"
	"github.com/concord-kv/concord/messages"
)

// answer returns what an operation is answered with.
func (w *wire) answer(op *messages.Operation) *messages.Reply {
	w.t.Helper()
	w.call++
	f := &messages.Frame{ClientEpoch: 1, FirstCall: w.call, TimeoutMs: 60_000, Operations: []*messages.Operation{op}}
	if err := w.s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: f}}); err != nil {
		w.t.Fatalf("%v: %v", op, err)
	}
	for {
		m, err := w.receive()
		if err != nil {
			w.t.Fatalf("%v: %v", op, err)
		}
		for _, r := range m.GetReplies().GetReplies() {
			if r.Call == w.call {
				r.Call = 0
				return r
			}
		}
	}
}

func codeOf(r *messages.Reply) messages.Code {
	if e := r.GetResult().GetError(); e != nil {
		return e.GetCode()
	}
	return r.GetError().GetCode()
}

func (s *securityNode) as(name string) *wire {
	s.t.Helper()
	w, err := s.open(s.tls(name, nil), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

func keySelector(key string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Key{Key: []byte(key)}}
}

func prefixSelector(prefix string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte(prefix)}}
}

func rangeSelector(start, end string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: []byte(start), End: []byte(end)}}}
}

func listOp(l *messages.ListRequest) *messages.Operation {
	return queryOp(&messages.Query{Query: &messages.Query_List{List: l}})
}

func txnOp(t *messages.Txn) *messages.Operation {
	return writeOp(&messages.Write{Op: &messages.Write_Txn{Txn: t}})
}

// TestSecurityAttack is a client with few rights that looks for a way round them.
func TestSecurityAttack(t *testing.T) {
	s := newSecurityNode(t)
	for _, a := range []struct {
		name string
		run  func(*testing.T, *securityNode)
	}{
		{"hidden keys and missing ones answer alike", attackByExistence},
		{"selectors that reach outside", attackBySelector},
		{"continuations that reach outside", attackByContinuation},
		{"idempotency keys of others", attackByIdempotency},
		{"leases of others", attackByLease},
		{"a token that ends soon", attackByToken},
		{"names and passwords", attackByPassword},
		{"another user on an open connection", attackByCredentials},
		{"the port for operators", attackByAdminPort},
	} {
		t.Run(a.name, func(t *testing.T) { a.run(t, s) })
	}
}

// attackByExistence: what is refused does not tell whether the key is there, in the
// answer, its text, or its size.
func attackByExistence(t *testing.T, s *securityNode) {
	asks := map[string]func(key string) *messages.Operation{
		"get": func(k string) *messages.Operation {
			return queryOp(&messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte(k)}}})
		},
		"get_many": func(k string) *messages.Operation {
			return queryOp(&messages.Query{Query: &messages.Query_GetMany{GetMany: &messages.GetManyRequest{Keys: [][]byte{keyA, []byte(k)}}}})
		},
		"list": func(k string) *messages.Operation { return listOp(&messages.ListRequest{Selector: prefixSelector(k)}) },
		"count": func(k string) *messages.Operation {
			return listOp(&messages.ListRequest{Selector: keySelector(k), CountOnly: true})
		},
		"history": func(k string) *messages.Operation {
			return queryOp(&messages.Query{Query: &messages.Query_History{History: &messages.HistoryRequest{Key: []byte(k)}}})
		},
		"changes": func(k string) *messages.Operation {
			return queryOp(&messages.Query{Query: &messages.Query_Changes{Changes: &messages.ChangesRequest{Selector: keySelector(k), PrevKv: true}}})
		},
		"put": func(k string) *messages.Operation {
			return writeOp(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte(k), IgnoreValue: true}}})
		},
		"put_many": func(k string) *messages.Operation {
			return writeOp(&messages.Write{Op: &messages.Write_PutMany{PutMany: &messages.PutMany{Puts: []*messages.Put{{Key: []byte(k), IgnoreLease: true}}}}})
		},
		"delete": func(k string) *messages.Operation {
			return writeOp(&messages.Write{Op: &messages.Write_Delete{Delete: &messages.Delete{Selector: keySelector(k), PrevKv: true}}})
		},
		"touch": func(k string) *messages.Operation {
			return writeOp(&messages.Write{Op: &messages.Write_Touch{Touch: &messages.Touch{Key: []byte(k), TtlMs: 60_000}}})
		},
		"txn compare": func(k string) *messages.Operation {
			return txnOp(&messages.Txn{Compares: []*messages.Compare{{Key: []byte(k), Operator: messages.CompareOperator_COMPARE_OPERATOR_EQUAL, Target: &messages.Compare_Version{}}}})
		},
		"txn get": func(k string) *messages.Operation {
			return txnOp(&messages.Txn{Failure: []*messages.TxnOp{{Op: &messages.TxnOp_Get{Get: &messages.TxnGet{Selector: keySelector(k)}}}}})
		},
		"txn delete": func(k string) *messages.Operation {
			return txnOp(&messages.Txn{Success: []*messages.TxnOp{{Op: &messages.TxnOp_Delete{Delete: &messages.Delete{Selector: keySelector(k)}}}}})
		},
		"watch": func(k string) *messages.Operation {
			return &messages.Operation{Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{WatchId: 1, Selector: keySelector(k), FromRevision: 1, PrevKv: true}}}
		},
	}
	for _, user := range []string{"none", "reader", "writer", "leaser", "admin"} {
		w := s.as(user)
		for name, ask := range asks {
			there, missing := w.answer(ask("/secret/1")), w.answer(ask("/secret/2"))
			if codeOf(there) != messages.Code_CODE_PERMISSION_DENIED || !proto.Equal(there, missing) {
				t.Errorf("%s as %s: of a key that is there %v, of one that is not %v", name, user, there, missing)
			}
		}
		s.sawNothing(t, user, w)
	}
}

func (s *securityNode) sawNothing(t *testing.T, who string, w *wire) {
	t.Helper()
	if bytes.Contains(w.seen.Bytes(), []byte(secret)) || bytes.Contains(w.seen.Bytes(), []byte("/secret/")) {
		t.Errorf("%s was told of what it must not see", who)
	}
}

// attackBySelector: a selector with a part outside of the rights is refused as a whole.
func attackBySelector(t *testing.T, s *securityNode) {
	w := s.as("reader")
	for i, sel := range []*messages.Selector{
		prefixSelector(""), prefixSelector("/"), prefixSelector("/a"), rangeSelector("/a/", "/b"), rangeSelector("/a/", ""),
		rangeSelector("/", "/a/2"), rangeSelector("/a/", "/a0\x00"), rangeSelector("/a/1", "/secret/2"),
	} {
		for name, op := range map[string]*messages.Operation{
			"list":        listOp(&messages.ListRequest{Selector: sel, KeysOnly: true, Limit: 1}),
			"old list":    listOp(&messages.ListRequest{Selector: sel, Revision: 7}),
			"by revision": listOp(&messages.ListRequest{Selector: sel, ModRevisionMin: 1, Descending: true}),
			"changes":     queryOp(&messages.Query{Query: &messages.Query_Changes{Changes: &messages.ChangesRequest{Selector: sel}}}),
			"txn get":     txnOp(&messages.Txn{Success: []*messages.TxnOp{{Op: &messages.TxnOp_Get{Get: &messages.TxnGet{Selector: sel, Limit: 10}}}}}),
			"watch": {Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{
				WatchId: uint64(i + 1), Selector: sel, FromRevision: 1, Types: []messages.EventType{messages.EventType_EVENT_TYPE_DELETE}, KeysOnly: true,
			}}},
			"list and watch": {Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{
				WatchId: uint64(i + 1), Selector: sel, List: &messages.ListRequest{},
			}}},
		} {
			if r := w.answer(op); codeOf(r) != messages.Code_CODE_PERMISSION_DENIED {
				t.Errorf("%s of %v: %v", name, sel, r)
			}
		}
	}
	if r := w.answer(listOp(&messages.ListRequest{Selector: rangeSelector("/a/", "/a0")})); codeOf(r) != 0 || len(r.GetQuery().GetList().GetRecords()) == 0 {
		t.Errorf("all that may be read, as a range: %v", r)
	}
	s.sawNothing(t, "reader", w)
}

// attackByContinuation: a place to go on from that was not given out leads nowhere else.
func attackByContinuation(t *testing.T, s *securityNode) {
	w := s.as("reader")
	for _, l := range []*messages.ListRequest{
		{Selector: prefixA, AfterKey: []byte("/secret/")}, {Selector: prefixA, AfterKey: []byte("/secret/2"), Descending: true},
		{Selector: prefixA, AfterKey: []byte("/")}, {Selector: prefixA, AfterKey: []byte("\xff"), Descending: true}, {Selector: prefixA, AfterKey: []byte("/b"), CountOnly: true},
	} {
		for _, rec := range w.answer(listOp(l)).GetQuery().GetList().GetRecords() {
			if !strings.HasPrefix(string(rec.Key), "/a/") {
				t.Errorf("after %q: %s", l.AfterKey, rec.Key)
			}
		}
	}
	for _, after := range []*messages.Position{nil, {Revision: 1}, {Revision: 7}, {Revision: 1 << 60}} {
		w.answer(queryOp(&messages.Query{Query: &messages.Query_Changes{Changes: &messages.ChangesRequest{Selector: prefixA, After: after, PrevKv: true}}}))
		w.answer(queryOp(&messages.Query{Query: &messages.Query_History{History: &messages.HistoryRequest{Key: keyA, After: after}}}))
	}
	for _, after := range []string{"", "/secret/", "\x00", "\xff\xff\xff\xff", strings.Repeat("x", 300)} {
		r := w.answer(queryOp(&messages.Query{Query: &messages.Query_IndexLookup{IndexLookup: &messages.IndexLookupRequest{Name: "secrets", After: []byte(after), KeysOnly: true}}}))
		if codeOf(r) == 0 {
			t.Errorf("the index of everything after %q: %v", after, r)
		}
	}
	s.sawNothing(t, "reader", w)
}

// attackByIdempotency: what another user did under a key is neither told nor in the way.
func attackByIdempotency(t *testing.T, s *securityNode) {
	put := func(key, value string) *messages.Operation {
		return writeOp(&messages.Write{IdempotencyKey: "order-1", Op: &messages.Write_Put{Put: &messages.Put{Key: []byte(key), Value: []byte(value)}}})
	}
	resolve := func(fence bool) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_ResolveIdempotency{ResolveIdempotency: &messages.ResolveIdempotency{Key: "order-1", Fence: fence}}})
	}
	root, writer, reader := s.as("root"), s.as("writer"), s.as("reader")
	if r := root.answer(put("/secret/1", fmt.Sprintf("%q", secret))); codeOf(r) != 0 {
		t.Fatal(r)
	}
	state := func(r *messages.Reply) messages.ResolveIdempotencyResult_State {
		return r.GetResult().GetResolveIdempotency().GetState()
	}
	if r := reader.answer(resolve(false)); state(r) != messages.ResolveIdempotencyResult_STATE_NOT_FOUND {
		t.Errorf("resolved by another: %v", r)
	}
	if r := reader.answer(resolve(true)); state(r) != messages.ResolveIdempotencyResult_STATE_FENCED {
		t.Errorf("fenced by another: %v", r)
	}
	if r := writer.answer(put("/a/1", "public")); codeOf(r) != 0 {
		t.Errorf("another's key is in the way: %v", r)
	}
	if r := root.answer(resolve(false)); state(r) != messages.ResolveIdempotencyResult_STATE_RECORDED {
		t.Errorf("root's own is gone: %v", r)
	}
	s.sawNothing(t, "reader", reader)
	s.sawNothing(t, "writer", writer)
}

// attackByLease: somebody else's lease is neither used, ended, prolonged nor looked into;
// one's own does not tell what root hangs on it.
func attackByLease(t *testing.T, s *securityNode) {
	ctx := t.Context()
	theirs, err := s.root.Grant(ctx, time.Hour, client.GrantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"/a/hung", "/secret/hung"} {
		if _, err := s.root.Put(ctx, key, []byte(secret), client.PutOptions{LeaseID: theirs.LeaseID}); err != nil {
			t.Fatal(err)
		}
	}
	w := s.as("leaser")
	id := theirs.LeaseID
	attach := &messages.Put{Key: []byte("/a/x"), LeaseId: id, MoveLease: true}
	for name, op := range map[string]*messages.Operation{
		"keep alive":   writeOp(&messages.Write{Op: &messages.Write_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLease{LeaseId: id}}}),
		"revoke":       writeOp(&messages.Write{Op: &messages.Write_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: id}}}),
		"attach":       writeOp(&messages.Write{Op: &messages.Write_Put{Put: attach}}),
		"attach, many": writeOp(&messages.Write{Op: &messages.Write_PutMany{PutMany: &messages.PutMany{Puts: []*messages.Put{attach}}}}),
		"attach, txn":  txnOp(&messages.Txn{Success: []*messages.TxnOp{{Op: &messages.TxnOp_Put{Put: attach}}}}),
		"cursor":       writeOp(&messages.Write{Op: &messages.Write_OpenCursor{OpenCursor: &messages.OpenCursor{Name: "mine", LeaseId: id, AfterRevision: 1}}}),
		"look":         queryOp(&messages.Query{Query: &messages.Query_LeaseInfo{LeaseInfo: &messages.LeaseInfoRequest{LeaseId: id, Keys: true}}}),
		"steal a key":  writeOp(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("/secret/hung"), MoveLease: true}}}),
	} {
		if r := w.answer(op); codeOf(r) != messages.Code_CODE_PERMISSION_DENIED {
			t.Errorf("%s: %v", name, r)
		}
	}
	for _, l := range w.answer(queryOp(&messages.Query{Query: &messages.Query_LeaseList{LeaseList: &messages.LeaseListRequest{IncludeAnonymous: true}}})).GetQuery().GetLeaseList().GetLeases() {
		if l.Id == id {
			t.Errorf("the list of leases has another's: %v", l)
		}
	}
	own := w.answer(writeOp(&messages.Write{Op: &messages.Write_GrantLease{GrantLease: &messages.GrantLease{TtlMs: 600_000}}})).GetResult().GetGrantLease().GetLeaseId()
	if _, err := s.root.Put(ctx, "/secret/hung too", []byte(secret), client.PutOptions{LeaseID: own}); err != nil {
		t.Fatal(err)
	}
	info := w.answer(queryOp(&messages.Query{Query: &messages.Query_LeaseInfo{LeaseInfo: &messages.LeaseInfoRequest{LeaseId: own, Keys: true}}}))
	if codeOf(info) != 0 || len(info.GetQuery().GetLeaseInfo().GetLease().GetKeys()) != 0 {
		t.Errorf("one's own lease: %v", info)
	}
	s.sawNothing(t, "leaser", w)
}

// attackByToken: who stole a token has it until it ends and no longer: it buys neither a
// longer one nor a password.
func attackByToken(t *testing.T, s *securityNode) {
	setPassword := func(name string) *messages.Operation {
		hash, err := credential.HashPassword("an attacker's password", messages.PasswordRoundsMin)
		if err != nil {
			t.Fatal(err)
		}
		return changeOp(&messages.ChangeAuth{Change: &messages.ChangeAuth_SetPassword{SetPassword: &messages.SetPassword{Name: name, PasswordHash: hash}}})
	}
	token := func(ttl time.Duration) *messages.Operation {
		return &messages.Operation{Operation: &messages.Operation_Token{Token: &messages.TokenRequest{TtlMs: ttl.Milliseconds()}}}
	}
	before := time.Now()
	w, err := s.open(certs.ClientTLS(s.ca.Pool(), nil), &messages.Credentials{Token: s.token("leaser", 5*time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if r := w.answer(token(24 * time.Hour)); r.GetToken().GetExpiresUnixMs() > before.Add(30*time.Minute).UnixMilli() || codeOf(r) != 0 {
		t.Errorf("a longer token: %v", r)
	}
	for _, name := range []string{"leaser", "root"} {
		if r := w.answer(setPassword(name)); codeOf(r) != messages.Code_CODE_PERMISSION_DENIED {
			t.Errorf("the password of %s by a token: %v", name, r)
		}
	}
	if _, err := s.open(certs.ClientTLS(s.ca.Pool(), nil), &messages.Credentials{User: "leaser", Password: "an attacker's password"}); messages.CodeOf(err) != messages.Code_CODE_UNAUTHENTICATED {
		t.Errorf("the attacker's password: %v", err)
	}
	if r := s.as("leaser").answer(setPassword("leaser")); codeOf(r) != 0 {
		t.Errorf("one's own password, by a certificate: %v", r)
	}
	if r := w.answer(token(0)); codeOf(r) != messages.Code_CODE_UNAUTHENTICATED {
		t.Errorf("the token after the password changed: %v", r)
	}
}

// attackByPassword: nothing tells a user from nobody.
func attackByPassword(t *testing.T, s *securityNode) {
	var texts []string
	for _, name := range []string{"root", "reader", "nobody at all"} {
		_, err := s.open(certs.ClientTLS(s.ca.Pool(), nil), &messages.Credentials{User: name, Password: "guess guess guess"})
		texts = append(texts, fmt.Sprint(messages.DetailOf(err)))
	}
	if texts[0] != texts[1] || texts[1] != texts[2] {
		t.Errorf("refused with %q", texts)
	}
}

// attackByCredentials: a connection does not change hands, and stays whose it is.
func attackByCredentials(t *testing.T, s *securityNode) {
	w := s.as("reader")
	for _, c := range []*messages.Credentials{{Token: s.token("root", time.Hour)}, {User: "root", Password: securityPassword}, {Recovery: []byte("guess")}, {Token: "cct1.e30.e30"}} {
		if err := w.s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Credentials{Credentials: c}}); err != nil {
			t.Fatal(err)
		}
		for answered := false; !answered; {
			m, err := w.receive()
			if err != nil {
				t.Fatal(err)
			}
			if a := m.GetAuthenticated(); a != nil {
				answered = true
				if a.GetError() == nil || a.GetUser() != "reader" {
					t.Errorf("%v: %v", c, a)
				}
			}
		}
		if code := w.ask(securityVerbNamed("put")); code != messages.Code_CODE_PERMISSION_DENIED {
			t.Errorf("a put after %v: %v", c, code)
		}
	}
}

// attackByAdminPort: it tells counts, and takes nothing.
func attackByAdminPort(t *testing.T, s *securityNode) {
	base := "http://" + s.node.AdminAddr()
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/metrics", http.StatusOK}, {http.MethodGet, "/healthz", http.StatusOK},
		{http.MethodPost, "/metrics", http.StatusMethodNotAllowed}, {http.MethodPut, "/healthz", http.StatusMethodNotAllowed},
		{http.MethodGet, "/debug/pprof/heap", http.StatusNotFound}, {http.MethodGet, "/debug/pprof/profile", http.StatusNotFound},
		{http.MethodGet, "/backup", http.StatusNotFound}, {http.MethodGet, "/inspect", http.StatusNotFound}, {http.MethodGet, "/", http.StatusNotFound},
		{http.MethodGet, "/..%2f..%2fetc/passwd", http.StatusNotFound}, {http.MethodPost, "/v3/kv/range", http.StatusNotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, base+c.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode != c.status {
			t.Errorf("%s %s: %s %v, want %d", c.method, c.path, a.Status, err, c.status)
		}
		for _, hidden := range []string{secret, "/secret/", "/a/1", "leaser", securityPassword} {
			if bytes.Contains(b, []byte(hidden)) {
				t.Errorf("%s %s tells of %s", c.method, c.path, hidden)
			}
		}
	}
}
