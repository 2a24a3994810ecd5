package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
)

func (a *app) serveCommand() *cobra.Command {
	var (
		cfg   node.Config
		flags serveFlags
	)
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a node: alone, with its data in ./data, for clients on this machine",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(a.err, flags.level, a.json())
			if err != nil {
				return err
			}
			if err := flags.apply(cmd.Flags(), &cfg); err != nil {
				return err
			}
			if err := flags.check(&cfg); err != nil {
				return err
			}
			slog.SetDefault(logger)
			node.InstallLogger(libraryLogger(a.err, logger, a.json()))
			node.OnFailStop(func(err error) {
				a.printError(err, a.json())
				os.Exit(exitCode(err))
			})
			cfg.Logger, cfg.Version = logger, versionText()
			heap := tendHeap(os.Getenv)
			cfg.StartTimeout = -1 // a majority of a cluster may take as long as it likes
			n, err := node.Start(cfg)
			if err != nil {
				return err
			}
			if over, err := a.awaitNode(cmd.Context(), n, cfg); over {
				return errors.Join(err, n.Close())
			}
			heap.loaded()
			err = a.print(object{"address": n.Addr(), "admin": n.AdminAddr(), "etcd": n.EtcdAddr(), "data_dir": cfg.Dir}, func() {
				a.printf("concord: serving on %s, data in %s\n", n.Addr(), cfg.Dir)
				if n.EtcdAddr() != "" {
					a.printf("concord: etcd clients on %s\n", n.EtcdAddr())
				}
				if n.AdminAddr() != "" {
					a.printf("concord: metrics and health on http://%s\n", n.AdminAddr())
				}
			})
			select {
			case <-cmd.Context().Done():
			case <-n.Failed():
				err = messages.NewError(messages.Code_CODE_INTERNAL, "the node failed")
			case <-n.Removed():
				err = errRemoved(cfg.ReplicaID)
			}
			if closed := n.Close(); err == nil {
				err = closed
			}
			return err
		},
	}
	flags.add(c, &cfg)
	c.Flags().Uint64Var(&cfg.SnapshotKeepEntries, "snapshot-keep-entries", 0, "entries that stay in the log behind a snapshot; 0: 2,000")
	return c
}

// startPatience is how long a node may start before it says what it waits for.
const startPatience = 3 * time.Second

// awaitNode waits until the node serves; over says that it will not.
func (a *app) awaitNode(ctx context.Context, n *node.Node, cfg node.Config) (over bool, err error) {
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	for {
		select {
		case <-n.Ready():
			return false, nil
		case <-n.Failed():
			return true, messages.NewError(messages.Code_CODE_INTERNAL, "the node failed")
		case <-n.Removed():
			return true, errRemoved(cfg.ReplicaID)
		case <-ctx.Done():
			return true, nil
		case <-patience.C:
			switch {
			case cfg.Join:
				cfg.Logger.Warn("waiting for the cluster: was this node added, by `concord cluster add`?", "replica", cfg.ReplicaID)
			case len(cfg.InitialMembers) > 1:
				cfg.Logger.Warn("waiting for a majority of the members", "replica", cfg.ReplicaID, "members", len(cfg.InitialMembers))
			}
		}
	}
}

func errRemoved(id uint64) error {
	return messages.NewError(messages.Code_CODE_PERMISSION_DENIED,
		"replica %d was removed from its cluster: its id never comes back; add a new node under a new id, with an empty data directory", id)
}

// libraryLogger is for the consensus library, which warns of every step of an election:
// only errors, unless the operator asked for more than warnings.
func libraryLogger(w io.Writer, l *slog.Logger, asJSON bool) *slog.Logger {
	if l.Enabled(context.Background(), slog.LevelInfo) {
		return l
	}
	quiet, _ := newLogger(w, "error", asJSON)
	return quiet
}

func newLogger(w io.Writer, level string, asJSON bool) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, messages.InvalidField("log-level", "%q is none of debug, info, warn, error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return slog.New(slog.NewTextHandler(w, opts)), nil
}
