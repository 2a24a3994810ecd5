package client

import (
	"context"
	"time"

	"github.com/concord-kv/concord/messages"
)

// GetOptions of Get and GetMany.
type GetOptions struct {
	// Revision to read at; 0 is the latest.
	Revision uint64
	// Stale reads what the node has applied, without asking the others; never older than
	// what this client has seen.
	Stale bool
}

// GetResult is the answer to Get.
type GetResult struct {
	// Record is nil when the key does not exist.
	Record *messages.Record
	// Revision of the state that answered.
	Revision uint64
	// LeaderSilent, of a stale read, is how long ago the node that answered heard of a
	// leader: what it has may be that old, or a little older.
	LeaderSilent time.Duration
}

// Get reads one key.
func (c *Client) Get(ctx context.Context, key string, opts GetOptions) (GetResult, error) {
	o := &struct {
		query messages.Query
		oneof messages.Query_Get
		get   messages.GetRequest
	}{}
	o.get.Key, o.get.Revision = []byte(key), opts.Revision
	o.oneof.Get = &o.get
	o.query.Consistency, o.query.Query = consistency(opts.Stale), &o.oneof
	r, err := c.Query(ctx, &o.query)
	if err != nil {
		return GetResult{}, err
	}
	return GetResult{
		Record: r.GetGet().GetRecord(), Revision: r.GetRevision(),
		LeaderSilent: time.Duration(r.GetLeaderSilentMs()) * time.Millisecond,
	}, nil
}

// GetManyResult is the answer to GetMany.
type GetManyResult struct {
	// Records has one entry for each key, in order: nil where there is none.
	Records  []*messages.Record
	Revision uint64
}

// GetMany reads keys at one revision. An answer too large for one message is fetched in
// several, all at the revision of the first.
func (c *Client) GetMany(ctx context.Context, keys []string, opts GetOptions) (GetManyResult, error) {
	var result GetManyResult
	rest := make([][]byte, len(keys))
	for i, k := range keys {
		rest[i] = []byte(k)
	}
	revision := opts.Revision
	for first := true; first || len(rest) > 0; first = false {
		r, err := c.Query(ctx, &messages.Query{Consistency: consistency(opts.Stale), Query: &messages.Query_GetMany{
			GetMany: &messages.GetManyRequest{Keys: rest, Revision: revision},
		}})
		if err != nil {
			return GetManyResult{}, err
		}
		if first {
			result.Revision = r.GetRevision()
			if revision == 0 {
				revision = r.GetRevision()
			}
		}
		records := r.GetGetMany().GetRecords()
		if len(records) == 0 || len(records) > len(rest) {
			return GetManyResult{}, messages.NewError(messages.Code_CODE_PROTOCOL, "%d records for %d keys", len(records), len(rest))
		}
		for _, rec := range records {
			if rec.GetVersion() == 0 {
				rec = nil
			}
			result.Records = append(result.Records, rec)
		}
		rest = rest[len(records):]
	}
	return result, nil
}

// RevisionResult is the answer to Revision.
type RevisionResult struct {
	Revision, CompactRevision uint64
}

// Revision returns the cluster's revision and its compact revision.
func (c *Client) Revision(ctx context.Context) (RevisionResult, error) {
	r, err := c.Query(ctx, &messages.Query{Query: &messages.Query_Revision{Revision: &messages.RevisionRequest{}}})
	if err != nil {
		return RevisionResult{}, err
	}
	v := r.GetRevisionReply()
	return RevisionResult{Revision: v.GetRevision(), CompactRevision: v.GetCompactRevision()}, nil
}

// Status returns what the node that answers says of itself. It needs no quorum.
func (c *Client) Status(ctx context.Context) (*messages.StatusReply, error) {
	r, err := c.Query(ctx, &messages.Query{
		Consistency: messages.Consistency_CONSISTENCY_STALE,
		Query:       &messages.Query_Status{Status: &messages.StatusRequest{}},
	})
	if err != nil {
		return nil, err
	}
	return r.GetStatus(), nil
}
