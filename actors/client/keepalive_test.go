package client

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/messages"
)

// record is an observer that remembers.
type record struct {
	mu        sync.Mutex
	confirmed []time.Duration // send times
	lost      []error
}

func (r *record) Confirmed(sentAt, _ time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirmed = append(r.confirmed, sentAt)
}

func (r *record) Lost(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = append(r.lost, err)
}

func (r *record) counts() (confirmed, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.confirmed), len(r.lost)
}

// grantAndKeep grants n leases and keeps them.
func grantAndKeep(t *testing.T, c *Client, n int) ([]uint64, []*record) {
	t.Helper()
	var ids []uint64
	var records []*record
	for range n {
		g, err := c.Grant(context.Background(), 9*time.Second, GrantOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := &record{}
		c.Keepalives().Keep(g.LeaseID, g.TTL, g.SentAt, r)
		ids, records = append(ids, g.LeaseID), append(records, r)
	}
	return ids, records
}

// All leases of a client are renewed in one message, about every third of the ttl, and
// nobody needs to read anything for it.
func TestKeepalivesTravelTogether(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		ids, records := grantAndKeep(t, c, 20)
		before := len(net["n1"].took())
		time.Sleep(90 * time.Second) // virtual: ten ttls
		messagesSent := 0
		for _, f := range net["n1"].took()[before:] {
			if f.Operations[0].GetWrite().GetKeepAliveLease() != nil {
				messagesSent++
			}
		}
		if messagesSent > 36 {
			t.Errorf("%d messages in ten ttls", messagesSent)
		}
		for i, id := range ids {
			confirmed, lost := records[i].counts()
			if confirmed < 30 || confirmed > 37 || lost != 0 {
				t.Errorf("lease %d: %d confirmed, %d lost", id, confirmed, lost)
			}
		}
	})
}

// What is not confirmed is tried again with a later send time; the cluster's word, and
// nothing else, ends it.
func TestKeepaliveFailures(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		ids, records := grantAndKeep(t, c, 1)
		for _, what := range []fate{loseReply, loseRequest, refuseBefore, answerNever, cutBefore, cutAfter} {
			first := true
			net["n1"].setDecide(func(op *messages.Operation) (fate, messages.Code) {
				if k := op.GetWrite().GetKeepAliveLease(); k != nil && k.LeaseId == ids[0] && first {
					first = false
					return what, messages.Code_CODE_INTERNAL
				}
				return serve, 0
			})
			before, _ := records[0].counts()
			began := c.Clock().Now()
			time.Sleep(9 * time.Second) // virtual
			confirmed, lost := records[0].counts()
			if first || confirmed == before || lost != 0 {
				t.Fatalf("%d: met %v, confirmed %d after %d, lost %d", what, !first, confirmed, before, lost)
			}
			for i := 1; i < len(records[0].confirmed); i++ {
				if records[0].confirmed[i] <= records[0].confirmed[i-1] {
					t.Fatalf("send times %v, began %v", records[0].confirmed, began)
				}
			}
		}
		net["n1"].setDecide(nil)
		if _, err := c.Revoke(context.Background(), ids[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second) // virtual
		if _, lost := records[0].counts(); lost != 1 || messages.CodeOf(records[0].lost[0]) != messages.Code_CODE_LEASE_NOT_FOUND {
			t.Fatal(records[0].lost)
		}
	})
}

// After Forget nothing is sent for the lease any more, also when an answer was on its
// way; and a lease that is kept again is renewed again.
func TestKeepaliveForget(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		ids, records := grantAndKeep(t, c, 1)
		net["n1"].setDecide(func(op *messages.Operation) (fate, messages.Code) {
			if op.GetWrite().GetKeepAliveLease() != nil {
				return loseReply, 0
			}
			return serve, 0
		})
		time.Sleep(3100 * time.Millisecond) // virtual: one is in flight
		c.Keepalives().Forget(ids[0])
		net["n1"].setDecide(nil)
		before := net["n1"].cluster.renewals(ids[0])
		time.Sleep(90 * time.Second) // virtual
		if after := net["n1"].cluster.renewals(ids[0]); after != before || before == 0 {
			t.Fatalf("%d renewals after %d", after, before)
		}
		if confirmed, lost := records[0].counts(); confirmed != 0 || lost != 0 {
			t.Fatal(confirmed, lost)
		}
		again := &record{}
		c.Keepalives().Keep(ids[0], 9*time.Second, c.Clock().Now(), again)
		time.Sleep(27 * time.Second) // virtual
		if confirmed, lost := again.counts(); confirmed < 8 || lost != 0 {
			t.Fatal(confirmed, lost)
		}
	})
}

// The exactly-once session stays open while its client is idle.
func TestSessionIsKeptAlive(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		for range 3 {
			if _, err := c.Put(context.Background(), "k", nil, PutOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute) // virtual
		}
		if n := net["n1"].cluster.sessionCount(); n != 1 {
			t.Fatalf("%d sessions", n)
		}
	})
}
