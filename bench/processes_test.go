package bench

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestMergeOfProcesses: quantiles come from all latencies together, not from an average
// of quantiles.
func TestMergeOfProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var parts []Measure
		for _, each := range []time.Duration{time.Millisecond, 100 * time.Millisecond} {
			m, err := Load{Clients: 1, Duration: time.Second, Histogram: true}.Run(t.Context(), "put",
				func(context.Context, int, uint64) error { time.Sleep(each); return nil })
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, m)
		}
		m, err := merge("put", 2, parts)
		if err != nil {
			t.Fatal(err)
		}
		if m.Done != 1_010 || m.Clients != 2 || m.PerSecond < 1_009 || m.PerSecond > 1_011 {
			t.Errorf("%+v", m)
		}
		if m.P50Us > 1_010 || m.P99Us > 1_010 || m.MaxUs < 99_000 {
			t.Errorf("p50 %d p99 %d max %d us", m.P50Us, m.P99Us, m.MaxUs)
		}
		if _, err := merge("put", 1, []Measure{{Histogram: []byte("no")}}); err == nil {
			t.Error("a broken histogram was merged")
		}
	})
}
