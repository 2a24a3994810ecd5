package etcd_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestLargeRange: an answer is put together of pages, all of one revision; a stream of it
// too.
func TestLargeRange(t *testing.T) {
	e := start(t)
	const n = 1_300
	value := bytes.Repeat([]byte("x"), 1_000) // more than one page by size as well
	for i := 0; i < n; i += 100 {
		var ops []*pb.RequestOp
		for j := i; j < i+100; j++ {
			ops = append(ops, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: fmt.Appendf(nil, "k%05d", j), Value: value}}})
		}
		if _, err := e.kv.Txn(e.ctx, &pb.TxnRequest{Success: ops}); err != nil {
			t.Fatal(err)
		}
	}
	all := &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}
	if r := e.get(all); len(r.Kvs) != n || r.Count != n || r.More {
		t.Fatalf("%d keys, count %d, more %v", len(r.Kvs), r.Count, r.More)
	}
	limited := &pb.RangeRequest{Key: all.Key, RangeEnd: all.RangeEnd, Limit: 1_200, SortOrder: pb.RangeRequest_DESCEND}
	if r := e.get(limited); len(r.Kvs) != 1_200 || r.Count != n || !r.More || string(r.Kvs[0].Key) != "k01299" {
		t.Fatalf("limited: %d keys, count %d, more %v", len(r.Kvs), r.Count, r.More)
	}
	stream, err := e.kv.RangeStream(e.ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	got, parts := 0, 0
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got += len(r.RangeResponse.Kvs)
		parts++
		if h := r.RangeResponse.Header; h != nil && (r.RangeResponse.Count != n || got != n) {
			t.Fatalf("the last part says %d of %d", r.RangeResponse.Count, got)
		}
	}
	if got != n || parts < 2 {
		t.Fatalf("%d keys in %d parts", got, parts)
	}
	// A range inside a transaction that the transaction itself cannot answer: it sees the
	// writes before it.
	r, err := e.kv.Txn(e.ctx, &pb.TxnRequest{Success: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k00000"), Value: []byte("new")}}},
		{Request: &pb.RequestOp_RequestRange{RequestRange: all}},
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k00001"), Value: []byte("later")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	kvs := r.Responses[1].GetResponseRange().Kvs
	if len(kvs) != n || string(kvs[0].Value) != "new" || kvs[0].Version != 2 || string(kvs[1].Value) != string(value) {
		t.Fatalf("inside: %d keys, %q, %q", len(kvs), kvs[0].Value[:3], kvs[1].Value[:3])
	}
}

// TestNested: nested transactions are decided by the state before all of them.
func TestNested(t *testing.T) {
	e := start(t)
	e.put("a", "1")
	is := func(key, value string) []*pb.Compare {
		return []*pb.Compare{{Key: []byte(key), Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte(value)}}}
	}
	put := func(key, value string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte(value)}}}
	}
	nested := func(r *pb.TxnRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
	}
	r, err := e.kv.Txn(e.ctx, &pb.TxnRequest{
		Compare: is("a", "1"),
		Success: []*pb.RequestOp{
			put("b", "1"),
			nested(&pb.TxnRequest{Compare: is("b", "1"), Success: []*pb.RequestOp{put("c", "wrong")}, Failure: []*pb.RequestOp{put("c", "right")}}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Succeeded || r.Responses[1].GetResponseTxn().Succeeded || r.Header.Revision != 3 {
		t.Fatalf("%v", r)
	}
	if got := e.get(&pb.RangeRequest{Key: []byte("c")}).Kvs[0]; string(got.Value) != "right" || got.ModRevision != 3 {
		t.Fatalf("%v", got)
	}
}
