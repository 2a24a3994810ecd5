package flight

import "fmt"

// FailedError says that the run returned an error.
type FailedError struct {
	// Key that was asked for.
	Key string
	// Text of the error, of which 64 KiB travel.
	Text string
	// Err is the error itself, in the process that ran; nil in others.
	Err error
}

// Error implements error.
func (e *FailedError) Error() string { return fmt.Sprintf("flight %q failed: %s", e.Key, e.Text) }

// Unwrap returns the error itself, where it is known.
func (e *FailedError) Unwrap() error { return e.Err }

// InterruptedError says that a run that was joined came to nothing: whether what it did
// took effect is not known. Asking again starts another run.
type InterruptedError struct {
	// Key that was asked for.
	Key string
	// Reason is what is known of why.
	Reason string
}

// Error implements error.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("flight %q was interrupted: %s", e.Key, e.Reason)
}

// PanicError is what a call panics with whose own run panicked.
type PanicError struct {
	// Value that was passed to panic.
	Value any
	// Stack of the run.
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("%v\n\n%s", e.Value, e.Stack) }

// Unwrap returns the value, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
