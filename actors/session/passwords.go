package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"sync"

	"github.com/concord-kv/concord/cluster/credential"
	"github.com/concord-kv/concord/messages"
)

const (
	// passwordsAtOnce are checked at the same time, passwordsWaiting wait: whoever is
	// nobody yet must not keep the node's processors busy.
	passwordsAtOnce  = 2
	passwordsWaiting = 64
	// passwordsKnown are remembered, so that a client that connects often is checked
	// slowly once.
	passwordsKnown = 1_024
	// passwordRetryMs is what is asked of those that do not even wait.
	passwordRetryMs = 1_000
)

// passwords checks passwords for all sessions of a node. It remembers, of those that
// were right, a keyed hash: not enough to find the password by, and worthless outside
// of this process.
type passwords struct {
	places chan struct{}
	key    [32]byte

	mu      sync.Mutex
	waiting int
	known   map[knownPassword]struct{}
}

type knownPassword [sha256.Size]byte

func newPasswords() *passwords {
	p := &passwords{places: make(chan struct{}, passwordsAtOnce), known: map[knownPassword]struct{}{}}
	rand.Read(p.key[:]) // never fails
	return p
}

// check calls then with the user if the password is theirs, on any goroutine, at once
// or later; u may be nil. Beyond the limits it says overloaded.
func (p *passwords) check(u *messages.User, password string, then func(*passwordChecked)) {
	id := p.identify(u, password)
	p.mu.Lock()
	if _, ok := p.known[id]; ok && u != nil {
		p.mu.Unlock()
		then(&passwordChecked{user: u})
		return
	}
	if p.waiting >= passwordsWaiting {
		p.mu.Unlock()
		e := messages.NewError(messages.Code_CODE_OVERLOADED, "%d passwords wait to be checked", passwordsWaiting).WithLimit(passwordsWaiting)
		e.Detail.RetryAfterMs = passwordRetryMs
		then(&passwordChecked{err: e})
		return
	}
	p.waiting++
	p.mu.Unlock()
	go func() {
		p.places <- struct{}{}
		ok := credential.CheckPassword(u.GetPasswordHash(), password)
		<-p.places
		p.mu.Lock()
		p.waiting--
		if ok {
			if len(p.known) >= passwordsKnown {
				clear(p.known)
			}
			p.known[id] = struct{}{}
		}
		p.mu.Unlock()
		if !ok {
			u = nil
		}
		then(&passwordChecked{user: u})
	}()
}

// identify names a user's hash and a password together: another hash is another name.
func (p *passwords) identify(u *messages.User, password string) (id knownPassword) {
	h := hmac.New(sha256.New, p.key[:])
	h.Write([]byte(u.GetPasswordHash()))
	h.Write([]byte{0})
	h.Write([]byte(password))
	h.Sum(id[:0])
	return id
}
