package main

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/snapfile"
)

// backupAttempts is how often a backup begins again when its node is lost.
const backupAttempts = 3

func (a *app) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Save a snapshot of the cluster while it serves; it is verified while it is written",
		Args:  cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) (err error) {
			var info *snapfile.Info
			for attempt := 1; ; attempt++ {
				if info, err = backUp(ctx, c, args[0]); err == nil {
					return a.printSnapshot(args[0], info)
				}
				if attempt == backupAttempts || !lostBackup(err) {
					return err
				}
			}
		}),
	}
}

// lostBackup tells an error after which it may begin again: another node answers.
func lostBackup(err error) bool {
	var e *messages.Error
	return errors.As(err, &e) && e.Code() == messages.Code_CODE_INVALID_ARGUMENT && e.Detail.GetField() == "backup_id"
}

// backUp reads a snapshot into a new file, checks it on the way and gives it its name
// once it is whole and on disk.
func backUp(ctx context.Context, c *client.Client, path string) (*snapfile.Info, error) {
	if _, err := os.Stat(path); err == nil {
		return nil, messages.InvalidField("file", "%s exists", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-")
	if err != nil {
		return nil, messages.InvalidField("file", "%v", err)
	}
	defer func() {
		_ = f.Close()           // again, or after an error that says more
		_ = os.Remove(f.Name()) // gone when it has got its name
	}()
	r, w := io.Pipe()
	type checked struct {
		info *snapfile.Info
		err  error
	}
	done := make(chan checked, 1)
	go func() {
		info, err := snapfile.Inspect(r)
		_ = r.CloseWithError(err) // the writer need not go on with a damaged one
		done <- checked{info, err}
	}()
	err = readPieces(ctx, c, io.MultiWriter(f, w))
	_ = w.CloseWithError(err)
	check := <-done
	switch {
	case err != nil && check.err == nil, err != nil && !errors.Is(err, check.err):
		return nil, err
	case check.err != nil:
		e := messages.NewError(messages.Code_CODE_INTERNAL, "what the node sent is damaged")
		e.Err = check.err
		return nil, e
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	return check.info, os.Rename(f.Name(), path)
}

func readPieces(ctx context.Context, c *client.Client, w io.Writer) error {
	r := &messages.BackupRequest{}
	for {
		reply, err := c.Operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_Backup{Backup: r}})
		if err != nil {
			return err
		}
		b := reply.GetBackup()
		if _, err := w.Write(b.GetData()); err != nil {
			_, _ = c.Operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_Backup{
				Backup: &messages.BackupRequest{BackupId: b.GetBackupId(), Cancel: true}, // a courtesy: it ends by itself
			}})
			return err
		}
		if b.GetLast() {
			_, err := c.Operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_Backup{
				Backup: &messages.BackupRequest{BackupId: b.GetBackupId(), Cancel: true},
			}})
			if lostBackup(err) {
				err = nil // it is there, whole
			}
			return err
		}
		r = &messages.BackupRequest{BackupId: b.GetBackupId(), Piece: b.GetPiece() + 1}
	}
}

func (a *app) inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE",
		Short: "Check a snapshot file and say what is in it",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := openBackup(args[0])
			if err != nil {
				return messages.InvalidField("file", "%v", err)
			}
			defer f.Close()
			info, err := snapfile.Inspect(f)
			if err != nil {
				e := messages.InvalidField("file", "it is damaged after %d rows", info.Rows)
				e.Err = err
				return e
			}
			return a.printSnapshot(args[0], info)
		},
	}
}

func (a *app) printSnapshot(path string, info *snapfile.Info) error {
	o := object{"file": path, "version": info.Version, "rows": info.Rows, "bytes": info.FileBytes, "raw_bytes": info.RawBytes}
	tables := make([]object, len(info.Tables))
	for i, t := range info.Tables {
		tables[i] = object{"table": t.Table.String(), "rows": t.Rows, "bytes": t.Bytes, "largest": t.Largest}
	}
	o["tables"] = tables
	h := info.Header
	if h != nil {
		o["cluster_id"], o["incarnation"] = hex.EncodeToString(h.GetClusterId()), h.GetIncarnation()
		o["revision"], o["compact_revision"] = h.GetRevision(), h.GetCompactRevision()
		o["applied_index"], o["clock_ms"] = h.GetAppliedIndex(), h.GetClockMs()
	}
	if v1 := info.HeaderV1; v1 != nil {
		o["taken_at_unix_ms"] = v1.GetTakenAtUnixMs()
	}
	return a.print(o, func() {
		a.printf("%s: format %d, %d rows, %d bytes, whole\n", path, info.Version, info.Rows, info.FileBytes)
		if h != nil {
			a.printf("cluster %x, incarnation %d, revision %d, compact revision %d\n", h.GetClusterId(), h.GetIncarnation(), h.GetRevision(), h.GetCompactRevision())
		}
		if v1 := info.HeaderV1; v1 != nil {
			a.printf("taken at %s\n", time.UnixMilli(v1.GetTakenAtUnixMs()).UTC().Format(time.RFC3339))
		}
		for _, t := range info.Tables {
			a.printf("  %-12s %8d rows %10d bytes%s\n", t.Table, t.Rows, t.Bytes, holds(t.Table, info.Version))
		}
	})
}

// holds says what is in a table whose name alone would mislead: the file has each
// record once, so that a key which was written after the compact revision has its
// record among the events.
func holds(t snapfile.Table, version uint32) string {
	switch {
	case version == 1:
	case t == snapfile.TableCurrent:
		return "  (keys that were not written since the compact revision)"
	case t == snapfile.TableEvent:
		return "  (all writes after the compact revision, the newest records among them)"
	}
	return ""
}

func (a *app) restoreCommand() *cobra.Command {
	var (
		o    node.RestoreOptions
		dirs []string
	)
	c := &cobra.Command{
		Use:   "restore FILE --data-dir DIR...",
		Short: "Make data directories of a new cluster from a backup",
		Long: "Make data directories from a backup: a new incarnation of the cluster, which begins at a revision beyond anything\n" +
			"that was handed out, so that nothing is handed out twice. Explicit leases, sessions and cursors end before\n" +
			"the first client is admitted; keys with a TTL keep what was left of it.\n\n" +
			"Each first member needs one of these directories. Name them all here, or repeat the command on each host with\n" +
			"the --floor and --incarnation that the first one printed. Then start the members as of a new cluster.\n" +
			"A node that joins later needs --cluster-name, as printed.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.plant(args[0], dirs, func(f io.Reader) (node.Seed, error) { return node.Restore(f, o, dirs...) })
		},
	}
	c.Flags().StringArrayVar(&dirs, "data-dir", nil, "a directory to make, empty or not there; may be repeated")
	c.Flags().Uint64Var(&o.Floor, "floor", 0, "revision at which the cluster begins; default far beyond the backup and by the time of day")
	c.Flags().Uint64Var(&o.Incarnation, "incarnation", 0, "number of the new incarnation; default the backup's and 1")
	return c
}

func (a *app) migrateCommand() *cobra.Command {
	var (
		dirs []string
		id   string
	)
	c := &cobra.Command{
		Use:   "migrate-v1 FILE --data-dir DIR...",
		Short: "Make data directories of a new cluster from a snapshot file of version 1",
		Long: "Make data directories from a version 1 file. Each record begins again with version 1; a time of expiry that had not\n" +
			"passed when the file was taken becomes a TTL, the others are left out. For several hosts give the same --cluster-id.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			clusterID, err := hex.DecodeString(id)
			if err != nil || len(clusterID) != 0 && len(clusterID) != 16 {
				return messages.InvalidField("cluster-id", "%q is not 32 hexadecimal digits", id)
			}
			return a.plant(args[0], dirs, func(f io.Reader) (node.Seed, error) { return node.ImportV1(f, clusterID, dirs...) })
		},
	}
	c.Flags().StringArrayVar(&dirs, "data-dir", nil, "a directory to make, empty or not there; may be repeated")
	c.Flags().StringVar(&id, "cluster-id", "", "id of the new cluster, 32 hexadecimal digits; default a random one")
	return c
}

// plant makes data directories from a file.
func (a *app) plant(path string, dirs []string, make func(io.Reader) (node.Seed, error)) error {
	if len(dirs) == 0 {
		return messages.InvalidField("data-dir", "at least one is needed")
	}
	f, err := openBackup(path)
	if err != nil {
		return messages.InvalidField("file", "%v", err)
	}
	defer f.Close()
	s, err := make(f)
	if err != nil {
		return err
	}
	o := object{"data_dirs": dirs, "cluster_id": hex.EncodeToString(s.ClusterID), "incarnation": s.Incarnation, "floor": s.Floor, "cluster_name": s.Name()}
	return a.print(o, func() {
		for _, d := range dirs {
			a.printf("made %s\n", d)
		}
		a.printf("cluster %x, incarnation %d, floor %d\n", s.ClusterID, s.Incarnation, s.Floor)
		a.printf("cluster name, for nodes that join later: %s\n", s.Name())
	})
}
