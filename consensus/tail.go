package consensus

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lni/vfs"

	"github.com/concord-kv/concord/messages"
)

// Tail says how the newest file of a stopped replica's log ends.
type Tail struct {
	File  string
	Bytes int64
	// IntactBytes and Records are before the first record that is not intact.
	IntactBytes int64
	Records     int
	State       TailState
}

// TailState is what a Tail's end looks like.
type TailState int

const (
	// TailIntact ends with a whole record, or with one that was cut short in a way
	// that the log drops by itself when it is opened: nothing of it was synced.
	TailIntact TailState = iota
	// TailTorn ends with a record that is not intact, and nothing after it: power
	// was lost while it was written. The log refuses to open until CutTornTail.
	TailTorn
	// TailDamaged has intact records after one that is not: something else than a
	// loss of power changed the file. Records that were acknowledged are gone.
	TailDamaged
)

func (s TailState) String() string { return [...]string{"intact", "torn", "damaged"}[s] }

// CheckTail reads what Tan reads when it opens the log of the stopped replica in
// dir: the manifest and the newest file. It returns the first of the two that is
// not intact, else the newest file, or a zero Tail if there is none to read: the
// log is new, or was closed in an orderly way.
//
// Tan takes a record with a broken header for the end of a file, wherever it is,
// and silently drops what follows; with a broken manifest it starts empty. That is
// what TailDamaged finds before Tan does. A nil fs is the real file system.
func CheckTail(fs vfs.FS, dir string) (Tail, error) {
	if fs == nil {
		fs = vfs.Default
	}
	files, err := tanFiles(fs, dir, 0)
	if err != nil {
		return Tail{}, err
	}
	var t Tail
	for _, file := range files {
		data, err := readFile(fs, file)
		if err != nil {
			return Tail{}, err
		}
		t = scanTail(data)
		t.File = file
		if t.Records == 0 && strings.Contains(file, manifestPrefix) {
			t.State = TailDamaged
		}
		if t.State != TailIntact {
			return t, nil
		}
	}
	if strings.Contains(t.File, manifestPrefix) {
		return Tail{}, nil
	}
	return t, nil
}

// CutTornTail shortens a torn log to its intact part and keeps the rest beside it,
// in a file whose name ends in ".torn". It refuses a log that is not torn. What is
// cut was never acknowledged by this replica; but a replica with peers may have
// told them that it holds it, so that only a cluster of one replica may be mended
// this way: any other replica is replaced by a new one with a new id.
func CutTornTail(fs vfs.FS, dir string) (Tail, error) {
	if fs == nil {
		fs = vfs.Default
	}
	t, err := CheckTail(fs, dir)
	if err != nil {
		return t, err
	}
	if t.State != TailTorn || strings.Contains(t.File, manifestPrefix) {
		return t, messages.NewError(messages.Code_CODE_UNSUPPORTED, "the log in %s is %s, not torn", dir, t.State)
	}
	data, err := readFile(fs, t.File)
	if err != nil {
		return t, err
	}
	if err := writeSynced(fs, t.File+".torn", data[t.IntactBytes:]); err != nil {
		return t, err
	}
	if err := writeSynced(fs, t.File+".mended", data[:t.IntactBytes]); err != nil {
		return t, err
	}
	if err := fs.Rename(t.File+".mended", t.File); err != nil {
		return t, err
	}
	parent, err := fs.OpenDir(fs.PathDir(t.File))
	if err != nil {
		return t, err
	}
	defer parent.Close()
	return t, parent.Sync()
}

func writeSynced(fs vfs.FS, name string, data []byte) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func readFile(fs vfs.FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

const manifestPrefix = "MANIFEST-"

// tanFiles finds what Tan reads when it opens: its manifest, and the newest log
// file if that has no index. A replica's directory holds one Tan directory.
func tanFiles(fs vfs.FS, dir string, depth int) ([]string, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	manifest, newest := "", ""
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			return nil, err
		}
		switch {
		case info.IsDir() && depth < 5:
			if files, err := tanFiles(fs, path, depth+1); err != nil || len(files) > 0 {
				return files, err
			}
		case strings.HasPrefix(name, manifestPrefix):
			manifest = path
		case strings.HasSuffix(name, ".log"):
			newest = path // names have leading zeros
		}
	}
	switch {
	case newest == "":
		return nil, nil // a crash in its first moments leaves a manifest that may be cut
	case manifest == "" || !slices.Contains(names, "CURRENT"):
		return nil, fmt.Errorf("the log is damaged: %s has log files and no manifest", dir)
	case slices.Contains(names, strings.TrimSuffix(fs.PathBase(newest), ".log")+".index"):
		return []string{manifest}, nil
	}
	return []string{manifest, newest}, nil
}

// refuseDamage stops before Tan opens a log that it would shorten by more than a
// torn record, or dragonboat a snapshot that it would panic about.
func refuseDamage(cfg DragonboatConfig) error {
	if _, err := cfg.FS.Stat(cfg.Dir); err != nil {
		return nil // a new directory
	}
	// A file that another process is writing looks torn. Dragonboat takes this lock
	// again a moment later.
	lock, err := cfg.FS.Lock(cfg.FS.PathJoin(cfg.Dir, "LOCK"))
	if err != nil {
		return explainOpen(cfg, fmt.Errorf("failed to lock data directory: %w", err))
	}
	defer lock.Close()
	t, err := CheckTail(cfg.FS, cfg.Dir)
	if err != nil {
		return explainOpen(cfg, err)
	}
	if t.State == TailIntact {
		if err := checkSnapshot(cfg.FS, cfg.Dir); err != nil {
			return explainOpen(cfg, err)
		}
		return nil
	}
	return explainOpen(cfg, fmt.Errorf("the log is %s after %d records, at byte %d of %d of %s",
		t.State, t.Records, t.IntactBytes, t.Bytes, t.File))
}
