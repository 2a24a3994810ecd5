package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// app is one run of the command.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string

	endpoint           string
	output             string
	timeout            time.Duration
	verbose            bool
	ca, cert, key      string // PEM files
	token, tokenFile   string
	user, passwordFile string
	idempotencyKey     string
	usedIdempotency    string // the key of the last write
}

const endpointDefault = "127.0.0.1:7411"

// run executes the command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil && messages.OutcomeOf(err) != messages.Outcome_OUTCOME_UNKNOWN {
		err = errInterrupted
	}
	var child childExit
	if err != nil && !errors.Is(err, errInterrupted) && !errors.As(err, &child) {
		// A bad command line may have kept the flags from being read.
		a.printError(err, a.json() || slices.Contains(args, "-ojson") || jsonAsked(args))
	}
	return exitCode(err)
}

// jsonAsked finds -o json in a command line that could not be read.
func jsonAsked(args []string) bool {
	for i, arg := range args {
		if arg == "--output=json" || arg == "-o=json" || (arg == "-o" || arg == "--output") && i+1 < len(args) && args[i+1] == "json" {
			return true
		}
	}
	return false
}

func (a *app) json() bool { return a.output == "json" }

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "concord",
		Short:         "A replicated, revisioned key-value store whose heart is the lease",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.output != "text" && a.output != "json" {
				return messages.InvalidField("output", "%q is neither text nor json", a.output)
			}
			return nil
		},
	}
	f := root.PersistentFlags()
	f.StringVar(&a.endpoint, "endpoint", "", "nodes as HOST:PORT[,HOST:PORT...]; else CONCORD_ENDPOINT, else "+endpointDefault)
	f.StringVarP(&a.output, "output", "o", "text", "text or json")
	f.DurationVar(&a.timeout, "timeout", 5*time.Second, "how long a request may take")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "say on stderr where the client is connected, and why it no longer is")
	f.StringVar(&a.ca, "ca", "", "PEM file of the authority of the nodes' certificates; turns TLS on")
	f.StringVar(&a.cert, "cert", "", "PEM file of the client's certificate")
	f.StringVar(&a.key, "key", "", "PEM file of the certificate's key")
	f.StringVar(&a.token, "token", "", "who you are, as concord auth token printed it; else CONCORD_AUTH_TOKEN")
	f.StringVar(&a.tokenFile, "token-file", "", "file with the token; read again when it must be renewed")
	f.StringVar(&a.user, "user", "", "who you are, with a password; else CONCORD_USER")
	f.StringVar(&a.passwordFile, "password-file", "", "file with the password of --user in its first line; else CONCORD_PASSWORD")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(err) })
	root.AddCommand(
		a.serveCommand(), a.versionCommand(), a.statusCommand(), a.revisionCommand(),
		a.putCommand(), a.getCommand(), a.delCommand(), a.touchCommand(), a.txnCommand(), a.resolveCommand(),
		a.listCommand(), a.historyCommand(), a.changesCommand(), a.watchCommand(),
		a.lockCommand(), a.electCommand(), a.registerCommand(),
		a.leaseCommand(), a.indexCommand(), a.cursorCommand(), a.compactCommand(), a.configCommand(),
		a.clusterCommand(), a.backupCommand(), a.restoreCommand(), a.recoverCommand(), a.inspectCommand(), a.migrateCommand(),
		a.benchCommand(), a.certCommand(), a.authCommand(), a.auditCommand(),
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes of every command mean", Long: exitCodes},
	)
	for _, c := range commands(root) {
		if c.Args != nil {
			check := c.Args
			c.Args = func(c *cobra.Command, args []string) error {
				if err := check(c, args); err != nil {
					return messages.InvalidField("arguments", "%v; usage: concord %s", err, usage(c))
				}
				return nil
			}
		}
	}
	return root
}

// usage is how a command is written, without what every command takes. Where it says more
// than one form each has the whole path already.
func usage(c *cobra.Command) string {
	path := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
	return strings.TrimSuffix(path, c.Name()) + c.Use
}

// commands returns a command and all below it.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

// usageError makes a bad command line an error like any other.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		return messages.InvalidField(bad.GetFlag().Name, "%q is not a %s%s", bad.GetValue(), bad.GetFlag().Value.Type(), example(bad.GetFlag()))
	}
	return messages.InvalidField("arguments", "%v", err)
}

// example shows how a flag's value is written, where its type does not say it.
func example(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return ", as 30s"
	case "uint32", "uint64", "uint":
		return ", a whole number from 0"
	}
	return ""
}

// group is a command that only has others below it.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return messages.InvalidField("arguments", "no command %q", c.CommandPath()+" "+args[0])
		}
		return messages.InvalidField("arguments", "%s needs one of: %s", c.CommandPath(), strings.Join(names(c), ", "))
	}}
	c.AddCommand(below...)
	return c
}

func names(c *cobra.Command) []string {
	var all []string
	for _, sub := range c.Commands() {
		all = append(all, sub.Name())
	}
	return all
}

// with makes the body of a client command: it connects, runs f and closes.
func (a *app) with(f func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		return f(cmd.Context(), c, args)
	}
}

// withSession is with for a command that holds something while it runs.
func (a *app) withSession(f func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.connectSession()
		if err != nil {
			return err
		}
		defer c.Close()
		return f(cmd.Context(), c, args)
	}
}

// withKey adds --idempotency-key to a command that writes.
func (a *app) withKey(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("idempotency-key") && a.idempotencyKey == "" {
			return messages.InvalidField("idempotency_key", "must not be empty")
		}
		return run(c, args)
	}
	c.Flags().StringVar(&a.idempotencyKey, "idempotency-key", "", "repeat the write of this key: it takes effect once; default a random one")
	return c
}
