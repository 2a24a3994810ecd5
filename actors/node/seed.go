package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// A seed is the state that a new cluster begins with instead of an empty one: what was
// restored from a backup, or imported. Each of the first members has the same seed in
// its data directory before it starts for the first time. The seed names the cluster,
// so that a member without it, or with another, is not heard.
const (
	seedFile = "seed.snapshot" // removed once the log has a snapshot of its own
	seedNote = "seed.json"
)

// Seed says what a data directory was made from.
type Seed struct {
	ClusterID   []byte `json:"cluster_id"`
	Incarnation uint64 `json:"incarnation"`
	// Floor is the revision at which the cluster begins; leases and sessions below it
	// are ended before the first client is admitted.
	Floor  uint64 `json:"floor"`
	Digest uint64 `json:"digest"`
}

// Name is the name of the cluster for Config.ClusterName, unless the operator gives
// one.
func (s Seed) Name() string {
	return fmt.Sprintf("%x/%d/%d/%x", s.ClusterID, s.Incarnation, s.Floor, s.Digest)
}

// RestoreOptions say how a backup becomes a new cluster. The zero value works for a
// cluster of one; members of one cluster need the same Incarnation and Floor.
type RestoreOptions struct {
	// Incarnation of the new cluster; default the backup's and 1.
	Incarnation uint64
	// Floor is the revision at which it begins; default far beyond anything that the
	// backup's cluster can have handed out, and, by the time of day, beyond an earlier
	// restore of the same backup.
	Floor uint64
}

// Restore makes new data directories from a backup. The backup is read whole and
// checked before anything is written. A directory must be empty or not exist.
func Restore(backup io.Reader, o RestoreOptions, dirs ...string) (Seed, error) {
	m, err := state.Load(backup)
	if err != nil {
		return Seed{}, unusable("backup", err)
	}
	id, incarnation := m.ClusterID()
	if o.Incarnation == 0 {
		o.Incarnation = incarnation + 1
	}
	if o.Floor == 0 {
		o.Floor = state.RestoreFloor(m.Revision(), SystemClock().WallMs()/1_000)
	}
	if err := m.Reincarnate(o.Incarnation, o.Floor); err != nil {
		return Seed{}, err
	}
	m.NoteAudit(state.RestoreTimeMs(o.Floor), "restore", fmt.Sprintf("incarnation %d, revision %d", o.Incarnation, o.Floor))
	return plant(m, Seed{ClusterID: id, Incarnation: o.Incarnation, Floor: o.Floor}, dirs)
}

// ImportV1 makes new data directories from a snapshot file of version 1. An empty id
// stands for a random one; members of one cluster need the same.
func ImportV1(v1 io.Reader, clusterID []byte, dirs ...string) (Seed, error) {
	if len(clusterID) == 0 {
		clusterID = newClusterID(nil)
	}
	o := state.ImportOptions{ClusterID: clusterID, Incarnation: 1}
	m, err := state.Import(v1, o)
	if err != nil {
		return Seed{}, unusable("file", err)
	}
	return plant(m, Seed{ClusterID: o.ClusterID, Incarnation: o.Incarnation, Floor: m.Revision()}, dirs)
}

func unusable(field string, err error) error {
	if e := (*messages.Error)(nil); errors.As(err, &e) {
		return err
	}
	e := messages.InvalidField(field, "it cannot be used, and nothing was written")
	e.Err = err
	return e
}

// plant writes the seed into each directory.
func plant(m *state.Machine, s Seed, dirs []string) (Seed, error) {
	s.Digest = m.Digest()
	for _, dir := range dirs {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return s, messages.InvalidField("data_dir", "%s is not empty", dir)
		}
	}
	for _, dir := range dirs {
		if err := s.plantIn(dir, m); err != nil {
			e := messages.NewError(messages.Code_CODE_UNAVAILABLE, "%s cannot be written", dir)
			e.Err = err
			return s, e
		}
	}
	return s, nil
}

// plantIn writes the note last: without it the directory does not start.
func (s Seed) plantIn(dir string, m *state.Machine) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, seedFile), m.View().Save); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, seedNote), func(w io.Writer) error { return json.NewEncoder(w).Encode(s) })
}

// writeFile writes a new file and has it on disk when it returns.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = write(f)
	return errors.Join(err, f.Sync(), f.Close(), syncDir(filepath.Dir(path)))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readSeed returns the seed of a directory and its state; nil when it has none. The
// state is nil when the log has a snapshot of its own by now.
func readSeed(dir string) (*Seed, *state.Machine, error) {
	text, err := os.ReadFile(filepath.Join(dir, seedNote))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, seedFile)); err == nil {
			return nil, nil, messages.NewError(messages.Code_CODE_UNAVAILABLE, "%s was not restored to the end: remove it and restore again", dir)
		}
		return nil, nil, nil
	}
	s := &Seed{}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil {
		return nil, nil, unusable("data_dir", err)
	}
	f, err := os.Open(filepath.Join(dir, seedFile))
	if errors.Is(err, os.ErrNotExist) {
		return s, nil, nil
	}
	if err != nil {
		return nil, nil, unusable("data_dir", err)
	}
	defer f.Close()
	m, err := state.Load(f)
	if err == nil && m.Digest() != s.Digest {
		err = errors.New("node: the seed has another digest than its note says")
	}
	if err != nil {
		return nil, nil, unusable("data_dir", err)
	}
	return s, m, nil
}

// takeSeed reads the seed of the data directory, if there is one.
func (n *Node) takeSeed() (initial *state.Machine, err error) {
	if n.cfg.Dir == "" || n.cfg.FS != nil {
		return nil, nil
	}
	if n.seed, initial, err = readSeed(n.cfg.Dir); err != nil || n.seed == nil {
		return nil, err
	}
	n.seedUsed = initial != nil
	if n.cfg.ClusterName == "" {
		n.cfg.ClusterName = n.seed.Name()
	}
	return initial, nil
}

// restoredLog hears that the state is a snapshot's now, this node's own or the leader's,
// and removes the seed, since the log begins with a snapshot.
func (n *Node) restoredLog() {
	n.cfg.Logger.Info("the state is that of a snapshot")
	if n.seed != nil {
		_ = os.Remove(filepath.Join(n.cfg.Dir, seedFile)) // it is only in the way
	}
}

// leftovers ends what a restored cluster must not inherit from its backup, before the
// first client is admitted. It is part of root.
type leftovers struct {
	floor uint64 // 0: this node was not restored
	over  bool
}

// leftoversAtOnce are proposed together.
const leftoversAtOnce = 200

// pending returns what is still to be proposed.
func (l *leftovers) pending(v *state.View) []*messages.Command {
	if l.floor == 0 || l.over {
		return nil
	}
	commands := v.Leftovers(l.floor, leftoversAtOnce)
	l.over = len(commands) == 0
	return commands
}

// endLeftovers returns true when there are none; a leader proposes what there is.
func (r *root) endLeftovers(v *state.View) bool {
	commands := r.leftovers.pending(v)
	if len(commands) == 0 {
		return true
	}
	if r.leads && r.nowMs >= r.leftoversMs {
		r.leftoversMs = r.nowMs + leftoversEveryMs
		r.lastID++
		r.propose(&messages.Propose{RequestId: bootstrapIDs | r.lastID, TimeoutMs: reporterTimeoutMs, Commands: commands})
	}
	return false
}

// leftoversEveryMs is how long a proposal may take to show in the state before what is
// left is proposed again: ending what has ended changes nothing.
const leftoversEveryMs = 500
