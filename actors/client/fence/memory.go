package fence

import "sync"

// Memory guards a resource of this process: one subject. The zero value has accepted
// nothing yet. It may be used by many goroutines and must not be copied. What it has
// accepted ends with the process, so the resource must too.
type Memory struct {
	mu      sync.Mutex
	highest Token
}

// Do runs write if the token is at least as high as every one before, one call at a
// time, and returns its error: the look and the write are one step. A lower token gives
// a *StaleError and nothing runs. A token counts as accepted even if write fails.
func (m *Memory) Do(subject string, t Token, write func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t < m.highest || t == 0 {
		return &StaleError{Subject: subject, Token: t, Highest: m.highest}
	}
	m.highest = t
	return write()
}

// Highest is the highest token that was accepted; 0 for none.
func (m *Memory) Highest() Token {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.highest
}
