package replica

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// Limits bound what waits in a replica. The zero value of each means its default.
type Limits struct {
	// WaitingCommandsMax and WaitingBytesMax bound the client commands that wait
	// for a place in an entry. Beyond either, a Propose is refused whole as
	// overloaded. Defaults: 16,384 commands and 64 MiB.
	WaitingCommandsMax int
	WaitingBytesMax    int
	// InternalCommandsMax bounds the commands of this node's own actors, which
	// have a queue and a bound of their own. Default: 4,096.
	InternalCommandsMax int
	// BarriersMax bounds the reads that wait for a barrier. Default: 65,536.
	BarriersMax int
	// EntriesInFlight is how many entries may be on their way at once; more than one
	// only while half an entry of commands waits. Default: 2; at most 64.
	EntriesInFlight int
	// EntryCommandsMax and EntryBytesMax end an entry; a single larger command
	// travels alone. Defaults and upper bounds: messages.EntryCommandsMax and
	// messages.EntryBytesMax.
	EntryCommandsMax int
	EntryBytesMax    int
	// EntryTimeoutMs is how long the log may take with an entry before its outcome
	// is unknown. Default: 10,000.
	EntryTimeoutMs int64
	// BarrierTimeoutMs is how long one attempt at a barrier may take; it is tried
	// again until each reader's own deadline. Default: 1,000.
	BarrierTimeoutMs int64
	// ClaimRetryMs is the least time between two attempts to own the clock.
	// Default: 50.
	ClaimRetryMs int64
	// ClaimTimeoutMs is how long one attempt to own the clock may take before the next
	// is made: no write is taken meanwhile, and a claim that the log has lost would
	// else hold them up for EntryTimeoutMs. Default: 1,000.
	ClaimTimeoutMs int64
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def64 := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&l.WaitingCommandsMax, 16_384)
	def(&l.WaitingBytesMax, 64<<20)
	def(&l.InternalCommandsMax, 4_096)
	def(&l.BarriersMax, 65_536)
	def(&l.EntriesInFlight, 2)
	def(&l.EntryCommandsMax, messages.EntryCommandsMax)
	def(&l.EntryBytesMax, messages.EntryBytesMax)
	def64(&l.EntryTimeoutMs, 10_000)
	def64(&l.BarrierTimeoutMs, 1_000)
	def64(&l.ClaimRetryMs, 50)
	def64(&l.ClaimTimeoutMs, 1_000)
	return l
}

// Validate says which limit is out of range.
func (l Limits) Validate() error {
	d := l.withDefaults()
	for _, f := range []struct {
		name       string
		value, max int64
	}{
		{"WaitingCommandsMax", int64(d.WaitingCommandsMax), 1 << 24},
		{"WaitingBytesMax", int64(d.WaitingBytesMax), 1 << 40},
		{"InternalCommandsMax", int64(d.InternalCommandsMax), 1 << 20},
		{"BarriersMax", int64(d.BarriersMax), 1 << 24},
		{"EntriesInFlight", int64(d.EntriesInFlight), 64},
		{"EntryCommandsMax", int64(d.EntryCommandsMax), messages.EntryCommandsMax},
		{"EntryBytesMax", int64(d.EntryBytesMax), messages.EntryBytesMax},
		{"EntryTimeoutMs", d.EntryTimeoutMs, 600_000},
		{"BarrierTimeoutMs", d.BarrierTimeoutMs, 600_000},
		{"ClaimRetryMs", d.ClaimRetryMs, 60_000},
		{"ClaimTimeoutMs", d.ClaimTimeoutMs, 600_000},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("replica: %s is %d, not in [1, %d]", f.name, f.value, f.max)
		}
	}
	return nil
}
