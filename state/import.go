package state

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/snapfile"
	"github.com/concord-kv/concord/state/store"
)

// ImportOptions say what a version 1 file does not.
type ImportOptions struct {
	ClusterID   []byte
	Incarnation uint64
	// Revision is the restore revision: every record was created and modified at it,
	// and everything before is compacted. 0 is 1.
	Revision uint64
	// Config is nil for the default.
	Config *messages.ClusterConfig
}

// Import makes a machine from a version 1 file. Each row becomes a record of version
// 1 at the restore revision. A row with a time of expiry becomes a key with that
// much TTL, counted from when the file was taken, since the lease clock of the new
// cluster begins there; a row whose time had passed is left out.
func Import(r io.Reader, o ImportOptions) (*Machine, error) {
	if o.Config == nil {
		o.Config = messages.DefaultClusterConfig()
	}
	if err := messages.ValidateConfig(o.Config); err != nil {
		return nil, err
	}
	if n := len(o.ClusterID); n == 0 || n > clusterIDBytesMax || o.Incarnation == 0 {
		return nil, messages.InvalidField("cluster_id", "a cluster id and an incarnation are needed")
	}
	if o.Revision == 0 {
		o.Revision = 1
	}
	var takenAt int64
	var rows []*messages.SnapshotV1Row
	err := snapfile.ReadV1(r, func(h *messages.SnapshotV1Header) error {
		takenAt = h.GetTakenAtUnixMs()
		return nil
	}, func(row *messages.SnapshotV1Row) error {
		if at := row.GetExpiresAtUnixMs(); at == 0 || at > takenAt {
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b *messages.SnapshotV1Row) int { return strings.Compare(string(a.GetKey()), string(b.GetKey())) })
	return importRows(rows, takenAt, o)
}

func importRows(rows []*messages.SnapshotV1Row, takenAt int64, o ImportOptions) (*Machine, error) {
	kv, err := store.NewLoader(o.Revision, o.Revision, nil)
	if err != nil {
		return nil, err
	}
	nextLease := uint64(1)
	for _, row := range rows {
		record := &messages.Record{
			Key: row.GetKey(), Value: row.GetValue(),
			CreateRevision: o.Revision, ModRevision: o.Revision, Version: 1,
		}
		if row.GetExpiresAtUnixMs() != 0 {
			record.LeaseId = nextLease
			nextLease++
		}
		if err := kv.Row(&messages.SnapshotRow{
			Row:   &messages.SnapshotRow_Current{Current: record},
			Cause: messages.EventCause_EVENT_CAUSE_WRITTEN,
		}); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
	}
	s, err := kv.Finish()
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	m := newMachine(s, messages.ApplyVersion)
	m.global = global{
		clusterID: slices.Clone(o.ClusterID), incarnation: o.Incarnation, applyVersion: messages.ApplyVersion,
		nextLeaseID: 1, nextSessionID: 1,
	}
	m.setConfig(messages.DefaultClusterConfig())
	m.replaceConfig(cloneConfig(o.Config))
	for _, row := range rows {
		if at := row.GetExpiresAtUnixMs(); at != 0 {
			_, slot := m.newLease(min(at-takenAt, clockMaxMs), true, leaseBody{})
			m.leases.attach(slot, string(row.GetKey()))
		}
	}
	m.effects = m.newEffects()
	return m, nil
}
