package etcd

import (
	"encoding/binary"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/concord-kv/concord/messages"
)

// outRevision returns one of our revisions as etcd's: an empty store is at 1 there.
func outRevision(ours uint64) int64 { return int64(ours) + 1 }

// outRecordRevision is for revisions of records, where 0 means "none".
func outRecordRevision(ours uint64) int64 {
	if ours == 0 {
		return 0
	}
	return int64(ours) + 1
}

// header returns the header of an answer at one of our revisions.
func (s *Server) header(ours uint64) *pb.ResponseHeader {
	h := s.bareHeader()
	h.Revision = outRevision(ours)
	return h
}

// bareHeader has no revision.
func (s *Server) bareHeader() *pb.ResponseHeader {
	f := s.cfg.Facts()
	return &pb.ResponseHeader{ClusterId: clusterNumber(f.ClusterID), MemberId: f.ReplicaID, RaftTerm: f.RaftTerm}
}

// clusterNumber makes etcd's number of our cluster id.
func clusterNumber(id []byte) uint64 {
	if len(id) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(id)
}

// keyValue returns a record as etcd shows it.
func (s *Server) keyValue(r *messages.Record) *mvccpb.KeyValue {
	if r == nil {
		return nil
	}
	return &mvccpb.KeyValue{
		Key: r.Key, Value: r.Value, Version: int64(r.Version),
		CreateRevision: outRecordRevision(r.CreateRevision), ModRevision: outRecordRevision(r.ModRevision),
		Lease: s.leases.ofRecord(r),
	}
}

func (s *Server) keyValues(list []*messages.Record) []*mvccpb.KeyValue {
	out := make([]*mvccpb.KeyValue, len(list))
	for i, r := range list {
		out[i] = s.keyValue(r)
	}
	return out
}

// everything marks a range without an end in etcd's requests.
func everything(end []byte) bool { return len(end) == 1 && end[0] == 0 }

// selectorOf returns the keys that key and range_end name; empty says that there can be
// none.
func selectorOf(key, end []byte) (sel *messages.Selector, empty bool) {
	switch {
	case len(end) == 0:
		return &messages.Selector{By: &messages.Selector_Key{Key: key}}, false
	case everything(end):
		return rangeSelector(key, nil), false
	}
	return rangeSelector(key, end), string(key) >= string(end)
}

func rangeSelector(start, end []byte) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: start, End: end}}}
}
