package state_test

import (
	"github.com/concord-kv/concord/messages"
)

func (s *script) table() map[string]func(*line) string {
	return map[string]func(*line) string{
		// time and ownership
		"wait":      func(l *line) string { s.nowMs += l.millis(l.word(0)); return "" },
		"at":        func(l *line) string { s.nowMs = l.millis(l.word(0)); return "" },
		"clock":     func(*line) string { return millis(s.machine.ClockMs()) },
		"fresh":     s.fresh,
		"bootstrap": s.bootstrap,
		"versions":  s.versions,
		"claim":     s.claim,
		"stale":     s.runStale,
		"tick":      s.tick,
		// writes
		"put":      s.put,
		"put_many": s.putMany,
		"fill":     s.fill,
		"delete":   s.delete,
		"touch":    s.touch,
		"txn":      s.txn,
		// leases and sessions
		"grant": s.grant, "keep_alive": s.keepAlive, "revoke": s.revoke, "expire": s.expire, "due": s.due, "sweep_leases": s.sweepLeases,
		"open_session": s.openSession, "close_session": s.closeSession, "resolve": s.resolve,
		// operators
		"compact": s.compact, "config": s.config, "show_config": s.showConfig, "raise": s.raise,
		"open_cursor": s.openCursor, "checkpoint": s.checkpoint, "close_cursor": s.closeCursor, "cursors": s.cursors, "report": s.report,
		"create_index": s.createIndex, "drop_index": s.dropIndex, "step_index": s.stepIndex, "lookup": s.lookup, "indexes": s.indexes,
		// reads
		"events": func(*line) string { return s.lastEvents },
		"get":    s.get, "get_many": s.getMany, "list": s.list, "history": s.history, "changes": s.changes,
		"info": s.info, "leases": s.leases, "status": s.status, "revision": s.revision,
		// snapshots
		"reload": s.reload,
	}
}

func (s *script) bootstrap(l *line) string {
	config := messages.DefaultClusterConfig()
	config.LeaseTtlMinMs = 100
	return formatResult(s.apply(l, &messages.Command{Op: &messages.Command_Bootstrap{Bootstrap: &messages.Bootstrap{
		ClusterId: []byte("cluster"), Incarnation: 1, ApplyVersion: uint32(l.number("version", messages.ApplyVersion)), Config: config,
	}}}), "")
}

func (s *script) claim(l *line) string {
	epoch, _, _ := s.machine.ClockOwner()
	s.claims++
	r := s.apply(l, &messages.Command{Op: &messages.Command_ClaimClock{ClaimClock: &messages.ClaimClock{
		ExpectedEpoch: l.number("expected", epoch), ReplicaId: l.number("replica", 1), Nonce: s.claims,
	}}})
	return formatResult(r, "epoch %d clock %s", r.GetClaimClock().GetEpoch(), millis(r.GetClaimClock().GetClockMs()))
}

// runStale runs the rest of the line as a leader that was deposed would.
func (s *script) runStale(l *line) string {
	s.stale = true
	defer func() { s.stale = false }()
	rest := *l
	rest.verb, rest.words = l.word(0), l.words[1:]
	return s.verbs[rest.verb](&rest)
}

func (s *script) tick(l *line) string {
	r := s.apply(l, &messages.Command{Op: &messages.Command_Tick{Tick: &messages.Tick{}}})
	return formatResult(r, "compacted %d", s.machine.CompactRevision())
}
