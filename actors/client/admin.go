package client

import (
	"context"

	"github.com/concord-kv/concord/messages"
)

// CreateIndex declares a secondary index. Lookups answer index_building until the
// cluster has filled it.
func (c *Client) CreateIndex(ctx context.Context, d *messages.IndexDefinition) (*messages.IndexInfo, error) {
	return c.indexWrite(ctx, &messages.Write{Op: &messages.Write_CreateIndex{CreateIndex: &messages.CreateIndex{Definition: d}}})
}

// DropIndex removes an index.
func (c *Client) DropIndex(ctx context.Context, name string) (*messages.IndexInfo, error) {
	return c.indexWrite(ctx, &messages.Write{Op: &messages.Write_DropIndex{DropIndex: &messages.DropIndex{Name: name}}})
}

func (c *Client) indexWrite(ctx context.Context, w *messages.Write) (*messages.IndexInfo, error) {
	r, err := c.Write(ctx, w)
	if err != nil {
		return nil, err
	}
	return r.GetIndex().GetIndex(), nil
}

// Indexes lists the indexes by name.
func (c *Client) Indexes(ctx context.Context) ([]*messages.IndexInfo, error) {
	r, err := c.Query(ctx, &messages.Query{Query: &messages.Query_IndexList{IndexList: &messages.IndexListRequest{}}})
	if err != nil {
		return nil, err
	}
	return r.GetIndexList().GetIndexes(), nil
}

// LookupOptions of Lookup. Values are JSON text.
type LookupOptions struct {
	// Equal, or the half-open range from Min to Max.
	Equal, Min, Max []byte
	Limit           uint32
	KeysOnly        bool
	// After continues a lookup.
	After []byte
	Stale bool
}

// LookupResult is one page of a lookup, by value and key.
type LookupResult struct {
	Records  []*messages.Record
	HasMore  bool
	After    []byte
	Revision uint64
}

// Lookup finds records by an indexed value, at the latest revision.
func (c *Client) Lookup(ctx context.Context, name string, opts LookupOptions) (LookupResult, error) {
	r, err := c.Query(ctx, &messages.Query{Consistency: consistency(opts.Stale), Query: &messages.Query_IndexLookup{
		IndexLookup: &messages.IndexLookupRequest{
			Name: name, EqualJson: opts.Equal, MinJson: opts.Min, MaxJson: opts.Max,
			Limit: opts.Limit, KeysOnly: opts.KeysOnly, After: opts.After,
		},
	}})
	if err != nil {
		return LookupResult{}, err
	}
	l := r.GetIndexLookup()
	return LookupResult{Records: l.GetRecords(), HasMore: l.GetHasMore(), After: l.GetAfter(), Revision: r.GetRevision()}, nil
}

// OpenCursor makes a durable named position that holds history back, for as long as its
// lease lives. after is the highest revision already processed.
func (c *Client) OpenCursor(ctx context.Context, name string, leaseID, after uint64) (*messages.CursorInfo, error) {
	return c.cursorWrite(ctx, &messages.Write{Op: &messages.Write_OpenCursor{
		OpenCursor: &messages.OpenCursor{Name: name, LeaseId: leaseID, AfterRevision: after},
	}})
}

// CheckpointCursor says that everything up to a revision was processed.
func (c *Client) CheckpointCursor(ctx context.Context, name string, after uint64) (*messages.CursorInfo, error) {
	return c.cursorWrite(ctx, &messages.Write{Op: &messages.Write_CheckpointCursor{
		CheckpointCursor: &messages.CheckpointCursor{Name: name, AfterRevision: after},
	}})
}

// CloseCursor removes a cursor.
func (c *Client) CloseCursor(ctx context.Context, name string) (*messages.CursorInfo, error) {
	return c.cursorWrite(ctx, &messages.Write{Op: &messages.Write_CloseCursor{CloseCursor: &messages.CloseCursor{Name: name}}})
}

func (c *Client) cursorWrite(ctx context.Context, w *messages.Write) (*messages.CursorInfo, error) {
	r, err := c.Write(ctx, w)
	if err != nil {
		return nil, err
	}
	return r.GetCursor().GetCursor(), nil
}

// Cursors lists the cursors by name.
func (c *Client) Cursors(ctx context.Context) ([]*messages.CursorInfo, error) {
	r, err := c.Query(ctx, &messages.Query{Query: &messages.Query_CursorList{CursorList: &messages.CursorListRequest{}}})
	if err != nil {
		return nil, err
	}
	return r.GetCursorList().GetCursors(), nil
}

// Compact asks to drop history below a revision and returns the compact revision that
// took effect: consumers may have held it back.
func (c *Client) Compact(ctx context.Context, revision uint64) (uint64, error) {
	r, err := c.Write(ctx, &messages.Write{Op: &messages.Write_Compact{Compact: &messages.Compact{Revision: revision}}})
	if err != nil {
		return 0, err
	}
	return r.GetCompact().GetCompactRevision(), nil
}

// ClusterConfig returns the replicated configuration.
func (c *Client) ClusterConfig(ctx context.Context) (*messages.ClusterConfig, error) {
	r, err := c.Query(ctx, &messages.Query{Query: &messages.Query_Config{Config: &messages.ConfigRequest{}}})
	if err != nil {
		return nil, err
	}
	return r.GetConfig().GetConfig(), nil
}

// SetClusterConfig replaces the named fields of the replicated configuration and
// returns all of it.
func (c *Client) SetClusterConfig(ctx context.Context, config *messages.ClusterConfig, fields ...string) (*messages.ClusterConfig, error) {
	r, err := c.Write(ctx, &messages.Write{Op: &messages.Write_SetConfig{SetConfig: &messages.SetConfig{Config: config, Fields: fields}}})
	if err != nil {
		return nil, err
	}
	return r.GetConfig().GetConfig(), nil
}
