package session

import "github.com/concord-kv/concord/messages"

// Churn is what costs a node more than whoever asks for it: watches begun and ended, calls
// refused, credentials that do not fit. A client has an account for it, filled every second
// with Limits.ChurnPerClient and with churnSeconds of that at most. One that has overdrawn
// it is read from no further until it is filled again, on all its connections: what it
// sends waits on its own machine, and costs nothing here. Beyond a second's worth of debt,
// which a single frame can make, watches are refused.
//
// While many clients churn, together they are given Limits.ChurnPerNode, each the same.

// The prices, in thousandths of a watch that is begun.
const (
	priceWatch       = 1_000
	priceCancel      = 300
	priceCredentials = 2_000
	priceRefused     = 20
	// churnSeconds is what a client may save up.
	churnSeconds = 5
)

// churn is a client's account.
type churn struct {
	spent   int64 // of what may be saved up; more is debt
	perTick int64 // that it was last given for each tickMs
}

// pay takes the price of something from a client's account. It reports whether the client
// must wait.
func (a *admission) pay(s *client, price int64) (owing bool) {
	if s.inProcess || price == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.churn.spent == 0 {
		if a.churning == nil {
			a.churning = map[*client]struct{}{}
		}
		a.churning[s] = struct{}{}
		s.churn.perTick = a.churnPerTick()
	}
	s.churn.spent += price
	return s.churn.spent > a.savings()
}

// owing reports whether a client has overdrawn its account.
func (a *admission) owing(s *client) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return s.churn.spent > a.savings()
}

// mayChurn refuses what a client asks for that is more than a second's worth in debt, with
// the time after which it is not.
func (a *admission) mayChurn(s *client) *messages.Error {
	if s.inProcess {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	debt := s.churn.spent - a.savings() - a.limits.ChurnPerClient*priceWatch
	if debt <= 0 {
		return nil
	}
	e := overloaded("this client begins watches faster than it may", a.limits.ChurnPerClient).WithField("watch")
	e.Detail.RetryAfterMs = uint32(min((debt/max(1, s.churn.perTick)+1)*tickMs, 10_000))
	return e
}

func (a *admission) savings() int64 { return a.limits.ChurnPerClient * churnSeconds * priceWatch }

// churnPerTick is what each client that churns is given now. a.mu is held.
func (a *admission) churnPerTick() int64 {
	share := a.limits.ChurnPerNode / int64(max(1, len(a.churning)))
	return max(1, min(a.limits.ChurnPerClient, share)*priceWatch*tickMs/1_000)
}

// tick fills the accounts; the gateway calls it every tickMs.
func (a *admission) tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	each := a.churnPerTick()
	for s := range a.churning {
		s.churn.perTick = each
		if s.churn.spent -= each; s.churn.spent <= 0 {
			s.churn.spent = 0
			delete(a.churning, s)
			a.forget(s)
		}
	}
}

// forget lets go of a client that has no connection and owes nothing: whoever comes back
// in debt is still in debt. a.mu is held.
func (a *admission) forget(s *client) {
	if s.connections == 0 && s.churn.spent == 0 {
		delete(a.clients, s.name)
	}
}

// settle pays for what the last message has cost, and has the client wait if it must.
func (c *core) settle() {
	if c.client == nil {
		return
	}
	price := c.owes
	c.owes = 0
	c.owing = c.admission.pay(c.client, price) || c.owing
	c.hold()
}

// unreadCallsMax are the calls that a client may have waiting here while it does not read
// the answers that it has.
const unreadCallsMax = 256

// hold has the client's stream read no further, or again.
func (c *core) hold() {
	hold := c.phase != closing && (c.owing || c.reads.held && c.calls >= unreadCallsMax)
	if hold != c.holding {
		c.holding = hold
		c.port.hold(hold)
	}
}

// release looks whether a client that owed still does.
func (c *core) release() {
	if c.owing {
		c.owing = c.admission.owing(c.client)
		c.hold()
	}
}
