package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestClosedLoop runs in virtual time: 4 clients with operations of 10 ms for one
// second make 400 operations, all of 10 ms.
func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := Load{Clients: 4, Warmup: 100 * time.Millisecond, Duration: time.Second}.Run(t.Context(), "sleep",
			func(context.Context, int, uint64) error { time.Sleep(10 * time.Millisecond); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if m.Done != 400 || m.Failed != 0 {
			t.Errorf("%d done, %d failed", m.Done, m.Failed)
		}
		if m.P50Us < 9_990 || m.MaxUs > 10_020 {
			t.Errorf("p50 %d us, max %d us", m.P50Us, m.MaxUs)
		}
	})
}

// TestOpenLoopCountsFromTheIntendedTime: one stall of 500 ms shows in the
// operations that were due during it, not in one operation only.
func TestOpenLoopCountsFromTheIntendedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := Load{Clients: 1, Duration: time.Second, Rate: 100}.Run(t.Context(), "stall",
			func(_ context.Context, _ int, n uint64) error {
				if n == 20 {
					time.Sleep(500 * time.Millisecond)
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if m.Done != 100 {
			t.Errorf("%d done", m.Done)
		}
		// Half of the operations waited for the stall, the last of them hardly.
		if m.P90Us < 390_000 || m.P50Us > 20_000 {
			t.Errorf("p50 %d us, p90 %d us", m.P50Us, m.P90Us)
		}
	})
}

func TestErrorsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := Load{Clients: 1, Duration: 100 * time.Millisecond}.Run(t.Context(), "fail",
			func(context.Context, int, uint64) error { time.Sleep(10 * time.Millisecond); return errors.New("no") })
		if err != nil {
			t.Fatal(err)
		}
		if m.Failed != 10 || m.Done != 0 || m.FirstError != "no" {
			t.Errorf("%+v", m)
		}
	})
}

func TestBadLoad(t *testing.T) {
	for field, l := range map[string]Load{
		"clients":  {Duration: time.Second},
		"duration": {Clients: 1},
		"warmup":   {Clients: 1, Duration: time.Second, Warmup: -1},
		"rate":     {Clients: 1, Duration: time.Second, Rate: -1},
	} {
		if _, err := l.Run(t.Context(), "", nil); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestMarkdownRatio(t *testing.T) {
	r := NewReport("v", "note")
	r.Add(Measure{Workload: "raw", Clients: 4, PerSecond: 20_000})
	r.Add(Measure{Workload: "put", Clients: 4, PerSecond: 5_000})
	var b bytes.Buffer
	if err := r.Markdown(&b, map[string]string{"put": "raw"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "| 0.25 of raw |") {
		t.Error(b.String())
	}
}
