package main

import (
	"context"
	"io"
	"log/slog"

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
			if err := flags.apply(&cfg); err != nil {
				return err
			}
			slog.SetDefault(logger)
			node.InstallLogger(libraryLogger(a.err, logger, a.json()))
			cfg.Logger, cfg.Version = logger, versionText()
			n, err := node.Start(cfg)
			if err != nil {
				return err
			}
			err = a.print(object{"address": n.Addr(), "admin": n.AdminAddr(), "data_dir": cfg.Dir}, func() {
				a.printf("concord: serving on %s, data in %s\n", n.Addr(), cfg.Dir)
				if n.AdminAddr() != "" {
					a.printf("concord: metrics and health on http://%s\n", n.AdminAddr())
				}
			})
			select {
			case <-cmd.Context().Done():
			case <-n.Failed():
				err = messages.NewError(messages.Code_CODE_INTERNAL, "the node failed")
			}
			if closed := n.Close(); err == nil {
				err = closed
			}
			return err
		},
	}
	flags.add(c, &cfg)
	return c
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
