package node

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/concord-kv/concord/actors/apply"
	"github.com/concord-kv/concord/actors/expiry"
	"github.com/concord-kv/concord/actors/replica"
	"github.com/concord-kv/concord/actors/session"
	"github.com/concord-kv/concord/actors/watch"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// telemetry is every metric of the node, in a registry of its own: two nodes in one
// process do not share a number. The actors call it; nothing in it blocks.
type telemetry struct {
	facts    *facts
	registry *prometheus.Registry
	provider *sdkmetric.MeterProvider

	// apply
	entries, commands, refused, advanced, replayed metric.Int64Counter
	events, compactions, compacted                 metric.Int64Counter
	granted, renewed, ended, leaseKeys             metric.Int64Counter
	lateness, applyMs                              metric.Int64Histogram
	kinds                                          [state.CommandKinds]metric.MeasurementOption
	anonymous                                      map[bool]metric.MeasurementOption
	causes                                         [causes]metric.MeasurementOption
	// replica
	committedCommands, committedBytes, notAdmitted metric.Int64Counter
	commitMs                                       metric.Int64Histogram
	// expiry
	due, skipped metric.Int64Counter
	// session and watch
	frames, operations, frameBytes, refusals, closed metric.Int64Counter
	batches, delivered, watchEnds                    metric.Int64Counter
	codes                                            map[messages.Code]metric.MeasurementOption
}

var (
	_ apply.Telemetry   = (*telemetry)(nil)
	_ replica.Telemetry = (*telemetry)(nil)
	_ expiry.Telemetry  = (*telemetry)(nil)
	_ session.Telemetry = sessionTelemetry{}
	_ watch.Telemetry   = (*telemetry)(nil)
)

func newTelemetry(f *facts) (*telemetry, error) {
	t := &telemetry{facts: f, registry: prometheus.NewRegistry()}
	exporter, err := otelprom.New(otelprom.WithRegisterer(t.registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	t.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	d := definer{meter: t.provider.Meter("github.com/concord-kv/concord")}
	t.define(&d)
	t.observe(&d)
	t.label()
	return t, d.err
}

// causes is how many values EventCause has; an array of them needs no look-up.
const causes = messages.EventCause_EVENT_CAUSE_REVOKED + 1

// close stops the provider.
func (t *telemetry) close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// definer makes instruments and keeps the first error.
type definer struct {
	meter metric.Meter
	err   error
}

func (d *definer) keep(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *definer) counter(name, what string) metric.Int64Counter {
	c, err := d.meter.Int64Counter(name, metric.WithDescription(what))
	d.keep(err)
	return c
}

func (d *definer) histogram(name, unit, what string, bounds ...float64) metric.Int64Histogram {
	h, err := d.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(bounds...))
	d.keep(err)
	return h
}

func (d *definer) gauge(name, what string, read func() int64) {
	_, err := d.meter.Int64ObservableGauge(name, metric.WithDescription(what),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(read())
			return nil
		}))
	d.keep(err)
}

func (t *telemetry) define(d *definer) {
	t.entries = d.counter("concord_apply_entries", "Log entries applied.")
	t.commands = d.counter("concord_apply_commands", "Commands applied, by command; refusals included.")
	t.applyMs = d.histogram("concord_apply_time", "ms",
		"How long the log waited for a batch to be applied.", 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000)
	t.refused = d.counter("concord_apply_refusals", "Commands that apply refused, by command.")
	t.advanced = d.counter("concord_kv_revisions", "Revisions taken, by command.")
	t.replayed = d.counter("concord_apply_replays", "Commands answered from what was recorded.")
	t.events = d.counter("concord_kv_events", "Changes of keys.")
	t.compactions = d.counter("concord_kv_compactions", "Moves of the compact revision.")
	t.compacted = d.counter("concord_kv_compacted_revisions", "Revisions that became unreadable.")
	t.granted = d.counter("concord_lease_granted", "Leases granted.")
	t.renewed = d.counter("concord_lease_renewed", "Keep-alives.")
	t.ended = d.counter("concord_lease_ended", "Leases that ended, by cause.")
	t.leaseKeys = d.counter("concord_lease_keys_deleted", "Keys that went with their lease, by cause.")
	t.lateness = d.histogram("concord_lease_expiry_lateness", "ms",
		"From a lease's deadline to its end, on the lease clock.", 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)

	t.committedCommands = d.counter("concord_replica_commands", "Commands of this node that were applied.")
	t.committedBytes = d.counter("concord_replica_bytes", "Bytes of these commands.")
	t.notAdmitted = d.counter("concord_replica_refusals", "Commands and barriers that the replica did not take, by code.")
	t.commitMs = d.histogram("concord_replica_commit", "ms",
		"From sending an entry to its being applied here.", 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)

	t.due = d.counter("concord_lease_due", "Leases that expiry found due.")
	t.skipped = d.counter("concord_lease_skipped", "Leases that were due and had changed when their end applied.")

	t.frames = d.counter("concord_session_frames", "Frames that clients sent.")
	t.operations = d.counter("concord_session_operations", "Operations in them.")
	t.frameBytes = d.counter("concord_session_bytes", "Bytes of them.")
	t.refusals = d.counter("concord_session_refusals", "Operations refused before they were passed on, by code.")
	t.closed = d.counter("concord_session_closed", "Connections that ended, by code.")
	t.batches = d.counter("concord_watch_batches", "Batches sent to watches.")
	t.delivered = d.counter("concord_watch_events", "Events in them.")
	t.watchEnds = d.counter("concord_watch_ended", "Watches that ended, by code.")
}

func (t *telemetry) observe(d *definer) {
	f := t.facts
	applied := func(read func(*appliedFacts) uint64) func() int64 {
		return func() int64 { return int64(read(f.applied.Load())) }
	}
	d.gauge("concord_kv_revision", "Current revision.", applied(func(a *appliedFacts) uint64 { return a.Revision }))
	d.gauge("concord_kv_compact_revision", "Compact revision.", applied(func(a *appliedFacts) uint64 { return a.CompactRevision }))
	d.gauge("concord_kv_current_size", "Keys.", applied(func(a *appliedFacts) uint64 { return a.Keys }))
	d.gauge("concord_kv_history_size", "Events that can be replayed.", applied(func(a *appliedFacts) uint64 { return a.HistoryEvents }))
	d.gauge("concord_kv_logical_bytes", "Bytes that count against the quota.", applied(func(a *appliedFacts) uint64 { return a.LogicalBytes }))
	d.gauge("concord_lease_active_count", "Leases.", applied(func(a *appliedFacts) uint64 { return a.Leases }))
	d.gauge("concord_session_live_count", "Exactly-once sessions.", applied(func(a *appliedFacts) uint64 { return a.LiveSessions }))
	d.gauge("concord_idempotency_size", "Recorded idempotency keys.", applied(func(a *appliedFacts) uint64 { return a.Idempotency }))
	d.gauge("concord_apply_index", "Index of the last entry applied.", applied(func(a *appliedFacts) uint64 { return a.Applied }))
	d.gauge("concord_apply_longest", "The longest, in ms, that the log waited for a batch.", f.applying.longest.Load)
	d.gauge("concord_lease_clock", "The lease clock, in ms, at the last entry.", func() int64 { return f.applied.Load().ClockMs })
	d.gauge("concord_replica_leader", "1 on the leader.", func() int64 {
		if f.leader.Load().GetIsLeader() {
			return 1
		}
		return 0
	})
	d.gauge("concord_replica_term", "Raft term.", func() int64 { return int64(f.leader.Load().GetRaftTerm()) })
	d.gauge("concord_session_connections", "Connections of clients.", f.connections.Load)
	d.gauge("concord_watch_count", "Watches.", f.watches.Load)
	d.gauge("concord_watch_behind", "Watches that are fed from the change log.", f.watchesBehind.Load)
	d.gauge("concord_watch_stalled", "Watches that have no credit for what there is for them.", f.watchesStalled.Load)
	d.gauge("concord_watch_lag_revisions", "How far the last watch is behind the node.", f.watchLag.Load)
}

// label makes the attribute sets once: making them costs more than counting.
func (t *telemetry) label() {
	set := func(k, v string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String(k, v)))
	}
	for k := range t.kinds {
		t.kinds[k] = set("command", state.CommandKind(k).String())
	}
	t.anonymous = map[bool]metric.MeasurementOption{true: set("anonymous", "true"), false: set("anonymous", "false")}
	t.causes[messages.EventCause_EVENT_CAUSE_EXPIRED] = set("cause", "expired")
	t.causes[messages.EventCause_EVENT_CAUSE_REVOKED] = set("cause", "revoked")
	t.causes[messages.EventCause_EVENT_CAUSE_DELETED] = set("cause", "deleted")
	t.causes[messages.EventCause_EVENT_CAUSE_WRITTEN] = set("cause", "overwritten")
	t.codes = map[messages.Code]metric.MeasurementOption{}
	for c := range messages.Code_name {
		t.codes[messages.Code(c)] = set("code", messages.CodeName(messages.Code(c)))
	}
}
