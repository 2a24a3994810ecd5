package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/lni/vfs"

	"github.com/concord-kv/concord/messages"
)

// straySettings are files that dragonboat reads from the working directory while
// the process starts, without a word: they change settings that must never change.
var straySettings = []string{"dragonboat-soft-settings.json", "dragonboat-hard-settings.json"}

// strayAtStart was found when the process started, which is when it had effect.
var strayAtStart = findStraySettings()

func findStraySettings() string {
	for _, name := range straySettings {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	return ""
}

func refuseStraySettings() error {
	found := strayAtStart
	if found == "" {
		found = findStraySettings()
	}
	if found == "" {
		return nil
	}
	return messages.NewError(messages.Code_CODE_UNAVAILABLE,
		"the working directory holds %s, which silently changes how the log is written: remove it or start elsewhere", found)
}

// openDirs are in use by this process. Dragonboat's lock file keeps other
// processes out, not a second open in this one.
var openDirs = struct {
	sync.Mutex
	held map[dirKey]bool
}{held: map[dirKey]bool{}}

type dirKey struct {
	fs   vfs.FS
	path string
}

func lockDir(fs vfs.FS, dir string) (unlock func(), err error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		e := messages.InvalidField("dir", "no absolute path for %q", dir)
		e.Err = err
		return nil, e
	}
	key := dirKey{fs, path}
	openDirs.Lock()
	defer openDirs.Unlock()
	if openDirs.held[key] {
		return nil, messages.NewError(messages.Code_CODE_UNAVAILABLE, "%s is already open in this process", path)
	}
	openDirs.held[key] = true
	return func() {
		openDirs.Lock()
		defer openDirs.Unlock()
		delete(openDirs.held, key)
	}, nil
}

// ErrDamaged is in the chain of an error about what is on the disk: starting again does
// not help, somebody has to do what the error says.
var ErrDamaged = errors.New("damaged")

// openExplanations say what dragonboat's errors at opening mean to an operator.
// Its errors live in an internal package: their text is all there is.
var openExplanations = []struct{ text, meaning string }{
	{"failed to lock data directory", "another process uses the directory"},
	{"resource temporarily unavailable", "another process uses the directory"},
	{"not the owner of the data directory", "the directory belongs to another raft address: start it with the one that it was begun with; " +
		"a replica that was begun without one stays alone, and a backup of it can be restored into a new directory"},
	{"hostname changed", "the directory was made on a host of another name: give the host its old name, or start a new replica under a new id"},
	{"deployment ID changed", "the directory belongs to another cluster (deployment id)"},
	{"logdb type changed", "the directory was written by another kind of log"},
	{"internal/settings/hard.go settings changed", "the directory was written with other fixed settings"},
	{"incompatible LogDB data format", "the directory was written by an incompatible version"},
	{"the log is of replica", "the directory belongs to another replica"},
	{"the log is torn", "the last record was cut off by a loss of power: a node that was always alone is mended by one start with --mend-torn-log; " +
		"any other may have told its peers of that record: replace it by a new one under a new id"},
	{"the log is damaged", "the log is damaged: replace this replica by a new one, or restore a backup"},
	{"the snapshot is damaged", snapshotDamaged},
	{"shard settings are invalid", "the directory was made with other initial members, or the other way about joining"},
	{"marked as deleted", "this replica was removed from the cluster: start a new one under a new id"},
	{"node removed", "this replica was removed from the cluster: start a new one under a new id"},
	{"not a directory", "something in the path is not a directory"},
	{"no such file or directory", "something in the path does not exist and cannot be made"},
	{"file exists", "something in the path is not a directory"},
	{"permission denied", "there is no permission for something in it"},
	{"no space left", "the disk is full"},
	{"read-only file system", "the disk is read-only"},
	{"address already in use", "the raft address is in use"},
	{"cannot assign requested address", "the raft address is not one of this host: set a listen address"},
}

// explainOpen names the likely cause of an error at opening. What is not known is
// taken for damage: the log is read then, and stops at the first bad record.
func explainOpen(cfg DragonboatConfig, err error) error {
	meaning, damaged := "the directory is damaged or not a replica's", true
	for _, x := range openExplanations {
		if strings.Contains(err.Error(), x.text) {
			meaning, damaged = x.meaning, slices.Contains([]string{"the log is torn", "the log is damaged", "the snapshot is damaged"}, x.text)
			break
		}
	}
	if damaged {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	e := messages.NewError(messages.Code_CODE_UNAVAILABLE, "replica %d cannot open %s: %s", cfg.ReplicaID, cfg.Dir, meaning)
	e.Err = err
	return e
}
