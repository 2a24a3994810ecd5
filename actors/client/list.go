package client

import (
	"context"
	"iter"

	"github.com/concord-kv/concord/messages"
)

// ListOptions of List and Records.
type ListOptions struct {
	// Revision to read at; 0 is the latest.
	Revision uint64
	// Limit of one page; 0 is 1,000, at most 10,000.
	Limit uint32
	// AfterKey continues a list; use it together with the revision of the first page.
	AfterKey   []byte
	KeysOnly   bool
	CountOnly  bool
	Descending bool
	// Bounds of the records' revisions; 0 is none.
	ModRevisionMin, ModRevisionMax       uint64
	CreateRevisionMin, CreateRevisionMax uint64
	Stale                                bool
}

// ListResult is one page.
type ListResult struct {
	Records []*messages.Record
	HasMore bool
	// LastKey is the AfterKey of the next page.
	LastKey []byte
	// Count, with CountOnly, is the number of all that match.
	Count uint64
	// Revision that was read.
	Revision uint64
}

func (o ListOptions) request(s *messages.Selector) *messages.ListRequest {
	return &messages.ListRequest{
		Selector: s, Revision: o.Revision, Limit: o.Limit, AfterKey: o.AfterKey,
		KeysOnly: o.KeysOnly, CountOnly: o.CountOnly, Descending: o.Descending,
		ModRevisionMin: o.ModRevisionMin, ModRevisionMax: o.ModRevisionMax,
		CreateRevisionMin: o.CreateRevisionMin, CreateRevisionMax: o.CreateRevisionMax,
	}
}

// List reads one page of the keys of a selector, in key order. A page ends at 1 MiB.
func (c *Client) List(ctx context.Context, s *messages.Selector, opts ListOptions) (ListResult, error) {
	r, err := c.Query(ctx, &messages.Query{Consistency: consistency(opts.Stale), Query: &messages.Query_List{List: opts.request(s)}})
	if err != nil {
		return ListResult{}, err
	}
	return listResult(r.GetList()), nil
}

func listResult(l *messages.ListReply) ListResult {
	return ListResult{
		Records: l.GetRecords(), HasMore: l.GetHasMore(), LastKey: l.GetLastKey(),
		Count: l.GetCount(), Revision: l.GetRevision(),
	}
}

// Records goes through all keys of a selector, page by page, all at one revision: a
// consistent snapshot. When history is compacted past that revision meanwhile it ends
// with that error rather than going on at another. opts.Limit is the size of a page.
func (c *Client) Records(ctx context.Context, s *messages.Selector, opts ListOptions) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		opts.CountOnly = false
		for {
			page, err := c.List(ctx, s, opts)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range page.Records {
				if !yield(r, nil) {
					return
				}
			}
			if !page.HasMore {
				return
			}
			opts.Revision, opts.AfterKey = page.Revision, page.LastKey
		}
	}
}

// HistoryOptions of History.
type HistoryOptions struct {
	// From and To bound the revisions; 0 is the compact revision and the latest.
	From, To    uint64
	Limit       uint32
	NewestFirst bool
	// After goes on after a version: Next of the result before, with the same options.
	After *messages.Position
	Stale bool
}

// HistoryResult is the answer to History.
type HistoryResult struct {
	// Versions are events: records and tombstones.
	Versions []*messages.Event
	HasMore  bool
	// Next is the After of what follows, when HasMore; nil otherwise.
	Next     *messages.Position
	Revision uint64
}

// History lists the versions of one key that are retained, up to a limit and the size
// of an answer. CODE_COMPACTED, of the field after, says that versions next to After may
// be gone.
func (c *Client) History(ctx context.Context, key string, opts HistoryOptions) (HistoryResult, error) {
	r, err := c.Query(ctx, &messages.Query{Consistency: consistency(opts.Stale), Query: &messages.Query_History{
		History: &messages.HistoryRequest{
			Key: []byte(key), FromRevision: opts.From, ToRevision: opts.To, Limit: opts.Limit, NewestFirst: opts.NewestFirst,
			After: opts.After,
		},
	}})
	if err != nil {
		return HistoryResult{}, err
	}
	h := r.GetHistory()
	return HistoryResult{Versions: h.GetVersions(), HasMore: h.GetHasMore(), Next: h.GetNext(), Revision: r.GetRevision()}, nil
}

// ChangesOptions of Changes.
type ChangesOptions struct {
	Limit    uint32
	KeysOnly bool
	Prev     bool
	// Types to return; empty for all.
	Types []messages.EventType
	Stale bool
}

// ChangesResult is the answer to Changes.
type ChangesResult struct {
	Events []*messages.Event
	// Next is where to go on, also when there is no event.
	Next    *messages.Position
	HasMore bool
}

// Changes pulls the events of a selector after a position. AfterRevision makes one from
// a revision that was processed completely.
func (c *Client) Changes(ctx context.Context, s *messages.Selector, after *messages.Position, opts ChangesOptions) (ChangesResult, error) {
	r, err := c.Query(ctx, &messages.Query{Consistency: consistency(opts.Stale), Query: &messages.Query_Changes{
		Changes: &messages.ChangesRequest{
			Selector: s, After: after, Limit: opts.Limit, KeysOnly: opts.KeysOnly, PrevKv: opts.Prev, Types: opts.Types,
		},
	}})
	if err != nil {
		return ChangesResult{}, err
	}
	ch := r.GetChanges()
	return ChangesResult{Events: ch.GetEvents(), Next: ch.GetNext(), HasMore: ch.GetHasMore()}, nil
}

// AfterRevision is the position after every event of a revision.
func AfterRevision(revision uint64) *messages.Position {
	return &messages.Position{Revision: revision, OpIndex: messages.PositionOpIndexEnd}
}
