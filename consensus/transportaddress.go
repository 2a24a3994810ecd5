package consensus

import (
	"sync"

	"github.com/lni/dragonboat/v4/config"
)

// Dragonboat has the sender's address of every batch of messages validated, which it
// does with a regular expression: a twentieth of what a node does for a put of a lone
// client. An address that was found valid is so for ever.
type validAddresses struct {
	mu    sync.RWMutex
	known map[string]bool
}

// validAddressesMax bounds what is remembered: peers say their own addresses.
const validAddressesMax = 1_000

var addressesSeen = validAddresses{known: map[string]bool{}}

// valid is config.IsValidAddress.
func (v *validAddresses) valid(address string) bool {
	v.mu.RLock()
	known := v.known[address]
	v.mu.RUnlock()
	if known {
		return true
	}
	if !config.IsValidAddress(address) {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) < validAddressesMax {
		v.known[address] = true
	}
	return true
}
