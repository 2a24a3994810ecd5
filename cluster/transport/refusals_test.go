package transport

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestRefusals: one word for each stranger and reason, however often; after a while how
// often it was; and what is remembered is bounded.
func TestRefusals(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	now := time.Unix(1, 0)
	r := &Refusals{now: func() time.Time { return now }}
	lines := func() int {
		defer out.Reset()
		return strings.Count(out.String(), "\n")
	}
	for range 1_000 {
		r.Add(log, "10.0.0.1", "a")
		r.Add(log, "10.0.0.1", "b")
		r.Add(log, "10.0.0.2", "a")
	}
	if n := lines(); n != 3 {
		t.Fatalf("%d words about three refusals", n)
	}
	now = now.Add(refusalsEvery)
	r.Add(log, "10.0.0.1", "a")
	if text := out.String(); !strings.Contains(text, "times=1000") || !strings.Contains(text, "client=10.0.0.1") {
		t.Fatalf("after a minute: %s", text)
	}
	lines()
	for i := range 3 * refusalsMax {
		r.Add(log, fmt.Sprint(i), "a")
	}
	if len(r.said) > refusalsMax {
		t.Fatalf("%d are remembered", len(r.said))
	}
}
