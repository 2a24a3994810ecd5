package state

import (
	"errors"
	"io"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/snapfile"
)

// Save writes the view as a snapshot, format version 2. It may run beside the
// machine: nothing waits for it. An error is the writer's; what was written then is
// torn, and Load refuses it.
func (v *View) Save(w io.Writer) error {
	out, err := snapfile.NewWriter(w)
	if err != nil {
		return err
	}
	if err := v.rows(out); err != nil {
		return errors.Join(err, out.Close())
	}
	return out.Close()
}

// emit writes a row of a snapshot and reports whether the next one is wanted.
type emit func(*messages.SnapshotRow) bool

// rows writes every row of a snapshot, in the order of the tables.
func (v *View) rows(out *snapfile.Writer) (err error) {
	write := func(r *messages.SnapshotRow) bool {
		err = out.Row(r)
		return err == nil
	}
	write(&messages.SnapshotRow{Row: &messages.SnapshotRow_Header{Header: v.header()}})
	if err == nil {
		err = v.recordRows(out)
	}
	for _, table := range []func(emit){
		v.leaseRows, v.sessionRows, v.idempotencyRows, v.cursorRows, v.reportRows, v.indexRows, v.sampleRows,
		v.authRows, v.auditRows,
	} {
		if err != nil {
			break
		}
		table(write)
	}
	return err
}

func (v *View) header() *messages.SnapshotHeader {
	return &messages.SnapshotHeader{
		SchemaVersion:   messages.SnapshotVersion,
		ClusterId:       v.global.clusterID,
		Incarnation:     v.global.incarnation,
		AppliedIndex:    v.applied,
		Revision:        v.kv.Revision(),
		CompactRevision: v.kv.Compacted(),
		ClockMs:         v.clock.ms,
		ClockEpoch:      v.clock.epoch,
		ClockReplicaId:  v.clock.replica,
		ClockNonce:      v.clock.nonce,
		NextLeaseId:     v.global.nextLeaseID,
		NextSessionId:   v.global.nextSessionID,
		ApplyVersion:    v.global.applyVersion,
		Config:          v.config,
		Digest:          v.digest,
		CommandCount:    v.global.commandCount,
	}
}
