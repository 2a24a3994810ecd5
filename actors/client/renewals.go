package client

import (
	"time"

	"github.com/concord-kv/concord/actors/client/pipeline"
	"github.com/concord-kv/concord/messages"
)

// This file: the client's side of its KeepaliveWorker.

// Keepalives returns the client's worker.
func (c *Client) Keepalives() *KeepaliveWorker { return c.worker }

// submitAll takes calls under one lock, so that they travel together, and returns the
// refusal of each, nil when all were taken.
func (c *Client) submitAll(calls []*pipeline.Call) (refused []error) {
	if len(calls) == 0 {
		return nil
	}
	now := c.cfg.Clock.Now()
	c.mu.Lock()
	for i, call := range calls {
		if err := c.pipe.Submit(call, now); err != nil {
			if refused == nil {
				refused = make([]error, len(calls))
			}
			refused[i] = err
		}
	}
	c.advance(now)
	c.mu.Unlock()
	c.kick()
	return refused
}

// onSession keeps the lease of the exactly-once session alive. The pipeline calls it
// under the client's lock.
func (c *Client) onSession(_, leaseID uint64, ttl, sentAt time.Duration) {
	c.worker.Keep(leaseID, ttl, sentAt, sessionLease{c, leaseID})
}

type sessionLease struct {
	client *Client
	id     uint64
}

func (s sessionLease) Confirmed(sentAt, ttl time.Duration) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	s.client.pipe.SessionConfirmed(s.id, sentAt, ttl)
}

func (s sessionLease) Lost(cause error) {
	if messages.CodeOf(cause) == messages.Code_CODE_CANCELLED {
		return // closed here: Close ends the session itself
	}
	s.client.mu.Lock()
	s.client.pipe.SessionLost(s.id)
	s.client.mu.Unlock()
}
