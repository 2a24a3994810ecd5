package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"

	"github.com/lni/vfs"
)

// incarnationFile is in the directory of a replica: its incarnation, a number chosen when
// the directory was made, and those of the peers that it has heard.
const incarnationFile = "concord-incarnations"

// incarnations tell a member that lost its files from the member that it was. A replica
// remembers what it voted for and which entries it has said to hold. One that begins again
// under the same id with an empty directory does not, and could help to elect a leader
// that lacks acknowledged writes; and what the others still send it ends it. So each log
// has a number of its own, which both sides of a connection say when they greet, and each
// replica keeps the first that it hears of an id: it neither hears nor speaks to another
// one for as long as the id lives. What is kept is on the disk before the peer is heard.
type incarnations struct {
	fs         vfs.FS
	dir        string
	deployment uint64
	self       uint64

	mu    sync.Mutex
	peers map[uint64]uint64
}

// openIncarnations reads the file of a directory, or makes it; a log that begins afresh has
// another incarnation than the one before it. Peers of another cluster, as before a
// recovery, are forgotten. The directory is dragonboat's: it is there, and synced.
func openIncarnations(cfg DragonboatConfig, fresh bool) (*incarnations, error) {
	x := &incarnations{fs: cfg.FS, dir: cfg.Dir, deployment: cfg.DeploymentID, peers: map[uint64]uint64{}}
	b, err := readFile(cfg.FS, cfg.FS.PathJoin(cfg.Dir, incarnationFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		fresh = true
	case err != nil:
		return nil, err
	default:
		if err := x.decode(b); err != nil {
			return nil, err
		}
	}
	if !fresh {
		return x, nil
	}
	for x.self = 0; x.self == 0; {
		x.self = newNonce()
	}
	return x, x.save()
}

// check returns why a replica of that incarnation is not the one that this one knows; the
// first one is remembered.
func (x *incarnations) check(replica, incarnation uint64) (why string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch known, ok := x.peers[replica]; {
	case ok && known == incarnation:
		return "", nil
	case ok:
		return fmt.Sprintf("replica %d has lost its data directory, or was started with another one: it no longer knows what it has voted for. "+
			"Stop it, remove replica %d from the cluster, and add a new node under a new id", replica, replica), nil
	}
	x.peers[replica] = incarnation
	if err := x.save(); err != nil {
		delete(x.peers, replica)
		return "", err
	}
	return "", nil
}

// has tells whether that incarnation of a replica is known.
func (x *incarnations) has(replica, incarnation uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	known, ok := x.peers[replica]
	return ok && known == incarnation
}

// The file: numbers of 8 bytes, big-endian: deployment, own incarnation, and pairs of
// replica and incarnation; then the CRC32C of all that.
func (x *incarnations) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, x.deployment)
	b = binary.BigEndian.AppendUint64(b, x.self)
	for replica, incarnation := range x.peers {
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, replica), incarnation)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (x *incarnations) decode(b []byte) error {
	end := len(b) - crc32.Size
	if end < 16 || end%16 != 0 || crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return fmt.Errorf("the log is damaged: the checksum of %s does not hold", x.fs.PathJoin(x.dir, incarnationFile))
	}
	x.self = binary.BigEndian.Uint64(b[8:])
	if binary.BigEndian.Uint64(b) != x.deployment {
		return nil
	}
	for at := 16; at < end; at += 16 {
		x.peers[binary.BigEndian.Uint64(b[at:])] = binary.BigEndian.Uint64(b[at+8:])
	}
	return nil
}

// save replaces the file; what it says is on the disk when it returns.
func (x *incarnations) save() error {
	name := x.fs.PathJoin(x.dir, incarnationFile)
	fresh := name + ".new"
	err := writeSynced(x.fs, fresh, x.encode())
	if err == nil {
		err = x.fs.Rename(fresh, name)
	}
	if err != nil {
		_ = x.fs.Remove(fresh)
		return err
	}
	parent, err := x.fs.OpenDir(x.dir)
	if err != nil {
		return err
	}
	err = parent.Sync()
	if cerr := parent.Close(); err == nil {
		err = cerr
	}
	return err
}
