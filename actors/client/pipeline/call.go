package pipeline

import (
	"time"

	"github.com/concord-kv/concord/messages"
)

// Kind says how a call may be repeated.
type Kind uint8

const (
	// Read is a query: repeated until it succeeds.
	Read Kind = iota
	// Numbered is a write of the exactly-once session. The pipeline numbers it.
	Numbered
	// Repeatable is a write that is safe to repeat as it is: it has an idempotency
	// key, or repeating it changes nothing.
	Repeatable
	// Once is sent at most once: a keep-alive, whose send time counts.
	Once
)

// Call is one operation and its answer. The pipeline owns it from Submit until it is
// completed; then Reply or Err is set and never changes.
type Call struct {
	// Operation is sent as it is but for the fields that the pipeline fills: session,
	// numbers and incarnation of a write. It must not be changed after Submit.
	Operation *messages.Operation
	// Deadline is when the call is given up, on the owner's clock.
	Deadline time.Duration
	Kind     Kind

	// Reply is the answer, refusals excluded; nil when Err is set.
	Reply *messages.Reply
	// Err is a *messages.Error with its outcome; nil when Reply is set.
	Err error

	done chan struct{}
	then func(*Call)

	size      int    // encoded, with room for the numbers
	wire      uint64 // its number on the connection; 0 while it is not there
	sequence  uint64 // Numbered: its number in the session; 0 while it has none
	epoch     uint64 // incarnation that it was first sent to
	sent      bool   // a copy may be on its way to the log
	doubt     bool   // an earlier copy may have been applied
	over      bool   // completed
	answered  bool   // Numbered: apply has answered the number
	void      bool   // Numbered: what is sent from now on is the empty transaction
	liveIndex int
	refusal   *messages.Error // the last one, for the error at the deadline
}

// NewCall returns a call that signals Done when it is completed.
func NewCall(kind Kind, op *messages.Operation, deadline time.Duration) *Call {
	return &Call{Operation: op, Kind: kind, Deadline: deadline, done: make(chan struct{}, 1)}
}

// NewCallThen returns a call that runs then, once, when it is completed: inside the
// pipeline, so then must neither block nor call the pipeline.
func NewCallThen(kind Kind, op *messages.Operation, deadline time.Duration, then func(*Call)) *Call {
	return &Call{Operation: op, Kind: kind, Deadline: deadline, then: then}
}

// Done receives one value when the call is completed; nil for a call with then.
func (c *Call) Done() <-chan struct{} { return c.done }

func (c *Call) finish(reply *messages.Reply, err error) {
	c.over, c.Reply, c.Err = true, reply, err
	if c.then != nil {
		c.then(c)
		return
	}
	c.done <- struct{}{}
}

// outcome is what is known of a call that has no answer.
func (c *Call) outcome() messages.Outcome {
	if c.Kind != Read && (c.sent || c.doubt) {
		return messages.Outcome_OUTCOME_UNKNOWN
	}
	return messages.Outcome_OUTCOME_NOT_APPLIED
}

// numbersBytes is room for what the pipeline adds to an operation.
const numbersBytes = 64

func (c *Call) measure() { c.size = messages.OperationSize(c.Operation) + numbersBytes }

// emptyTxn takes the place of a write that must not be applied any more while its
// number must be: apply takes the numbers of a session in order, so a number that was
// never sent would block all that follow. It changes nothing and takes no revision.
var emptyTxn = &messages.Write_Txn{Txn: &messages.Txn{}}

// isEmptyTxnAnswer tells whether a number was answered for the empty transaction
// rather than for the write that it replaced. A transaction that did nothing looks
// the same, and is the same.
func isEmptyTxnAnswer(r *messages.Result) bool {
	t := r.GetTxn()
	return r.GetError() == nil && t != nil && t.Succeeded && len(t.Responses) == 0
}
