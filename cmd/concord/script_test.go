package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/concord-kv/concord/cluster/clustertest/port"
	"github.com/concord-kv/concord/messages"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"concord": func() { os.Exit(mainCode()) }})
}

// TestScripts runs the scripts of testdata against real processes. Commands of ours:
//
//	node start [FLAG...]   a node of this script, with its data in $WORK/data
//	node stop              ends it in order
//	node kill              ends it at once
//	node pause             it stands still until: node continue
//	exit N COMMAND...      runs a command that must end with this exit code
//	capture NAME REGEXP    sets a variable to the first group found in stdout
//
// $SHORT is a time to live within which a few commands can be run, and after which a
// script does not mind to wait; $LONGER is three times that.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:      "testdata",
		Deadline: time.Now().Add(scriptsMax), // a command that should have ended
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"node": nodeCommand, "exit": exitCommand, "capture": captureCommand,
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("CONCORD_ENDPOINT", "127.0.0.1:1") // nobody listens there
			snapshots, err := filepath.Abs("../../state/snapfile/testdata")
			if err != nil {
				return err
			}
			e.Setenv("SNAPSHOTS", snapshots)
			e.Setenv("SHORT", (slow * time.Second).String())
			e.Setenv("LONGER", (3 * slow * time.Second).String())
			e.Values[serverKey{}] = &server{}
			return nil
		},
	})
}

// How long all scripts together, and the start of a node, may take on a machine that has
// much else to do; under the race detector everything takes up to ten times as long.
const (
	scriptsMax = 3 * time.Minute * slow
	serveMax   = 30 * time.Second * slow
)

type serverKey struct{}

type server struct {
	cmd  *exec.Cmd
	addr string
}

func exitCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("exit: %v", err)
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var e *exec.ExitError
		if !errors.As(err, &e) {
			ts.Fatalf("exit: %v", err)
		}
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func captureCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME REGEXP")
	}
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) < 2 {
		ts.Fatalf("capture: no match for %s", args[1])
	}
	ts.Setenv(args[0], found[1])
}

func nodeCommand(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(serverKey{}).(*server)
	switch {
	case len(args) > 0 && args[0] == "start":
		s.start(ts, args[1:])
	case len(args) == 1 && args[0] == "stop":
		s.end(ts, syscall.SIGTERM)
	case len(args) == 1 && args[0] == "kill":
		s.end(ts, syscall.SIGKILL)
	case len(args) == 1 && args[0] == "pause":
		s.signal(ts, syscall.SIGSTOP)
	case len(args) == 1 && args[0] == "continue":
		s.signal(ts, syscall.SIGCONT)
	default:
		ts.Fatalf("usage: node start|stop|kill|pause|continue")
	}
}

func (s *server) start(ts *testscript.TestScript, flags []string) {
	listen := s.addr // the same again after a restart
	if listen == "" {
		var err error
		if listen, err = port.Address(); err != nil {
			ts.Fatalf("node: %v", err)
		}
	}
	s.cmd = exec.Command("concord", append([]string{"serve", "--listen", listen}, flags...)...)
	s.cmd.Dir = ts.Getenv("WORK")
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		ts.Fatalf("node: %v", err)
	}
	if err := s.cmd.Start(); err != nil {
		ts.Fatalf("node: %v", err)
	}
	ts.Defer(func() {
		if s.cmd != nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
	})
	line := make(chan string, 1)
	go func() {
		l, _ := bufio.NewReader(out).ReadString('\n')
		line <- l
	}()
	select {
	case l := <-line:
		_, rest, ok := strings.Cut(l, "serving on ")
		if !ok {
			ts.Fatalf("node: it said %q", l)
		}
		s.addr, _, _ = strings.Cut(rest, ",")
		ts.Setenv("CONCORD_ENDPOINT", s.addr)
	case <-time.After(serveMax):
		ts.Fatalf("node: it does not serve")
	}
}

func (s *server) end(ts *testscript.TestScript, signal syscall.Signal) {
	if s.cmd == nil {
		ts.Fatalf("node: it does not run")
	}
	_ = s.cmd.Process.Signal(signal)
	err := s.cmd.Wait()
	s.cmd = nil
	if err != nil && signal == syscall.SIGTERM {
		ts.Fatalf("node: %v", err)
	}
}

func (s *server) signal(ts *testscript.TestScript, signal syscall.Signal) {
	if s.cmd == nil {
		ts.Fatalf("node: it does not run")
	}
	ts.Check(s.cmd.Process.Signal(signal))
}

// Every code has the exit code that its outcome asks for.
func TestExitCodes(t *testing.T) {
	for n, name := range messages.Code_name {
		code := messages.Code(n)
		if code == messages.Code_CODE_OK {
			continue
		}
		got := exitCode(messages.NewError(code, ""))
		if got == exitOK || got == exitUnknown || !strings.Contains(exitCodes, fmt.Sprintf("\n  %-5d", got)) {
			t.Errorf("%s: exit code %d", name, got)
		}
		if code == messages.Code_CODE_IDEMPOTENCY_NOT_FOUND {
			continue // the answer of resolve, which is the next thing to ask after 5
		}
		if got := exitCode(messages.UnknownOutcome(code, "")); got != exitUnknown {
			t.Errorf("%s with outcome unknown: exit code %d", name, got)
		}
	}
}

// Every command is documented.
func TestEveryCommandIsDocumented(t *testing.T) {
	a := &app{getenv: os.Getenv}
	for _, c := range commands(a.rootCommand()) {
		if c.Short == "" {
			t.Errorf("%s has no description", c.CommandPath())
		}
		if c.HasParent() && !c.HasSubCommands() && c.RunE == nil && c.Long == "" {
			t.Errorf("%s does nothing", c.CommandPath())
		}
	}
}

func Example() {
	t, err := parseTxn([]byte("if\n exists /a\nthen\n put /a \"x y\" ttl=30s meta.k=v\nelse\n get --prefix /a limit=3\n"))
	fmt.Println(err, len(t.Compares), string(t.Success[0].GetPut().Value), t.Failure[0].GetGet().Limit)
	// Output: <nil> 1 x y 3
}
