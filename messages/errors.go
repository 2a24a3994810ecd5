package messages

import (
	"errors"
	"fmt"
	"strings"
)

// Error is a refusal. It carries everything that travels (Detail) and, on the
// side where it arose, the error behind it. Callers branch on Code and Outcome,
// never on text.
type Error struct {
	Detail *ErrorDetail
	Err    error
}

// NewError returns an error of this code. Its outcome is not applied: the codes
// that mean anything else say so where they are made.
func NewError(code Code, format string, args ...any) *Error {
	return &Error{Detail: &ErrorDetail{
		Code:    code,
		Outcome: Outcome_OUTCOME_NOT_APPLIED,
		Message: fmt.Sprintf(format, args...),
	}}
}

// InvalidField returns CODE_INVALID_ARGUMENT for the named field of a request.
func InvalidField(field, format string, args ...any) *Error {
	return NewError(Code_CODE_INVALID_ARGUMENT, format, args...).WithField(field)
}

// UnknownOutcome returns an error of this code after which nobody knows whether
// the request was applied.
func UnknownOutcome(code Code, format string, args ...any) *Error {
	e := NewError(code, format, args...)
	e.Detail.Outcome = Outcome_OUTCOME_UNKNOWN
	return e
}

// ErrorFrom returns the error that a detail describes; nil for nil.
func ErrorFrom(d *ErrorDetail) error {
	if d == nil {
		return nil
	}
	return &Error{Detail: d}
}

// WithField names the field at fault. It changes and returns e.
func (e *Error) WithField(field string) *Error { e.Detail.Field = field; return e }

// WithLimit names the limit that was passed. It changes and returns e.
func (e *Error) WithLimit(limit uint64) *Error { e.Detail.Limit = limit; return e }

// WithLease names the lease. It changes and returns e.
func (e *Error) WithLease(id uint64) *Error { e.Detail.LeaseId = id; return e }

// WithOp names the transaction's operation at fault. It changes and returns e.
func (e *Error) WithOp(index int) *Error {
	i := uint32(index)
	e.Detail.OpIndex = &i
	return e
}

// Code returns the error's code.
func (e *Error) Code() Code { return e.Detail.GetCode() }

// Outcome says what became of the request.
func (e *Error) Outcome() Outcome { return e.Detail.GetOutcome() }

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(CodeName(e.Code()))
	if f := e.Detail.GetField(); f != "" {
		fmt.Fprintf(&b, " (%s)", f)
	}
	if e.Detail.OpIndex != nil {
		fmt.Fprintf(&b, " [operation %d]", e.Detail.GetOpIndex())
	}
	if m := e.Detail.GetMessage(); m != "" {
		b.WriteString(": ")
		b.WriteString(m)
	}
	if e.Outcome() == Outcome_OUTCOME_UNKNOWN {
		b.WriteString(" (outcome unknown)")
	}
	if e.Err != nil {
		text := e.Err.Error()
		if inner, ok := e.Err.(*Error); ok && inner.Code() == e.Code() {
			text = strings.TrimPrefix(strings.TrimPrefix(text, CodeName(e.Code())), ": ") // it has been said
		}
		if text != "" {
			fmt.Fprintf(&b, ": %s", text)
		}
	}
	return b.String()
}

// Unwrap returns the error behind it, if any.
func (e *Error) Unwrap() error { return e.Err }

// Is matches another *Error by code, so that errors.Is(err, NewError(code, ""))
// holds whatever the text.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code() == e.Code()
}

// CodeOf returns the code of err: CODE_OK for nil, CODE_INTERNAL for an error that
// is not ours.
func CodeOf(err error) Code {
	if err == nil {
		return Code_CODE_OK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return Code_CODE_INTERNAL
}

// OutcomeOf returns the outcome of err: applied for nil, unknown for an error
// that is not ours.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Outcome_OUTCOME_APPLIED
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Outcome()
	}
	return Outcome_OUTCOME_UNKNOWN
}

// DetailOf returns the travelling form of err; nil for nil.
func DetailOf(err error) *ErrorDetail {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Detail
	}
	return &ErrorDetail{Code: Code_CODE_INTERNAL, Outcome: Outcome_OUTCOME_UNKNOWN, Message: err.Error()}
}

// CodeName returns a code as users read it: "lease_not_found".
func CodeName(c Code) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "CODE_"))
}

// OutcomeName returns an outcome as users read it: "not_applied".
func OutcomeName(o Outcome) string {
	return strings.ToLower(strings.TrimPrefix(o.String(), "OUTCOME_"))
}
