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

// keepOnce has the first keep-alive of a lease meet a fate, lets a ttl go by, and fails
// unless it did and the lease was renewed after it.
func keepOnce(t *testing.T, n *fakeNode, id uint64, r *record, what fate, code messages.Code) {
	t.Helper()
	first := true
	n.setDecide(func(op *messages.Operation) (fate, messages.Code) {
		if k := op.GetWrite().GetKeepAliveLease(); k != nil && k.LeaseId == id && first {
			first = false
			return what, code
		}
		return serve, 0
	})
	before, _ := r.counts()
	time.Sleep(9 * time.Second) // virtual
	confirmed, lost := r.counts()
	if first || confirmed == before || lost != 0 {
		t.Fatalf("%d %v: met %v, confirmed %d after %d, lost %d", what, code, !first, confirmed, before, lost)
	}
	for i := 1; i < len(r.confirmed); i++ {
		if r.confirmed[i] <= r.confirmed[i-1] {
			t.Fatalf("send times %v", r.confirmed)
		}
	}
}

// What is not confirmed is tried again with a later send time, whatever became of it and
// whatever the answer was.
func TestB035KeepAliveGoesOnAfterAnyError(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		ids, records := grantAndKeep(t, c, 1)
		for _, what := range []fate{loseReply, loseRequest, answerOther, cutBefore, cutAfter} {
			keepOnce(t, net["n1"], ids[0], records[0], what, 0)
		}
		for n := range messages.Code_name {
			code := messages.Code(n)
			if code == messages.Code_CODE_OK || code == messages.Code_CODE_LEASE_NOT_FOUND || code == messages.Code_CODE_WRONG_INCARNATION {
				continue
			}
			keepOnce(t, net["n1"], ids[0], records[0], refuseBefore, code)
			keepOnce(t, net["n1"], ids[0], records[0], answerNever, code)
		}
	})
}

// The cluster's word, and nothing else, ends a lease that is kept.
func TestKeepaliveEnds(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		ids, records := grantAndKeep(t, c, 2)
		if _, err := c.Revoke(context.Background(), ids[0]); err != nil {
			t.Fatal(err)
		}
		net["n1"].setDecide(func(op *messages.Operation) (fate, messages.Code) {
			if k := op.GetWrite().GetKeepAliveLease(); k != nil && k.LeaseId == ids[1] {
				return refuseBefore, messages.Code_CODE_WRONG_INCARNATION
			}
			return serve, 0
		})
		time.Sleep(27 * time.Second) // virtual
		for i, want := range []messages.Code{messages.Code_CODE_LEASE_NOT_FOUND, messages.Code_CODE_WRONG_INCARNATION} {
			if confirmed, lost := records[i].counts(); confirmed != 0 || lost != 1 || messages.CodeOf(records[i].lost[0]) != want {
				t.Fatal(i, confirmed, records[i].lost)
			}
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
