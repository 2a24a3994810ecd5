package peers

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRefusalsAreSaidOnce: a node that is refused again and again is one line in the log,
// and one each minute with how often it was; another reason is another line.
func TestRefusalsAreSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := slog.New(slog.NewTextHandler(&out, nil))
		var r refusals
		before := refusedNodes.Load()
		for range 400 {
			r.add(l, 2, errors.New("a twin"))
			time.Sleep(300 * time.Millisecond) // of the bubble's clock: two minutes
		}
		r.add(l, 2, errors.New("another cluster"))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 || !strings.Contains(lines[1], "times=200") || !strings.Contains(lines[2], "another cluster") {
			t.Errorf("it said:\n%s", out.String())
		}
		if n := refusedNodes.Load() - before; n != 401 {
			t.Errorf("%d are counted", n)
		}
		for i := range 3 * refusalsMax {
			r.add(l, uint64(i), errors.New("many"))
		}
		if len(r.said) > refusalsMax {
			t.Errorf("%d are remembered", len(r.said))
		}
	})
}
