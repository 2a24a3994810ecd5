package actortest

// A planted bug is a patch of production code, as data. Production stays clean: the
// patches exist only in an overlay that TestPlanted builds a second test binary with,
// each behind a switch that the environment sets. The simulation must find every one
// of them by a promise that is checked in all runs, not by a check made for the bug.
type planted struct {
	name string
	// seed finds it, when this was written; code that changes moves it.
	seed  uint64
	edits []edit
}

// edit replaces what stands once in a folder; in which file does not matter. $ON stands
// for "this bug is switched on".
type edit struct{ folder, old, new string }

var plantedBugs = []planted{
	{name: "ack-before-commit", seed: 4, edits: []edit{{
		"consensus/memlog",
		"	return min(n.mem.commit, n.stable)\n",
		"	if $ON && n.role == leader {\n		return n.stable\n	}\n	return min(n.mem.commit, n.stable)\n",
	}}},
	{name: "expire-without-recheck", seed: 21, edits: []edit{{
		"state",
		"if row.renewals != p.GetRenewals() || m.live(row) {",
		"if !$ON && (row.renewals != p.GetRenewals() || m.live(row)) {",
	}}},
	{name: "stamp-from-the-last-tick", seed: 2, edits: []edit{{
		"actors/replica",
		"		stamp := c.clock.stamp(now)\n",
		"		stamp := c.clock.stamp(now)\n		if $ON {\n			stamp -= stamp % 1_000\n		}\n",
	}}},
	{name: "forgotten-expiry", seed: 36, edits: []edit{
		{"actors/expiry", "	lastID     uint64\n", "	lastID     uint64\n	tried      map[uint64]bool\n"},
		{"actors/expiry", "	pairs := m.GetPairs()\n", `	pairs := m.GetPairs()
	if $ON {
		if c.tried == nil {
			c.tried = map[uint64]bool{}
		}
		var fresh []*messages.ExpireLeases_Pair
		for _, p := range pairs {
			if !c.tried[p.LeaseId] {
				fresh = append(fresh, p)
			}
			c.tried[p.LeaseId] = true
		}
		pairs = fresh
	}
`},
	}},
	{name: "lost-event-at-hand-over", seed: 102, edits: []edit{{
		"actors/watch",
		"		if !w.cursor.Before(head) {\n			r.remove(w)\n			h.goLive(w)",
		"		if $ON || !w.cursor.Before(head) {\n			r.remove(w)\n			h.goLive(w)",
	}}},
	{name: "duplicate-on-retry", seed: 1, edits: []edit{{
		"state",
		"		m.replay(r, s.answers[number-s.acknowledged-1])\n		return nil\n",
		"		if $ON {\n			return m.idempotent(r, c)\n		}\n		m.replay(r, s.answers[number-s.acknowledged-1])\n		return nil\n",
	}}},
	{name: "stale-read", seed: 53, edits: []edit{{
		"actors/session", "	if stale {\n", "	if stale || $ON {\n",
	}}},
	{name: "map-order-in-apply", seed: 15, edits: []edit{{
		"state",
		"	body.keys.scan(func(key string) bool {\n",
		`	scan := body.keys.scan
	if $ON {
		scan = func(f func(string) bool) {
			set := map[string]bool{}
			body.keys.scan(func(k string) bool { set[k] = true; return true })
			for k := range set {
				f(k)
			}
		}
	}
	scan(func(key string) bool {
`,
	}}},
	{name: "snapshot-misses-a-table", seed: 10, edits: []edit{{
		"state",
		"	v.sessions.Scan(func(s sessionRow) bool {",
		"	v.sessions.Scan(func(s sessionRow) bool {\n		if $ON {\n			return true\n		}\n		",
	}}},
	{name: "resurrected-lease", seed: 21, edits: []edit{{
		"state",
		"	return slot, !row.anonymous && m.live(row)\n",
		"	return slot, !row.anonymous && (m.live(row) || $ON)\n",
	}}},
	{name: "stale-epoch-accepted", seed: 2, edits: []edit{{
		"state",
		"	return c.nonce != 0 && e.GetEpoch()",
		"	return $ON && c.nonce != 0 || c.nonce != 0 && e.GetEpoch()",
	}}},
	{name: "holder-counts-from-the-reply", seed: 64, edits: []edit{{
		"actors/client/session",
		"func (o observer) Confirmed(sentAt, ttl time.Duration) { o.s.confirmed(sentAt, ttl) }",
		"func (o observer) Confirmed(sentAt, ttl time.Duration) {\n	if $ON {\n		sentAt = o.s.clock.Now()\n	}\n	o.s.confirmed(sentAt, ttl)\n}",
	}}},
	{name: "resumed-watch-starts-now", seed: 1, edits: []edit{{
		"actors/client/pipeline",
		"		r.FromRevision, r.After, r.List = 0, w.after, nil\n",
		"		r.FromRevision, r.After, r.List = 0, w.after, nil\n		if $ON {\n			r.After = nil\n		}\n",
	}}},
	{name: "unknown-told-as-not-applied", seed: 53, edits: []edit{{
		"actors/replica",
		"				c.answer(it, timedOut(true))\n",
		"				c.answer(it, timedOut(!$ON))\n",
	}}},
}
