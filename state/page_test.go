package state_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// pageMessage says in messages what a page says without copies.
func pageMessage(p *state.Page, keysOnly bool) *messages.ListReply {
	reply := &messages.ListReply{HasMore: p.HasMore, Count: p.Count, Revision: p.Revision}
	for _, r := range p.Records {
		reply.Records = append(reply.Records, shownMessage(r, keysOnly))
	}
	if key := p.LastKey(); key != "" {
		reply.LastKey = []byte(key)
	}
	return reply
}

func shownMessage(r state.Shown, keysOnly bool) *messages.Record {
	m := r.Proto(keysOnly)
	m.Metadata = nil
	r.EachMetadata(func(name, value string) bool {
		m.Metadata = append(m.Metadata, &messages.MetadataEntry{Name: name, Value: []byte(value)})
		return true
	})
	if r.HasTTL {
		m.RemainingTtlMs = proto.Int64(r.RemainingTTLMs)
	}
	if r.ExpiresAtUnixMs != 0 {
		m.ExpiresAtUnixMs = proto.Int64(r.ExpiresAtUnixMs)
	}
	return m
}

// TestReadsWithoutCopies: lists and gets that are encoded by their reader say, and
// refuse, what those in messages do. One page serves all of them.
func TestReadsWithoutCopies(t *testing.T) {
	m := rich(t).machine
	v, now := m.View(), state.Now{ClockMs: m.ClockMs() + 5, WallMs: 1_700_000_000_000}
	var page state.Page
	answers, withTTL, withMetadata, pages := 0, false, false, 0
	ask := func(l *messages.ListRequest) *messages.ListReply {
		t.Helper()
		q := &messages.Query{Query: &messages.Query_List{List: l}}
		want, refused := v.QueryAs(nil, q, now)
		err := v.ReadList(nil, q, now, &page)
		if diff := cmp.Diff(detail(refused), detail(err), protocmp.Transform()); diff != "" {
			t.Fatalf("%v is refused otherwise: %s", l, diff)
		}
		if err != nil {
			return nil
		}
		if diff := cmp.Diff(want.GetList(), pageMessage(&page, l.KeysOnly), protocmp.Transform()); diff != "" {
			t.Fatalf("%v: %s", l, diff)
		}
		for _, r := range page.Records {
			answers++
			withTTL = withTTL || r.HasTTL
			withMetadata = withMetadata || len(r.Metadata()) > 0
		}
		return want.GetList()
	}
	all := &messages.Selector{By: &messages.Selector_Prefix{}}
	for revision := range m.Revision() + 2 {
		ask(&messages.ListRequest{Selector: all, Revision: revision})
		ask(&messages.ListRequest{Selector: all, Revision: revision, Descending: true, KeysOnly: true})
		ask(&messages.ListRequest{Selector: all, Revision: revision, CountOnly: true})
		ask(&messages.ListRequest{Selector: all, ModRevisionMin: revision, CreateRevisionMax: revision})
	}
	for _, descending := range []bool{false, true} {
		for next := (&messages.ListRequest{Selector: all, Limit: 1, Descending: descending}); ; pages++ {
			l := ask(next)
			if !l.HasMore {
				break
			}
			next.AfterKey, next.Revision = l.LastKey, l.Revision
		}
	}
	ask(&messages.ListRequest{})
	ask(&messages.ListRequest{Selector: all, Limit: messages.ListLimitMax + 1})
	if answers < 50 || pages < 8 || !withTTL || !withMetadata {
		t.Fatalf("%d records, %d pages, ttl %v, metadata %v: this asked for little", answers, pages, withTTL, withMetadata)
	}

	everything, err := v.QueryAs(nil, &messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{Selector: all}}}, now)
	if err != nil {
		t.Fatal(err)
	}
	keys := [][]byte{nil, []byte("none of these")}
	for _, r := range everything.GetList().GetRecords() {
		keys = append(keys, r.Key)
	}
	for _, key := range keys {
		for revision := range m.Revision() + 2 {
			q := &messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: key, Revision: revision}}}
			want, refused := v.QueryAs(nil, q, now)
			r, found, err := v.ReadGet(nil, q, now)
			if diff := cmp.Diff(detail(refused), detail(err), protocmp.Transform()); diff != "" {
				t.Fatalf("%q at %d is refused otherwise: %s", key, revision, diff)
			}
			var got *messages.Record
			if found {
				got = shownMessage(r, false)
			}
			if diff := cmp.Diff(want.GetGet().GetRecord(), got, protocmp.Transform()); diff != "" {
				t.Fatalf("%q at %d: %s", key, revision, diff)
			}
		}
	}
}

// sent is a reply as its receiver sees it.
func sent(t *testing.T, r *messages.QueryReply) *messages.QueryReply {
	t.Helper()
	b, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got := new(messages.QueryReply)
	if err := proto.Unmarshal(b, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestEncodedReads: what is encoded where it is stored says, and is refused, what messages
// are made of and then encoded; it is of the same size to whoever counts; and protobuf and
// the hand-written encoder make the same of it.
func TestEncodedReads(t *testing.T) {
	m := rich(t).machine
	v, now := m.View(), state.Now{ClockMs: m.ClockMs() + 5, WallMs: 1_700_000_000_000}
	records, refusals := 0, 0
	ask := func(q *messages.Query) {
		t.Helper()
		want, refused := v.QueryAs(nil, q, now)
		got, err := v.QueryEncoded(nil, q, now)
		if diff := cmp.Diff(detail(refused), detail(err), protocmp.Transform()); diff != "" {
			t.Fatalf("%v is refused otherwise: %s", q, diff)
		}
		if err != nil {
			refusals++
			return
		}
		if diff := cmp.Diff(sent(t, want), sent(t, got), protocmp.Transform()); diff != "" {
			t.Fatalf("%v: %s", q, diff)
		}
		if size, need := messages.MessageSize(got), proto.Size(got); size != need || need != proto.Size(want) {
			t.Fatalf("%v: %d bytes by hand, %d by protobuf, %d in messages", q, size, need, proto.Size(want))
		}
		m := &messages.ServerMessage{Message: &messages.ServerMessage_Replies{Replies: &messages.Replies{Replies: []*messages.Reply{
			{Call: 7, Reply: &messages.Reply_Query{Query: got}},
		}}}}
		size, ok := messages.EncodedSize(m)
		if !ok {
			if q.GetGet() != nil || q.GetList() != nil {
				t.Fatalf("%v: left to protobuf", q)
			}
			return
		}
		b := make([]byte, size)
		messages.Encode(b, m)
		var again messages.ServerMessage
		if err := messages.UnmarshalServerMessage(b, &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent(t, want), again.GetReplies().GetReplies()[0].GetQuery(), protocmp.Transform()); diff != "" {
			t.Fatalf("%v, by hand: %s", q, diff)
		}
		records += len(want.GetList().GetRecords())
	}
	all := &messages.Selector{By: &messages.Selector_Prefix{}}
	list := func(l *messages.ListRequest) { ask(&messages.Query{Query: &messages.Query_List{List: l}}) }
	for revision := range m.Revision() + 2 {
		list(&messages.ListRequest{Selector: all, Revision: revision})
		list(&messages.ListRequest{Selector: all, Revision: revision, Descending: true, KeysOnly: true})
		list(&messages.ListRequest{Selector: all, Revision: revision, CountOnly: true})
		list(&messages.ListRequest{Selector: all, Revision: revision, Limit: 2})
	}
	list(&messages.ListRequest{})
	for key := range keysIn(t, v) {
		for revision := range m.Revision() + 2 {
			ask(&messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte(key), Revision: revision}}})
		}
	}
	ask(&messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte("none of these")}}})
	ask(&messages.Query{Query: &messages.Query_Revision{Revision: &messages.RevisionRequest{}}})
	if records < 50 || refusals == 0 {
		t.Fatalf("%d records, %d refusals: this asked for little", records, refusals)
	}
}

// keysIn are the keys of a view.
func keysIn(t *testing.T, v *state.View) map[string]bool {
	t.Helper()
	r, err := v.QueryAs(nil, &messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{Selector: &messages.Selector{By: &messages.Selector_Prefix{}}}}}, state.Now{})
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, rec := range r.GetList().GetRecords() {
		keys[string(rec.GetKey())] = true
	}
	return keys
}

func detail(err *messages.Error) *messages.ErrorDetail {
	if err == nil {
		return nil
	}
	return err.Detail
}
