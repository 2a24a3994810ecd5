package consensus

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lni/dragonboat/v4/logger"

	"github.com/concord-kv/concord/messages"
)

// InstallLogger sends what dragonboat logs to l. It works for the whole process
// and only once, before anything was logged: only a main function calls it. A
// second call panics.
//
// Each of dragonboat's packages logs from its level on; the transport's is raised
// to critical because it reports an unreachable peer as an error every second.
func InstallLogger(l *slog.Logger) {
	installed.Store(true)
	logger.SetLoggerFactory(func(pkg string) logger.ILogger { return newPackageLogger(l, pkg) })
	for pkg, level := range packageLevels {
		logger.GetLogger(pkg).SetLevel(level)
	}
}

// installed says that a main function has said where dragonboat's log goes.
var installed atomic.Bool

// quietByDefault keeps dragonboat from printing on the standard error of a program
// that embeds a node and has installed no logger: errors only.
var quietByDefault = sync.OnceFunc(func() {
	if installed.Load() {
		return
	}
	for pkg, level := range packageLevels {
		logger.GetLogger(pkg).SetLevel(min(level, logger.ERROR))
	}
})

var packageLevels = map[string]logger.LogLevel{
	"dragonboat": logger.WARNING,
	"raft":       logger.WARNING,
	"rsm":        logger.WARNING,
	"logdb":      logger.WARNING,
	"tan":        logger.WARNING,
	"config":     logger.ERROR,
	"settings":   logger.WARNING,
	"transport":  logger.CRITICAL,
	"grpc":       logger.ERROR,
}

// packageLogger is one package's logger.
type packageLogger struct {
	to    *slog.Logger
	level atomic.Int64
}

func newPackageLogger(l *slog.Logger, pkg string) *packageLogger {
	p := &packageLogger{to: l.With("library", "dragonboat", "package", pkg)}
	p.SetLevel(logger.WARNING)
	return p
}

// SetLevel implements logger.ILogger.
func (p *packageLogger) SetLevel(level logger.LogLevel) { p.level.Store(int64(level)) }

func (p *packageLogger) log(level logger.LogLevel, to slog.Level, format string, args []any) {
	if int64(level) > p.level.Load() || !p.to.Enabled(context.Background(), to) {
		return // before formatting: debug lines are on the hot path
	}
	p.to.Log(context.Background(), to, fmt.Sprintf(format, args...))
}

// Debugf implements logger.ILogger.
func (p *packageLogger) Debugf(format string, args ...any) {
	p.log(logger.DEBUG, slog.LevelDebug, format, args)
}

// Infof implements logger.ILogger.
func (p *packageLogger) Infof(format string, args ...any) {
	p.log(logger.INFO, slog.LevelInfo, format, args)
}

// Warningf implements logger.ILogger. Dragonboat warns of every ordinary election and
// of each read that came before it was over; nobody has to do anything about those, so
// they are information here.
func (p *packageLogger) Warningf(format string, args ...any) {
	p.log(logger.WARNING, slog.LevelInfo, format, args)
}

// Errorf implements logger.ILogger.
func (p *packageLogger) Errorf(format string, args ...any) {
	p.log(logger.ERROR, slog.LevelError, format, args)
}

// Panicf implements logger.ILogger: it logs and panics, as dragonboat expects. What the
// panic means to an operator goes first.
func (p *packageLogger) Panicf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if meaning, damaged := explainPanic(text); meaning != "" {
		p.to.Error(meaning)
		if end := onFailStop.Load(); end != nil {
			p.log(logger.CRITICAL, slog.LevelError, "%s", []any{text})
			e := messages.NewError(messages.Code_CODE_UNAVAILABLE, "%s", meaning)
			if damaged {
				e.Err = ErrDamaged
			}
			(*end)(e)
		}
		text = meaning + "\n" + text
	}
	p.log(logger.CRITICAL, slog.LevelError, "%s", []any{text})
	panic(text)
}

// panicExplanations say what dragonboat's panics while it runs mean. An older part of
// the log is read only when an entry of it is asked for, so damage there is found late.
var panicExplanations = []struct {
	text, meaning string
	damaged       bool
}{
	{"install a newer one", "this build is older than the cluster: install a newer one", false},
	{"no space left", "the disk is full: make room and start the node again; nothing that was acknowledged is lost", false},
	{"input/output error", "the disk fails: replace this replica by a new one", true},
	{"crc mismatch", logDamaged, true},
	{"invalid chunk", logDamaged, true},
	{"invalid record", logDamaged, true},
	{"consensus: snapshot", snapshotDamaged, true},
	{"consensus: not a snapshot", snapshotDamaged, true},
	{"corrupted snapshot", snapshotDamaged, true},
	{".gbsnap: no such file", snapshotDamaged, true},
}

const (
	logDamaged      = "the log is damaged: replace this replica by a new one, or restore a backup"
	snapshotDamaged = "the snapshot is damaged or gone: replace this replica by a new one, or restore a backup"
)

func explainPanic(text string) (meaning string, damaged bool) {
	for _, x := range panicExplanations {
		if strings.Contains(text, x.text) {
			return "fail-stop: " + x.meaning, x.damaged
		}
	}
	return "", false
}

var onFailStop atomic.Pointer[func(error)]

// OnFailStop sets what ends the process when dragonboat panics for a reason that an
// operator can do something about: the error says what, and has ErrDamaged in its chain
// when starting again does not help. f must not return. Without it, and for any other
// reason, the panic ends the process. It is for the whole process: only a main function
// calls it.
func OnFailStop(f func(error)) { onFailStop.Store(&f) }
