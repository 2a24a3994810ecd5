package main

import (
	"errors"

	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/registration"
	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
)

// exitCodes is the table, as help prints it.
const exitCodes = `  0    done
  1    not found: the key, lease, index, cursor or idempotency key does not exist
  2    bad arguments, or input that the store refuses by its form; not applied
  3    refused by the state of the store (compacted, lease_conflict, no_space, ...);
       not applied
  4    the cluster cannot take it now (unavailable, no_leader, overloaded, timeout,
       ...); not applied
  5    nobody knows whether the write was applied; concord resolve may tell
  6    not allowed
  7    a condition did not hold (--if-absent, --if-exists, --if-revision,
       txn --check), or a lock or a key is another's (lock --try and --wait,
       register); not applied
  8    a lock, a term or a registration was lost, and what ran under it was
       stopped
  9    what is on the disk is damaged: starting again does not help, the error
       says what does
  70   a defect of ours
  74   done, but the answer could not be printed
  130  interrupted
lock and elect end with the code of the command that they ran; 128 and the signal's
number if a signal ended it.`

const (
	exitOK          = 0
	exitNotFound    = 1
	exitUsage       = 2
	exitRefused     = 3
	exitUnavailable = 4
	exitUnknown     = 5
	exitDenied      = 6
	exitCondition   = 7
	exitLost        = 8
	exitDamaged     = 9
	exitInternal    = 70
	exitOutput      = 74
	exitInterrupted = 130
)

// errCondition is the error of a write whose condition did not hold.
var errCondition = errors.New("the condition does not hold")

// errInterrupted is the error of a command that was interrupted.
var errInterrupted = errors.New("interrupted")

// exitCode maps an error to the table. The outcome goes before the code: what may have
// been applied must not look like something to repeat.
func exitCode(err error) int {
	var (
		e     *messages.Error
		child childExit
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &child):
		return child.code
	case errors.Is(err, lease.ErrLost):
		return exitLost
	case errors.Is(err, errCondition), errors.Is(err, registration.ErrTaken):
		return exitCondition
	case errors.Is(err, node.ErrDamaged):
		return exitDamaged
	case errors.Is(err, errOutput):
		return exitOutput
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case !errors.As(err, &e):
		return exitUsage
	case e.Code() == messages.Code_CODE_IDEMPOTENCY_NOT_FOUND:
		return exitNotFound // the question was answered; the outcome is the write's
	case e.Outcome() == messages.Outcome_OUTCOME_UNKNOWN:
		return exitUnknown
	}
	switch e.Code() {
	case messages.Code_CODE_KEY_NOT_FOUND, messages.Code_CODE_LEASE_NOT_FOUND, messages.Code_CODE_INDEX_NOT_FOUND,
		messages.Code_CODE_CURSOR_NOT_FOUND, messages.Code_CODE_IDEMPOTENCY_NOT_FOUND,
		messages.Code_CODE_USER_NOT_FOUND, messages.Code_CODE_ROLE_NOT_FOUND:
		return exitNotFound
	case messages.Code_CODE_INVALID_ARGUMENT, messages.Code_CODE_TOO_LARGE, messages.Code_CODE_UNSUPPORTED:
		return exitUsage
	case messages.Code_CODE_OVERLOADED, messages.Code_CODE_NO_LEADER, messages.Code_CODE_NOT_LEADER, messages.Code_CODE_NOT_READY,
		messages.Code_CODE_TIMEOUT, messages.Code_CODE_UNAVAILABLE, messages.Code_CODE_NODE_STOPPING, messages.Code_CODE_NO_QUORUM,
		messages.Code_CODE_STALE_CLOCK, messages.Code_CODE_CANCELLED, messages.Code_CODE_SLOW_CONSUMER:
		return exitUnavailable
	case messages.Code_CODE_PERMISSION_DENIED, messages.Code_CODE_UNAUTHENTICATED:
		return exitDenied
	case messages.Code_CODE_INTERNAL, messages.Code_CODE_PROTOCOL:
		return exitInternal
	}
	return exitRefused
}
