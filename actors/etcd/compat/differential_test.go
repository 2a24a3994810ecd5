package compat

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// TestDifferential gives the same random requests to etcd and to us, one after the other.
// Answers must be equal in every field but the ids of cluster and member, terms, and times;
// errors in code and text; and so must the events that a watch of everything saw.
// CONCORD_ETCD_OPERATIONS sets how many, CONCORD_ETCD_SEED replays.
func TestDifferential(t *testing.T) {
	seed := fromEnv(t, "CONCORD_ETCD_SEED", time.Now().UnixNano())
	n := fromEnv(t, "CONCORD_ETCD_OPERATIONS", 4_000)
	defer func() {
		if t.Failed() {
			t.Logf("replay with CONCORD_ETCD_SEED=%d CONCORD_ETCD_OPERATIONS=%d", seed, n)
		}
	}()
	we, they := ours(t), theirs(t)
	ctx := deadline(t, 30*time.Minute)
	d := &differential{
		t: t, ctx: ctx, we: we, they: they, compacted: 1,
		generator: generator{Rand: rand.New(rand.NewPCG(uint64(seed), 1)), revision: 1},
	}
	ourEvents, theirEvents := startRecording(t, ctx, we), startRecording(t, ctx, they)
	kinds := map[string]int{}
	for i := range n {
		kinds[d.step()]++
		if d.differences >= differencesMax {
			t.Fatalf("at operation %d", i)
		}
	}
	last := d.end()
	a, b := ourEvents.until(t, last), theirEvents.until(t, last)
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || !proto.Equal(a[i], b[i]) {
			t.Fatalf("event %d of %d and %d differs:\nconcord: %v\netcd: %v", i, len(a), len(b), at(a, i), at(b, i))
		}
	}
	t.Logf("%d operations, %d events, equal; by kind: %v", n, len(a), kinds)
}

func at(list []*mvccpb.Event, i int) string {
	if i >= len(list) {
		return "none"
	}
	return prototext.Format(list[i])
}

type differential struct {
	generator
	t         *testing.T
	ctx       context.Context
	we, they  *services
	compacted int64
	nextLease int64
	// differences that were found: a few may tell more than one.
	differences int
}

const differencesMax = 5

// step does one operation on both and compares the answers.
func (d *differential) step() string {
	switch n := d.IntN(1000); {
	case n < 300:
		r := d.put()
		return check(d, "put", r, func(s *services) (*pb.PutResponse, error) { return s.kv.Put(d.ctx, proto.CloneOf(r)) })
	case n < 560:
		r := d.rangeRequest()
		return check(d, "range", r, func(s *services) (*pb.RangeResponse, error) { return s.kv.Range(d.ctx, proto.CloneOf(r)) })
	case n < 640:
		r := d.deleteRange()
		return check(d, "delete", r, func(s *services) (*pb.DeleteRangeResponse, error) { return s.kv.DeleteRange(d.ctx, proto.CloneOf(r)) })
	case n < 900:
		r := d.txn(2)
		return check(d, "txn", r, func(s *services) (*pb.TxnResponse, error) { return s.kv.Txn(d.ctx, proto.CloneOf(r)) })
	case n < 910:
		r := &pb.CompactionRequest{Revision: max(2, d.compacted-1, d.revision-10-d.Int64N(60)), Physical: true}
		if d.chance(20) {
			r.Revision = d.revision + 1
		}
		d.compacted = max(d.compacted, min(r.Revision, d.revision))
		return check(d, "compact", r, func(s *services) (*pb.CompactionResponse, error) { return s.kv.Compact(d.ctx, proto.CloneOf(r)) })
	case n < 940:
		r := &pb.LeaseGrantRequest{TTL: 5_000 + d.Int64N(100), ID: d.leaseID()}
		if d.chance(3) {
			r.TTL = 9_000_000_001
		} else {
			d.leases = append(d.leases, r.ID)
		}
		return check(d, "grant", r, func(s *services) (*pb.LeaseGrantResponse, error) { return s.lease.LeaseGrant(d.ctx, r) })
	case n < 960:
		r := &pb.LeaseRevokeRequest{ID: d.someLease()}
		return check(d, "revoke", r, func(s *services) (*pb.LeaseRevokeResponse, error) { return s.lease.LeaseRevoke(d.ctx, r) })
	case n < 980:
		r := &pb.LeaseTimeToLiveRequest{ID: d.someLease(), Keys: d.chance(70)}
		return check(d, "timetolive", r, func(s *services) (*pb.LeaseTimeToLiveResponse, error) {
			a, err := s.lease.LeaseTimeToLive(d.ctx, r)
			if a.GetTTL() > 0 {
				a.TTL = 1 // it is a time
			}
			slices.SortFunc(a.GetKeys(), slices.Compare)
			return a, err
		})
	case n < 985:
		r := &pb.LeaseLeasesRequest{}
		return check(d, "leases", r, func(s *services) (*pb.LeaseLeasesResponse, error) {
			a, err := s.lease.LeaseLeases(d.ctx, r)
			slices.SortFunc(a.GetLeases(), func(x, y *pb.LeaseStatus) int { return int(x.ID - y.ID) })
			return a, err
		})
	default:
		r := d.rangeRequest()
		if r.SortOrder == 0 {
			r.SortTarget = 0 // etcd sorts each part of the stream for itself
		}
		if d.chance(80) {
			r.SortOrder, r.SortTarget, r.MinModRevision, r.MaxModRevision, r.MinCreateRevision, r.MaxCreateRevision = 0, 0, 0, 0, 0, 0
		}
		return check(d, "rangestream", r, func(s *services) (*pb.RangeResponse, error) { return collect(d.ctx, s, proto.CloneOf(r)) })
	}
}

// leaseID returns a new id, or now and then one that is taken.
func (d *differential) leaseID() int64 {
	if len(d.leases) > 0 && d.chance(20) {
		return d.leases[d.IntN(len(d.leases))]
	}
	d.nextLease++
	return d.nextLease
}

// collect puts a streamed range together.
func collect(ctx context.Context, s *services, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	stream, err := s.kv.RangeStream(ctx, r)
	if err != nil {
		return nil, err
	}
	all := &pb.RangeResponse{}
	for {
		part, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		all.Kvs = append(all.Kvs, part.RangeResponse.Kvs...)
		if h := part.RangeResponse.Header; h != nil {
			all.Header, all.Count, all.More = h, part.RangeResponse.Count, part.RangeResponse.More
			return all, nil
		}
	}
}

type answerWithHeader interface {
	proto.Message
	GetHeader() *pb.ResponseHeader
}

// check gives one request to both.
func check[A answerWithHeader](d *differential, kind string, request proto.Message, do func(*services) (A, error)) string {
	d.t.Helper()
	theirs, theirErr := do(d.they)
	ours, ourErr := do(d.we)
	if a, b := status.Convert(ourErr), status.Convert(theirErr); a.Code() != b.Code() || a.Message() != b.Message() {
		d.differences++
		d.t.Errorf("%s %v\nconcord: %v\netcd: %v", kind, prototext.Format(request), ourErr, theirErr)
		return kind
	}
	if theirErr != nil {
		return kind
	}
	for _, h := range []*pb.ResponseHeader{ours.GetHeader(), theirs.GetHeader()} {
		h.ClusterId, h.MemberId, h.RaftTerm = 0, 0, 0
	}
	if !proto.Equal(ours, theirs) {
		d.differences++
		d.t.Errorf("%s %v\nconcord: %v\netcd: %v", kind, prototext.Format(request), prototext.Format(ours), prototext.Format(theirs))
	}
	d.revision = max(d.revision, theirs.GetHeader().GetRevision())
	return kind
}

// end writes once more and returns the revision of that.
func (d *differential) end() int64 {
	r := &pb.PutRequest{Key: []byte("end")}
	check(d, "put", r, func(s *services) (*pb.PutResponse, error) { return s.kv.Put(d.ctx, r) })
	return d.revision
}

// recording is the events that a watch of every key sees.
type recording struct {
	name   string
	events chan *pb.WatchResponse
}

func startRecording(t *testing.T, ctx context.Context, s *services) *recording {
	t.Helper()
	stream, err := s.watch.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte{0}, RangeEnd: []byte{0},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	created, err := stream.Recv()
	if err != nil || !created.Created || created.WatchId != 0 {
		t.Fatalf("%s: %v %v", s.name, created, err)
	}
	r := &recording{s.name, make(chan *pb.WatchResponse, 1<<20)}
	go func() {
		defer close(r.events)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			r.events <- m
		}
	}()
	return r
}

// until returns the events up to a revision, those of each revision in order of keys: etcd
// deletes the keys of a lease in any order.
func (r *recording) until(t *testing.T, revision int64) (list []*mvccpb.Event) {
	t.Helper()
	for len(list) == 0 || list[len(list)-1].Kv.ModRevision < revision {
		select {
		case m, ok := <-r.events:
			if !ok || m.Canceled {
				t.Fatalf("%s: the watch ended: %v", r.name, m)
			}
			list = append(list, m.Events...)
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s: the watch stands at %d events", r.name, len(list))
		}
	}
	slices.SortStableFunc(list, func(a, b *mvccpb.Event) int {
		if a.Kv.ModRevision != b.Kv.ModRevision {
			return int(a.Kv.ModRevision - b.Kv.ModRevision)
		}
		return slices.Compare(a.Kv.Key, b.Kv.Key)
	})
	return list
}
