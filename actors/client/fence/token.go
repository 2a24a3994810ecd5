package fence

import (
	"errors"
	"fmt"
	"strconv"
)

// Token is a number that grows with each grant of a subject. Tokens of one subject are
// never given out twice, also not after the store was restored from a backup. Tokens of
// different subjects do not compare.
type Token uint64

// String returns the decimal form.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// Parse reads the decimal form; 0 is not a token.
func Parse(s string) (Token, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("fence: %q is not a token", s)
	}
	return Token(n), nil
}

// ErrStale matches, with errors.Is, the refusal of every guard.
var ErrStale = errors.New("stale fencing token")

// StaleError is the refusal of a token. errors.Is(err, ErrStale) holds for each.
type StaleError struct {
	// Subject that is guarded.
	Subject string
	// Token that was refused.
	Token Token
	// Highest token that the guard has accepted; 0 where it does not say.
	Highest Token
}

// Error implements error.
func (e *StaleError) Error() string {
	if e.Highest == 0 {
		return fmt.Sprintf("fence: token %d of %q is stale", e.Token, e.Subject)
	}
	return fmt.Sprintf("fence: token %d of %q is stale, %d was accepted", e.Token, e.Subject, e.Highest)
}

// Is matches ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }
