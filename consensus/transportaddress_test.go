package consensus

import "testing"

// An address is judged as dragonboat judges it, the second time from memory.
func TestValidAddresses(t *testing.T) {
	v := validAddresses{known: map[string]bool{}}
	for range 2 {
		for address, want := range map[string]bool{"10.0.0.1:7000": true, "node-1.example.com:7000": true, "nowhere": false, "": false, "10.0.0.1": false} {
			if got := v.valid(address); got != want {
				t.Errorf("%q: %v, want %v", address, got, want)
			}
		}
	}
}
