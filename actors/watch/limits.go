package watch

import "github.com/concord-kv/concord/messages"

// Limits bound what the hub holds. The zero value of each means its default.
type Limits struct {
	// WatchersMax is for the node, WatchersPerSessionMax for one connection; a
	// watch beyond either is refused with watch_limit. Defaults: 10,000 and 100; each
	// at most WatchersCeiling.
	WatchersMax           int
	WatchersPerSessionMax int
	// SlowConsumerMs ends a watch that is behind and has sent no credit for this
	// long. Default: 30,000.
	SlowConsumerMs int64
	// LeaderlessMs ends every watch, with no_quorum, and refuses new ones once the node has known no leader for this
	// long, so that the clients of a node that was cut off go elsewhere instead of
	// waiting for events that cannot come. Default: 10,000.
	LeaderlessMs int64
	// ReplayEventsMax is how many events of the change log one step of a replay
	// looks at, give or take one revision, before what waits in the mailbox is
	// looked at. Default: 4,096.
	ReplayEventsMax int
}

// WatchersCeiling bounds what may be configured.
const WatchersCeiling = 1_000_000

// Validate returns what makes no sense, with the name of the field.
func (l Limits) Validate() *messages.Error {
	for _, f := range []struct {
		name       string
		value, max int64
	}{
		{"WatchersMax", int64(l.WatchersMax), WatchersCeiling},
		{"WatchersPerSessionMax", int64(l.WatchersPerSessionMax), WatchersCeiling},
		{"SlowConsumerMs", l.SlowConsumerMs, 3_600_000},
		{"LeaderlessMs", l.LeaderlessMs, 3_600_000},
		{"ReplayEventsMax", int64(l.ReplayEventsMax), 1_000_000},
	} {
		if f.value < 0 || f.value > f.max {
			return messages.InvalidField(f.name, "%d is not within 0 and %d", f.value, f.max).WithLimit(uint64(f.max))
		}
	}
	return nil
}

func (l Limits) withDefaults() Limits {
	if l.WatchersMax == 0 {
		l.WatchersMax = messages.WatchersPerNodeDefault
	}
	if l.WatchersPerSessionMax == 0 {
		l.WatchersPerSessionMax = messages.WatchersPerClientDefault
	}
	if l.SlowConsumerMs == 0 {
		l.SlowConsumerMs = messages.WatchSlowConsumerMs
	}
	if l.LeaderlessMs == 0 {
		l.LeaderlessMs = 10_000
	}
	if l.ReplayEventsMax == 0 {
		l.ReplayEventsMax = 4_096
	}
	return l
}
