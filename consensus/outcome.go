package consensus

import (
	"errors"

	"github.com/lni/dragonboat/v4"

	"github.com/concord-kv/concord/messages"
)

// What a proposer may conclude. Completed: applied here. Dropped, and any error
// that Propose itself returns: never applied. Timeout and Terminated: nobody
// knows. Dragonboat's IsTempError(ErrTimeout) does not mean safe to resend, and
// its SyncPropose blurs the difference.

// proposeRefused is for an error that dragonboat's Propose, or a request for a
// membership change, returned: the entry never entered the log.
func proposeRefused(err error) error {
	code := messages.Code_CODE_UNAVAILABLE
	switch {
	case errors.Is(err, dragonboat.ErrSystemBusy):
		code = messages.Code_CODE_OVERLOADED
	case errors.Is(err, dragonboat.ErrPayloadTooBig):
		code = messages.Code_CODE_TOO_LARGE
	case errors.Is(err, dragonboat.ErrShardNotReady), errors.Is(err, dragonboat.ErrShardNotInitialized):
		code = messages.Code_CODE_NOT_READY
	case errors.Is(err, dragonboat.ErrShardClosed), errors.Is(err, dragonboat.ErrClosed),
		errors.Is(err, dragonboat.ErrShardNotFound):
		code = messages.Code_CODE_NODE_STOPPING
	case errors.Is(err, dragonboat.ErrTimeoutTooSmall), errors.Is(err, dragonboat.ErrInvalidAddress),
		errors.Is(err, dragonboat.ErrInvalidTarget):
		code = messages.Code_CODE_INVALID_ARGUMENT
	}
	e := messages.NewError(code, "the log did not take the entry")
	e.Err = err
	return e
}

// proposalEnded is for a result that arrived before Apply told the proposer. It
// is not nil for Completed: Update had told the proposer, or should have.
func proposalEnded(r dragonboat.RequestResult) error {
	switch {
	case r.Completed():
		return messages.UnknownOutcome(messages.Code_CODE_INTERNAL, "an applied entry was not seen by its replica")
	case r.Dropped():
		return messages.NewError(messages.Code_CODE_NO_LEADER, "the entry was dropped: no leader took it")
	case r.Rejected():
		return messages.NewError(messages.Code_CODE_INTERNAL, "the log refused the session of an entry without one")
	case r.Timeout():
		return errTimeout()
	case r.Terminated():
		return errStoppingUnknown()
	}
	return messages.UnknownOutcome(messages.Code_CODE_INTERNAL, "the log gave an answer of no known kind")
}

// readFailed and readEnded are for read barriers. Nothing is written, so nothing
// is unknown: asking again is safe.
func readFailed(err error) error { return proposeRefused(err) }

func readEnded(r dragonboat.RequestResult) error {
	switch {
	case r.Completed():
		return nil
	case r.Dropped():
		return messages.NewError(messages.Code_CODE_NO_LEADER, "the read barrier was dropped: no leader took it")
	case r.Terminated():
		return errStopping()
	}
	return messages.NewError(messages.Code_CODE_TIMEOUT, "the read barrier was not reached in time")
}

// nothingWritten makes an error of a read barrier say so.
func nothingWritten(err error) error {
	var e *messages.Error
	if errors.As(err, &e) {
		e.Detail.Outcome = messages.Outcome_OUTCOME_NOT_APPLIED
	}
	return err
}

// changeEnded is for membership changes.
func changeEnded(r dragonboat.RequestResult) error {
	switch {
	case r.Completed():
		return nil
	case r.Rejected():
		return messages.NewError(messages.Code_CODE_INVALID_ARGUMENT,
			"the membership has changed meanwhile, or does not allow this change")
	}
	return proposalEnded(r)
}

func errTimeoutField() error {
	return messages.InvalidField("timeout_ms", "a timeout must be positive")
}

func errTimeout() error {
	return messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "not applied here in time")
}

func errStopping() error {
	return messages.NewError(messages.Code_CODE_NODE_STOPPING, "this replica is stopping")
}

func errStoppingUnknown() error {
	return messages.UnknownOutcome(messages.Code_CODE_NODE_STOPPING, "this replica stopped before the entry was applied here")
}

func errOverloaded(limit int64) error {
	e := messages.NewError(messages.Code_CODE_OVERLOADED, "too many bytes are in flight").WithLimit(uint64(limit))
	e.Detail.RetryAfterMs = 10
	return e
}
