package node

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/concord-kv/concord/actors/apply"
	"github.com/concord-kv/concord/cluster/remoting"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/auth"
)

// The context of a measurement is not used: nothing is sampled or traced with it.
var background = context.Background()

// Applied implements apply.Telemetry. It runs once a batch.
func (t *telemetry) Applied(entries int, e *state.Effects, g apply.Gauges) {
	t.Installed(g)
	for _, d := range g.Digests {
		t.facts.digests.add(d.Index, d.Digest)
	}
	t.entries.Add(background, int64(entries))
	for k := range e.Commands {
		count(t.commands, int(e.Commands[k]), t.kinds[k])
		count(t.refused, int(e.Refused[k]), t.kinds[k])
		count(t.advanced, int(e.Advanced[k]), t.kinds[k])
	}
	count(t.replayed, int(e.Replayed), nil)
	count(t.events, len(e.Events), nil)
	if moved := e.CompactRevision - e.CompactedFrom; moved > 0 {
		t.compactions.Add(background, 1)
		t.compacted.Add(background, int64(moved))
	}
	var anonymous, explicit int
	for i := range e.Granted {
		if e.Granted[i].Anonymous {
			anonymous++
		} else {
			explicit++
		}
	}
	count(t.granted, anonymous, t.anonymous[true])
	count(t.granted, explicit, t.anonymous[false])
	count(t.renewed, len(e.Renewed), nil)
	var ended, keys [causes]int
	for i := range e.Ended {
		l := &e.Ended[i]
		ended[l.Cause]++
		keys[l.Cause] += l.Keys
		if l.Cause == messages.EventCause_EVENT_CAUSE_EXPIRED {
			t.lateness.Record(background, l.LatenessMs)
		}
	}
	for cause := range causes {
		count(t.ended, ended[cause], t.causes[cause])
		count(t.leaseKeys, keys[cause], t.causes[cause])
	}
}

// Applying implements apply.Telemetry.
func (t *telemetry) Applying() { t.facts.applying.begin(t.facts.clock.MonotonicMs()) }

// Answered implements apply.Telemetry.
func (t *telemetry) Answered() {
	t.applyMs.Record(background, t.facts.applying.end(t.facts.clock.MonotonicMs()))
}

// Installed implements apply.Telemetry.
func (t *telemetry) Installed(g apply.Gauges) {
	t.facts.applied.Store(&appliedFacts{Gauges: g, atMs: t.facts.clock.MonotonicMs()})
}

// Configured implements apply.Telemetry.
func (t *telemetry) Configured(clusterID []byte, incarnation uint64, config *messages.ClusterConfig) {
	t.facts.cluster.Store(&clusterFacts{id: clusterID, incarnation: incarnation, config: config})
}

// Authorized implements apply.Telemetry.
func (t *telemetry) Authorized(table *auth.Table) { t.facts.auth.Store(table) }

// Committed implements replica.Telemetry.
func (t *telemetry) Committed(commands, bytes int, tookMs int64) {
	count(t.committedCommands, commands, nil)
	count(t.committedBytes, bytes, nil)
	t.commitMs.Record(background, tookMs)
}

// Refused implements replica.Telemetry.
func (t *telemetry) Refused(code messages.Code, commands int) {
	count(t.notAdmitted, commands, t.codes[code])
}

// sessionTelemetry is the sessions' part: they refuse in their own words.
type sessionTelemetry struct{ *telemetry }

// Refused implements session.Telemetry.
func (t sessionTelemetry) Refused(code messages.Code) { count(t.refusals, 1, t.codes[code]) }

// Expired implements expiry.Telemetry. What ended is counted where it applied, on
// every node; this is the leader's work.
func (t *telemetry) Expired(due, _, skipped int, _ uint64) {
	count(t.due, due, nil)
	count(t.skipped, skipped, nil)
}

// Connections implements session.Telemetry.
func (t *telemetry) Connections(open int) { t.facts.connections.Store(int64(open)) }

// Frame implements session.Telemetry.
func (t *telemetry) Frame(operations, bytes int) {
	t.frames.Add(background, 1)
	t.operations.Add(background, int64(operations))
	t.frameBytes.Add(background, int64(bytes))
}

// Closed implements session.Telemetry.
func (t *telemetry) Closed(code messages.Code) { count(t.closed, 1, t.codes[code]) }

// Watches implements watch.Telemetry.
func (t *telemetry) Watches(live int) { t.facts.watches.Store(int64(live)) }

// Delivered implements watch.Telemetry.
func (t *telemetry) Delivered(batches, events int) {
	count(t.batches, batches, nil)
	count(t.delivered, events, nil)
}

// Backlog implements watch.Telemetry.
func (t *telemetry) Backlog(behind, stalled int, lag uint64) {
	t.facts.watchesBehind.Store(int64(behind))
	t.facts.watchesStalled.Store(int64(stalled))
	t.facts.watchLag.Store(int64(lag))
}

// WatchEnded implements watch.Telemetry.
func (t *telemetry) WatchEnded(code messages.Code) { count(t.watchEnds, 1, t.codes[code]) }

// count adds n under a label made by telemetry.label; nil for none.
func count(c metric.Int64Counter, n int, label metric.MeasurementOption) {
	switch {
	case n == 0:
	case label == nil:
		c.Add(background, int64(n))
	default:
		c.Add(background, int64(n), label)
	}
}

// observeServices shows what the firewall in front of services' actors has refused, by
// reason, and what it serves.
func (t *telemetry) observeServices(l *remoting.Listener) error {
	d := definer{meter: t.provider.Meter("github.com/concord-kv/concord")}
	d.gauge("concord_remoting_sessions", "Sessions of services' actors.", func() int64 { return int64(l.Stats().Sessions) })
	d.gauge("concord_remoting_peers", "Services that are connected.", func() int64 { return int64(l.Stats().Peers) })
	_, err := d.meter.Int64ObservableCounter("concord_remoting_refusals",
		metric.WithDescription("Messages and connections that the firewall refused, by reason."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for reason, n := range l.Stats().Refused {
				o.Observe(int64(n), metric.WithAttributes(attribute.String("reason", reason)))
			}
			return nil
		}))
	d.keep(err)
	return d.err
}
