package state

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// RestoreFloor returns the revision at which a restored cluster begins: beyond
// anything that the backup's cluster can have handed out after the backup, and, by
// the time of the restore, beyond an earlier restore of the same backup.
func RestoreFloor(backupRevision uint64, unixSeconds int64) uint64 {
	const headroom = 1 << 40
	floor := backupRevision + headroom
	if unixSeconds > 0 {
		floor = max(floor, uint64(unixSeconds)<<20)
	}
	return floor
}

// RestoreTimeMs is the time of a restore in Unix milliseconds as its floor tells it, 0 when
// the floor was not made of a time. All members of a restored cluster begin with the same
// state, also those that are made on other hosts later, so nothing else may tell it.
func RestoreTimeMs(floor uint64) int64 {
	const earliest = 1_600_000_000 // seconds: before there was this program
	if seconds := int64(floor >> 20); seconds >= earliest {
		return seconds * 1_000
	}
	return 0
}

// Reincarnate turns a loaded backup into the first state of a new incarnation: the
// revision, the next lease id and the next session id begin at floor, and everything
// before is compacted, so that nothing handed out on a lost timeline is handed out
// again. Nobody owns the clock. Leases and sessions of the backup are still there:
// Leftovers lists what ends them, before the first client is admitted.
//
// It refuses a floor that is not above all of these, and incarnation 0 or the old
// one; the machine is then unchanged.
func (m *Machine) Reincarnate(incarnation, floor uint64) *messages.Error {
	switch {
	case incarnation == 0 || incarnation == m.global.incarnation:
		return messages.InvalidField("incarnation", "%d is not a new incarnation", incarnation)
	case floor <= m.kv.Revision() || floor < m.global.nextLeaseID || floor < m.global.nextSessionID:
		return messages.InvalidField("floor", "%d is not above what the backup has handed out", floor)
	case floor > messages.RevisionMax/2:
		return messages.InvalidField("floor", "%d leaves too few revisions", floor).WithLimit(messages.RevisionMax / 2)
	}
	m.kv.Rebase(floor)
	m.global.incarnation = incarnation
	m.global.nextLeaseID, m.global.nextSessionID = floor, floor
	m.clock.epoch++
	m.clock.replica, m.clock.nonce = 0, 0
	m.samples = sampleTable{}
	config := cloneConfig(m.config)
	for _, p := range config.GetProtectedPrefixes() {
		p.Floor = floor
	}
	m.setConfig(config)
	m.applied = 0
	m.view = nil
	m.effects = m.newEffects()
	return nil
}

// Leftovers returns up to limit commands that end what a restored cluster must not
// inherit: sessions, explicit leases and the cursors and reports on them. Propose
// them, and ask again, until there are none. floor is where the incarnation began:
// leases from it on are its own. Anonymous leases keep their time.
func (v *View) Leftovers(floor uint64, limit int) []*messages.Command {
	var out []*messages.Command
	v.leases.scan(0, func(row *leaseRow) bool {
		if row.id >= floor || len(out) == limit {
			return false
		}
		switch {
		case row.anonymous:
		case row.body.sessionID != 0:
			out = append(out, &messages.Command{Trusted: true, Op: &messages.Command_CloseSession{
				CloseSession: &messages.CloseSession{SessionId: row.body.sessionID},
			}})
		default:
			out = append(out, &messages.Command{Trusted: true, Op: &messages.Command_RevokeLease{
				RevokeLease: &messages.RevokeLease{LeaseId: row.id},
			}})
		}
		return true
	})
	return out
}

// String names the state in logs.
func (m *Machine) String() string {
	return fmt.Sprintf("applied %d, revision %d, digest %016x", m.applied, m.kv.Revision(), m.Digest())
}
