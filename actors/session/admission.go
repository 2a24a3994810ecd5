package session

import "sync/atomic"

// admission counts what all sessions of the node hold together. A count may pass
// its limit by what is being added at the same moment, and is then taken back.
type admission struct {
	limits      Limits
	connections atomic.Int64
	calls       atomic.Int64
	bytes       atomic.Int64
}

func (a *admission) connect() bool {
	if a.connections.Add(1) > int64(a.limits.ConnectionsMax) {
		a.connections.Add(-1)
		return false
	}
	return true
}

func (a *admission) disconnect() { a.connections.Add(-1) }

// enter admits one call, unless the node has its fill. A node without any call
// admits one of any size.
func (a *admission) enter(bytes int64) bool {
	calls, total := a.calls.Add(1), a.bytes.Add(bytes)
	if calls > 1 && (calls > a.limits.CallsPerNode || total > a.limits.BytesPerNode) {
		a.leave(1, bytes)
		return false
	}
	return true
}

func (a *admission) leave(calls, bytes int64) {
	a.calls.Add(-calls)
	a.bytes.Add(-bytes)
}
