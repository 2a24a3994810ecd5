package client

import (
	"context"
	"time"

	"github.com/concord-kv/concord/messages"
)

// GrantOptions of Grant.
type GrantOptions struct {
	// Metadata is shown to operators.
	Metadata map[string][]byte
	// Alias is a number of the caller's choice, unique among live leases; 0 for none.
	Alias uint64
	// IdempotencyKey makes the write safe to repeat by another process.
	IdempotencyKey string
}

// Granted is a new lease.
type Granted struct {
	LeaseID uint64
	TTL     time.Duration
	// SentAt is the client's clock before the request was first queued: what a holder
	// may count from.
	SentAt   time.Duration
	Revision uint64
	Replayed bool
}

// Grant makes a lease that ends ttl after it was applied unless it is kept alive. ttl
// counts in milliseconds; the least is a second unless the cluster is set otherwise.
func (c *Client) Grant(ctx context.Context, ttl time.Duration, opts GrantOptions) (Granted, error) {
	sentAt := c.cfg.Clock.Now()
	r, err := c.Write(ctx, &messages.Write{IdempotencyKey: opts.IdempotencyKey, Op: &messages.Write_GrantLease{
		GrantLease: &messages.GrantLease{TtlMs: ttl.Milliseconds(), Metadata: metadataEntries(opts.Metadata), Alias: opts.Alias},
	}})
	if err != nil {
		return Granted{}, err
	}
	g := r.GetGrantLease()
	return Granted{
		LeaseID: g.GetLeaseId(), TTL: milliseconds(g.GetTtlMs()), SentAt: sentAt,
		Revision: r.GetRevision(), Replayed: r.GetReplayed(),
	}, nil
}

// Renewed is the answer to one keep-alive.
type Renewed struct {
	// TTL that was applied, and Remaining at that moment: more than TTL when an earlier
	// one reaches further.
	TTL, Remaining time.Duration
	// SentAt is the client's clock before the request was queued.
	SentAt time.Duration
}

// KeepAlive renews a lease once. newTTL replaces its ttl when it is not 0; the deadline
// never moves back. It is tried once: an error with outcome unknown extends nothing
// that a holder may count on.
func (c *Client) KeepAlive(ctx context.Context, leaseID uint64, newTTL time.Duration) (Renewed, error) {
	sentAt := c.cfg.Clock.Now()
	r, err := c.Write(ctx, &messages.Write{Op: &messages.Write_KeepAliveLease{
		KeepAliveLease: &messages.KeepAliveLease{LeaseId: leaseID, NewTtlMs: newTTL.Milliseconds()},
	}})
	if err != nil {
		return Renewed{}, err
	}
	k := r.GetKeepAliveLease()
	return Renewed{TTL: milliseconds(k.GetTtlMs()), Remaining: milliseconds(k.GetRemainingTtlMs()), SentAt: sentAt}, nil
}

// Revoke ends a lease and deletes its keys, all at one revision, and returns how many
// there were.
func (c *Client) Revoke(ctx context.Context, leaseID uint64) (keys uint64, err error) {
	r, err := c.Write(ctx, &messages.Write{Op: &messages.Write_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: leaseID}}})
	if err != nil {
		return 0, err
	}
	return r.GetRevokeLease().GetKeysDeleted(), nil
}

// LeaseInfoOptions of LeaseInfo.
type LeaseInfoOptions struct {
	// Keys asks for the attached keys too.
	Keys  bool
	Stale bool
}

// LeaseInfo returns a lease; lease_not_found when it is not live.
func (c *Client) LeaseInfo(ctx context.Context, leaseID uint64, opts LeaseInfoOptions) (*messages.LeaseInfo, error) {
	r, err := c.Query(ctx, &messages.Query{Consistency: consistency(opts.Stale), Query: &messages.Query_LeaseInfo{
		LeaseInfo: &messages.LeaseInfoRequest{LeaseId: leaseID, Keys: opts.Keys},
	}})
	if err != nil {
		return nil, err
	}
	return r.GetLeaseInfo().GetLease(), nil
}

// LeaseListOptions of LeaseList.
type LeaseListOptions struct {
	// IncludeAnonymous lists the leases of keys with a TTL too.
	IncludeAnonymous bool
	// Limit of one page; 0 is 1,000.
	Limit uint32
	// AfterLeaseID continues a list.
	AfterLeaseID uint64
	Stale        bool
}

// LeasePage is one page of LeaseList, by id.
type LeasePage struct {
	Leases  []*messages.LeaseInfo
	HasMore bool
}

// LeaseList lists live leases by id.
func (c *Client) LeaseList(ctx context.Context, opts LeaseListOptions) (LeasePage, error) {
	r, err := c.Query(ctx, &messages.Query{Consistency: consistency(opts.Stale), Query: &messages.Query_LeaseList{
		LeaseList: &messages.LeaseListRequest{IncludeAnonymous: opts.IncludeAnonymous, Limit: opts.Limit, AfterLeaseId: opts.AfterLeaseID},
	}})
	if err != nil {
		return LeasePage{}, err
	}
	l := r.GetLeaseList()
	return LeasePage{Leases: l.GetLeases(), HasMore: l.GetHasMore()}, nil
}
