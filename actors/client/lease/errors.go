package lease

import (
	"errors"
	"fmt"
)

// ErrLost matches, with errors.Is, the error of every lost lease: another holder
// may have the right now.
var ErrLost = errors.New("lease lost")

// ErrEnded is the Err of a lease that its holder gave up.
var ErrEnded = errors.New("lease ended")

// LostError says which lease was lost and what its issuer saw. errors.Is(err,
// ErrLost) holds for each.
type LostError struct {
	// Subject is what the lease gave the right to.
	Subject string
	// Cause is what the issuer saw; nil when it gave none.
	Cause error
	// Work is the error of the function that With ran until the loss; nil elsewhere.
	Work error
}

// Error implements error.
func (e *LostError) Error() string {
	text := fmt.Sprintf("lease lost: another holder may have %q now", e.Subject)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Is matches ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the cause and the work's error, those that are set.
func (e *LostError) Unwrap() []error {
	var errs []error
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	if e.Work != nil {
		errs = append(errs, e.Work)
	}
	return errs
}
