package state

import (
	"errors"
	"fmt"
	"io"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
	"github.com/concord-kv/concord/state/snapfile"
	"github.com/concord-kv/concord/state/store"
)

// Load reads a snapshot, format version 2, and returns the machine that it
// describes. It returns a machine only when the whole file is there and true: every
// block has its checksum, every row follows from those before it, every name leads
// somewhere, and the digest of what was loaded is the one that was saved. A damaged
// file gives a *snapfile.Error with the offset.
func Load(r io.Reader) (*Machine, error) { return LoadAt(r, messages.ApplyVersion) }

// LoadAt is Load of a build that knows apply versions up to supported only, for tests
// of clusters that are being upgraded.
func LoadAt(r io.Reader, supported uint32) (*Machine, error) { return LoadAhead(r, supported, nil) }

// LoadAhead is LoadAt where async, unless it is nil, reads and decompresses one block
// ahead: see snapfile.Reader.Ahead.
func LoadAhead(r io.Reader, supported uint32, async snapfile.Async) (*Machine, error) {
	file, err := snapfile.NewReader(r)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if async != nil {
		file.Ahead(async)
	}
	first, err := file.Next()
	if err != nil {
		return nil, whole(err)
	}
	l, err := newLoader(first.GetHeader(), supported)
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		encoded, err := file.Encoded()
		if err != nil {
			return nil, err
		}
		// Nearly all rows are records: they are read without a message in between.
		if l.rec.Parse(encoded) {
			if err = file.Passed(snapfile.Table(l.rec.Kind())); err != nil {
				return nil, err
			}
			err = l.record(&l.rec)
		} else {
			row, e := file.Decode(encoded)
			if e == io.EOF {
				return l.finish()
			}
			if e != nil {
				return nil, e
			}
			err = l.row(row)
		}
		if err != nil {
			return nil, fmt.Errorf("snapshot: row %d: %w", n, err)
		}
	}
}

// whole turns the end of a file into an error where a file cannot end.
func whole(err error) error {
	if err == io.EOF {
		return errors.New("snapshot: no header")
	}
	return err
}

// loader builds a machine from the rows of a snapshot, which come in the order of
// their tables.
type loader struct {
	header    *messages.SnapshotHeader
	supported uint32 // apply versions
	kv        *store.Loader
	m         *Machine  // once the records are complete
	session   *session  // the row before, which the next one may go on with
	open      uint64    // its id
	rec       store.Row // scratch
	auth      *auth.Table
}

func newLoader(h *messages.SnapshotHeader, supported uint32) (*loader, error) {
	if v := h.GetSchemaVersion(); v != messages.SnapshotVersion {
		return nil, fmt.Errorf("snapshot: schema version %d", v)
	}
	if err := messages.ValidateConfig(h.GetConfig()); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if v := h.GetApplyVersion(); v > supported {
		return nil, fmt.Errorf("snapshot: it applies by version %d and this build knows %d: install a newer one", v, supported)
	}
	if c := h.GetClockMs(); c < 0 || c > clockMaxMs {
		return nil, fmt.Errorf("snapshot: %d is no time", c)
	}
	if h.GetNextLeaseId() == 0 || h.GetNextSessionId() == 0 {
		return nil, errors.New("snapshot: no next id")
	}
	kv, err := store.NewLoader(h.GetRevision(), h.GetCompactRevision(), protectedOf(h.GetConfig()))
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return &loader{header: h, supported: supported, kv: kv, auth: auth.New()}, nil
}

func (l *loader) record(row *store.Row) error {
	if l.m != nil {
		return errors.New("a record after the records")
	}
	return l.kv.Take(row)
}

func (l *loader) row(row *messages.SnapshotRow) error {
	if l.rec.FromMessage(row) {
		return l.record(&l.rec)
	}
	if err := l.records(); err != nil {
		return err
	}
	if _, more := row.GetRow().(*messages.SnapshotRow_Session); !more {
		if err := l.endSession(); err != nil {
			return err
		}
	}
	switch r := row.GetRow().(type) {
	case *messages.SnapshotRow_Lease:
		return l.lease(r.Lease)
	case *messages.SnapshotRow_Session:
		return l.sessionRow(r.Session)
	case *messages.SnapshotRow_Idempotency:
		return l.idempotency(r.Idempotency)
	case *messages.SnapshotRow_Cursor:
		return l.cursor(r.Cursor.GetCursor())
	case *messages.SnapshotRow_Report:
		return l.report(r.Report)
	case *messages.SnapshotRow_Index:
		return l.m.indexes.Restore(r.Index)
	case *messages.SnapshotRow_Sample:
		return l.sample(sample{revision: r.Sample.GetRevision(), clockMs: r.Sample.GetClockMs()})
	case *messages.SnapshotRow_Auth:
		return l.auth.Restore(r.Auth)
	case *messages.SnapshotRow_Audit:
		return l.audit(r.Audit)
	}
	return fmt.Errorf("unexpected %T", row.GetRow())
}

// records completes the records and makes the machine around them.
func (l *loader) records() error {
	if l.m != nil {
		return nil
	}
	kv, err := l.kv.Finish()
	if err != nil {
		return err
	}
	h := l.header
	l.m = newMachine(kv, l.supported)
	l.m.setConfig(h.GetConfig())
	l.m.applied = h.GetAppliedIndex()
	l.m.clock = clock{ms: h.GetClockMs(), epoch: h.GetClockEpoch(), replica: h.GetClockReplicaId(), nonce: h.GetClockNonce()}
	l.m.global = global{
		clusterID: h.GetClusterId(), incarnation: h.GetIncarnation(), applyVersion: h.GetApplyVersion(),
		nextLeaseID: h.GetNextLeaseId(), nextSessionID: h.GetNextSessionId(), commandCount: h.GetCommandCount(),
	}
	return nil
}

// finish ties the tables together and compares the digest.
func (l *loader) finish() (*Machine, error) {
	if err := l.records(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if err := l.endSession(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	l.m.setAuth(l.auth)
	l.m.audit.next = l.auth.NextAuditID()
	if err := l.m.attachAll(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if d := l.m.Digest(); d != l.header.GetDigest() {
		return nil, fmt.Errorf("snapshot: the digest is %016x, the header says %016x", d, l.header.GetDigest())
	}
	return l.m, nil
}

// attachAll rebuilds what the records determine: the keys of leases and the entries
// of indexes.
func (m *Machine) attachAll() (err error) {
	indexed := m.indexes.Len() > 0
	m.kv.Ascend("", "", func(r store.Rec) bool {
		if indexed {
			m.indexes.Update(r.Key(), contentOf(""), contentOf(r))
		}
		if r.Lease() == 0 {
			return true
		}
		slot, ok := m.leases.find(r.Lease())
		if !ok {
			err = fmt.Errorf("key %q names lease %d, which does not exist", r.Key(), r.Lease())
			return false
		}
		m.leases.attach(slot, r.Key())
		return true
	})
	if err != nil {
		return err
	}
	m.leases.order.scan(func(s leaseSlot) bool {
		row := m.leases.at(s.slot)
		b := row.body
		switch {
		case row.anonymous && b.keys.len() != 1:
			err = fmt.Errorf("anonymous lease %d has %d keys", s.id, b.keys.len())
		case b.sessionID != 0:
			if o, ok := m.sessions.find(b.sessionID); !ok || o.leaseID != s.id {
				err = fmt.Errorf("lease %d names session %d, which does not name it", s.id, b.sessionID)
			}
		}
		return err == nil
	})
	return err
}
