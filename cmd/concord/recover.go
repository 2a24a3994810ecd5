package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
)

func (a *app) recoverCommand() *cobra.Command {
	var (
		cfg   node.Config
		flags serveFlags
		lost  bool
	)
	c := &cobra.Command{
		Use:   "recover FILE",
		Short: "Save what one member has of a cluster that has lost its majority for good",
		Long: "Save, as a backup, what the stopped member of these flags has: the flags of its `concord serve`, or its --config.\n\n" +
			"THE LAST RESORT. It is for a cluster whose majority never comes back. Writes that were acknowledged a moment\n" +
			"before the loss may be missing. Stop every other member that is left, take the one that is furthest ahead, see\n" +
			"that the others never start again, and make a new cluster of the file with `concord restore`.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !lost {
				return messages.InvalidField("majority-is-lost", "say --majority-is-lost: writes that were acknowledged may be missing from what is saved")
			}
			logger, err := newLogger(a.err, flags.level, a.json())
			if err != nil {
				return err
			}
			if err := flags.apply(cmd.Flags(), &cfg); err != nil {
				return err
			}
			if _, err := os.Stat(cfg.Dir); err != nil {
				return messages.InvalidField("data-dir", "%v", err)
			}
			slog.SetDefault(logger)
			node.InstallLogger(libraryLogger(a.err, logger, a.json()))
			cfg.Logger, cfg.Version = logger, versionText()
			if _, err := os.Stat(args[0]); err == nil {
				return messages.InvalidField("file", "%s exists", args[0])
			}
			f, err := os.CreateTemp(filepath.Dir(args[0]), filepath.Base(args[0])+".part-")
			if err != nil {
				return messages.InvalidField("file", "%v", err)
			}
			defer os.Remove(f.Name()) // gone when it has got its name
			revision, err := node.Salvage(cmd.Context(), cfg, f)
			if err == nil {
				err = f.Sync()
			}
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			if err := os.Rename(f.Name(), args[0]); err != nil {
				return err
			}
			return a.print(object{"file": args[0], "revision": revision}, func() {
				a.printf("saved revision %d in %s; now `concord restore %s` for each member of the new cluster\n", revision, args[0], args[0])
			})
		},
	}
	flags.add(c, &cfg)
	c.Flags().BoolVar(&lost, "majority-is-lost", false, "the majority never comes back, and this is known to lose writes")
	return c
}
