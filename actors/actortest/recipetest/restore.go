package recipetest

import (
	"bytes"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
)

// Backup returns a backup of the cluster.
func (w *Town) Backup() []byte {
	w.t.Helper()
	var all bytes.Buffer
	r := &messages.BackupRequest{}
	for {
		reply, err := w.Admin().Operate(Context(w.t), &messages.AdminRequest{Request: &messages.AdminRequest_Backup{Backup: r}})
		if err != nil {
			w.t.Fatal(err)
		}
		b := reply.GetBackup()
		all.Write(b.GetData())
		if b.GetLast() {
			return all.Bytes()
		}
		r = &messages.BackupRequest{BackupId: b.GetBackupId(), Piece: b.GetPiece() + 1}
	}
}

// Restore ends the node and starts one, at the same address, from a backup.
func (w *Town) Restore(backup []byte) {
	w.t.Helper()
	address := w.Node.Addr()
	if err := w.Node.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.Dir = w.t.TempDir()
	seed, err := node.Restore(bytes.NewReader(backup), node.RestoreOptions{}, w.Dir)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ClusterName = seed.Name()
	w.Start(address)
}
