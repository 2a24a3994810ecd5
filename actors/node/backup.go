package node

import (
	"bufio"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/concord-kv/concord/messages"
)

const (
	// backupPieceBytes is the size of one piece; pieces ahead of the reader are at most
	// backupAhead, so that a backup costs no memory to speak of.
	backupPieceBytes = 512 << 10
	backupAhead      = 2
	// backupsMax are read at once: each keeps a view of the state.
	backupsMax = 2
	// backupIdle ends a backup that nobody reads on.
	backupIdle = time.Minute
)

// backups are the snapshots that operators are reading. A snapshot is saved from a
// frozen view while it is read, at the reader's pace; the node goes on.
type backups struct {
	mu   sync.Mutex
	byID map[uint64]*backup
	last uint64
}

// backup is one of them. Its methods are called by one request at a time: lock mu.
type backup struct {
	id                uint64
	revision, applied uint64
	pieces            chan []byte // closed at the end
	failed            error       // set before pieces is closed
	quit              chan struct{}
	once              sync.Once
	idle              *time.Timer

	mu    sync.Mutex
	next  uint64 // the piece that has not been read yet
	piece []byte // the one before it
	over  bool   // piece is the last
}

func (b *backup) cancel() { b.once.Do(func() { close(b.quit) }) }

var errBackupEnded = errors.New("node: the backup was abandoned")

// Write implements io.Writer: it waits for the reader.
func (b *backup) Write(p []byte) (int, error) {
	select {
	case b.pieces <- append([]byte(nil), p...):
		return len(p), nil
	case <-b.quit:
		return 0, errBackupEnded
	}
}

// backUp answers one request for a piece.
func (n *Node) backUp(ctx context.Context, r *messages.BackupRequest) (*messages.AdminReply, error) {
	var (
		b   *backup
		err error
	)
	if r.GetBackupId() == 0 {
		b, err = n.openBackup(ctx)
	} else if b = n.backups.of(r.GetBackupId()); b == nil {
		err = messages.InvalidField("backup_id", "no backup %d is being read here: begin again", r.GetBackupId())
	}
	if err != nil {
		return nil, err
	}
	if r.GetCancel() {
		n.backups.end(b)
		return &messages.AdminReply{Reply: &messages.AdminReply_Backup{Backup: &messages.BackupReply{BackupId: b.id, Last: true}}}, nil
	}
	b.idle.Reset(backupIdle)
	piece, last, err := b.read(ctx, r.GetPiece())
	if err != nil {
		return nil, err
	}
	return &messages.AdminReply{Reply: &messages.AdminReply_Backup{Backup: &messages.BackupReply{
		BackupId: b.id, Piece: r.GetPiece(), Data: piece, Last: last, Revision: b.revision, AppliedIndex: b.applied,
	}}}, nil
}

// read returns a piece: the next, or again the one before it.
func (b *backup) read(ctx context.Context, number uint64) (piece []byte, last bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next > 0 && number == b.next-1 {
		return b.piece, b.over, nil
	}
	if number != b.next || b.over {
		return nil, false, messages.InvalidField("piece", "%d is not the next piece, %d", number, b.next)
	}
	select {
	case piece, ok := <-b.pieces:
		if !ok && b.failed != nil {
			e := messages.NewError(messages.Code_CODE_INTERNAL, "the snapshot could not be saved")
			e.Err = b.failed
			return nil, false, e
		}
		b.piece, b.over = piece, !ok
		b.next++
		return b.piece, b.over, nil
	case <-b.quit:
		return nil, false, messages.InvalidField("backup_id", "the backup was abandoned: begin again")
	case <-ctx.Done():
		return nil, false, messages.NewError(messages.Code_CODE_TIMEOUT, "the next piece is not there yet")
	}
}

// openBackup begins one at a state that has everything acknowledged so far.
func (n *Node) openBackup(ctx context.Context) (*backup, error) {
	reached := make(chan error, 1)
	n.log.ReadIndex(timeLeft(ctx), func(err error) { reached <- err })
	if err := <-reached; err != nil {
		return nil, noQuorum(err)
	}
	v, err := n.view(ctx)
	if err != nil {
		return nil, err
	}
	b := &backup{revision: v.Revision(), applied: v.Applied(), pieces: make(chan []byte, backupAhead), quit: make(chan struct{})}
	k := &n.backups
	k.mu.Lock()
	if len(k.byID) >= backupsMax {
		k.mu.Unlock()
		e := messages.NewError(messages.Code_CODE_OVERLOADED, "%d backups are being read from this node", backupsMax).WithLimit(backupsMax)
		e.Detail.RetryAfterMs = 1_000
		return nil, e
	}
	k.last++
	b.id = uint64(n.cfg.Clock.WallMs())<<20 + k.last // of another run of this node: not this one
	if k.byID == nil {
		k.byID = map[uint64]*backup{}
	}
	k.byID[b.id] = b
	k.mu.Unlock()
	b.idle = time.AfterFunc(backupIdle, func() { k.end(b) })
	n.waits.Go(func() {
		w := bufio.NewWriterSize(b, backupPieceBytes)
		err := v.Save(w)
		if err == nil {
			err = w.Flush()
		}
		b.failed = err
		close(b.pieces)
	})
	return b, nil
}

func (k *backups) of(id uint64) *backup {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byID[id]
}

func (k *backups) end(b *backup) {
	b.cancel()
	b.idle.Stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byID, b.id)
}

// close ends all, so that nobody waits for a reader.
func (k *backups) close() {
	k.mu.Lock()
	all := k.byID
	k.byID = nil
	k.mu.Unlock()
	for _, b := range all {
		b.cancel()
		b.idle.Stop()
	}
}
