package consensus

import (
	"sync/atomic"

	"github.com/lni/vfs"
)

// crashFS loses power at a chosen sync. Up to there it is a strict file system in
// memory: what is not synced is lost by recover. From there on syncs still return,
// but keep nothing, so that the process under test can be closed in peace; nothing
// it acknowledges after the crash counts.
type crashFS struct {
	*vfs.MemFS
	at      int64 // the sync that does not happen; 0: none
	syncs   atomic.Int64
	crashed atomic.Bool
}

func newCrashFS(at int64) *crashFS { return &crashFS{MemFS: vfs.NewStrictMem(), at: at} }

// sync is called before each sync.
func (fs *crashFS) sync() {
	if fs.syncs.Add(1) == fs.at {
		fs.crashed.Store(true)
		fs.SetIgnoreSyncs(true)
	}
}

// recover turns the power on again: what was not synced is gone.
func (fs *crashFS) recover() {
	fs.SetIgnoreSyncs(true) // a clean run ends with a crash, too
	fs.ResetToSyncedState()
	fs.SetIgnoreSyncs(false)
	fs.crashed.Store(false)
	fs.at = 0
}

func (fs *crashFS) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return crashFile{f, fs}, nil
}

func (fs *crashFS) Create(name string) (vfs.File, error) { return fs.wrap(fs.MemFS.Create(name)) }

func (fs *crashFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return fs.wrap(fs.MemFS.Open(name, opts...))
}

func (fs *crashFS) OpenDir(name string) (vfs.File, error) { return fs.wrap(fs.MemFS.OpenDir(name)) }

func (fs *crashFS) OpenForAppend(name string) (vfs.File, error) {
	return fs.wrap(fs.MemFS.OpenForAppend(name))
}

func (fs *crashFS) ReuseForWrite(oldname, newname string) (vfs.File, error) {
	return fs.wrap(fs.MemFS.ReuseForWrite(oldname, newname))
}

type crashFile struct {
	vfs.File
	fs *crashFS
}

func (f crashFile) Sync() error {
	f.fs.sync()
	return f.File.Sync()
}
