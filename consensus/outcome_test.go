package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/logger"

	"github.com/concord-kv/concord/messages"
)

// result makes a RequestResult of a code that dragonboat keeps to itself, and says
// which one it is.
func result(t *testing.T, is func(*dragonboat.RequestResult) bool) dragonboat.RequestResult {
	t.Helper()
	for code := range 8 {
		var r dragonboat.RequestResult
		f := reflect.ValueOf(&r).Elem().FieldByName("code")
		reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().SetInt(int64(code))
		if is(&r) {
			return r
		}
	}
	t.Fatal("no such result")
	return dragonboat.RequestResult{}
}

// What a proposer may conclude, line by line.
func TestWhatAProposerMayConclude(t *testing.T) {
	const no, maybe = messages.Outcome_OUTCOME_NOT_APPLIED, messages.Outcome_OUTCOME_UNKNOWN
	type line struct {
		err     error
		code    messages.Code
		outcome messages.Outcome
	}
	end := func(is func(*dragonboat.RequestResult) bool) dragonboat.RequestResult { return result(t, is) }
	dropped := end((*dragonboat.RequestResult).Dropped)
	timeout := end((*dragonboat.RequestResult).Timeout)
	terminated := end((*dragonboat.RequestResult).Terminated)
	rejected := end((*dragonboat.RequestResult).Rejected)
	aborted := end((*dragonboat.RequestResult).Aborted)
	completed := end((*dragonboat.RequestResult).Completed)
	for name, l := range map[string]line{
		"dropped":              {proposalEnded(dropped), messages.Code_CODE_NO_LEADER, no},
		"timeout":              {proposalEnded(timeout), messages.Code_CODE_TIMEOUT, maybe},
		"terminated":           {proposalEnded(terminated), messages.Code_CODE_NODE_STOPPING, maybe},
		"rejected":             {proposalEnded(rejected), messages.Code_CODE_INTERNAL, no},
		"aborted":              {proposalEnded(aborted), messages.Code_CODE_INTERNAL, maybe},
		"completed, not seen":  {proposalEnded(completed), messages.Code_CODE_INTERNAL, maybe},
		"busy":                 {proposeRefused(dragonboat.ErrSystemBusy), messages.Code_CODE_OVERLOADED, no},
		"too big":              {proposeRefused(dragonboat.ErrPayloadTooBig), messages.Code_CODE_TOO_LARGE, no},
		"not ready":            {proposeRefused(dragonboat.ErrShardNotReady), messages.Code_CODE_NOT_READY, no},
		"not initialized":      {proposeRefused(dragonboat.ErrShardNotInitialized), messages.Code_CODE_NOT_READY, no},
		"closed":               {proposeRefused(dragonboat.ErrClosed), messages.Code_CODE_NODE_STOPPING, no},
		"shard closed":         {proposeRefused(dragonboat.ErrShardClosed), messages.Code_CODE_NODE_STOPPING, no},
		"shard gone":           {proposeRefused(dragonboat.ErrShardNotFound), messages.Code_CODE_NODE_STOPPING, no},
		"timeout too small":    {proposeRefused(dragonboat.ErrTimeoutTooSmall), messages.Code_CODE_INVALID_ARGUMENT, no},
		"any other refusal":    {proposeRefused(errors.New("new")), messages.Code_CODE_UNAVAILABLE, no},
		"a refusal, wrapped":   {proposeRefused(fmt.Errorf("x: %w", dragonboat.ErrSystemBusy)), messages.Code_CODE_OVERLOADED, no},
		"read dropped":         {readEnded(dropped), messages.Code_CODE_NO_LEADER, no},
		"read timeout":         {readEnded(timeout), messages.Code_CODE_TIMEOUT, no},
		"read terminated":      {readEnded(terminated), messages.Code_CODE_NODE_STOPPING, no},
		"read out of time":     {nothingWritten(errTimeout()), messages.Code_CODE_TIMEOUT, no},
		"read of a closed log": {nothingWritten(errStoppingUnknown()), messages.Code_CODE_NODE_STOPPING, no},
		"change rejected":      {changeEnded(rejected), messages.Code_CODE_INVALID_ARGUMENT, no},
		"change dropped":       {changeEnded(dropped), messages.Code_CODE_NO_LEADER, no},
		"change timeout":       {changeEnded(timeout), messages.Code_CODE_TIMEOUT, maybe},
		"snapshot that failed": {(&snapshotter{failed: true}).ended(rejected), messages.Code_CODE_UNAVAILABLE, no},
		"snapshot aborted":     {(&snapshotter{}).ended(aborted), messages.Code_CODE_UNAVAILABLE, no},
		"bytes in flight":      {errOverloaded(1), messages.Code_CODE_OVERLOADED, no},
	} {
		if messages.CodeOf(l.err) != l.code || messages.OutcomeOf(l.err) != l.outcome {
			t.Errorf("%s: got %v, want %s, %s", name, l.err, messages.CodeName(l.code), messages.OutcomeName(l.outcome))
		}
	}
	for name, err := range map[string]error{
		"read": readEnded(completed), "change": changeEnded(completed),
		"snapshot": (&snapshotter{}).ended(completed), "snapshot of nothing new": (&snapshotter{}).ended(rejected),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoggerSpeaksSlog(t *testing.T) {
	var out bytes.Buffer
	l := newPackageLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), "raft")
	l.Infof("quiet %d", 1)
	l.Warningf("loud %d", 2)
	l.SetLevel(logger.CRITICAL)
	l.Errorf("quiet %d", 3)
	func() {
		defer func() {
			if r := recover(); r != "broken 4" {
				t.Errorf("panicked with %v", r)
			}
		}()
		l.Panicf("broken %d", 4)
	}()
	got := out.String()
	if strings.Contains(got, "quiet") || !strings.Contains(got, "loud 2") || !strings.Contains(got, "broken 4") ||
		!strings.Contains(got, "package=raft") {
		t.Fatal(got)
	}
}
