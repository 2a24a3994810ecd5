package bench

import (
	"strings"
	"testing"
)

func reportOf(workload string, rates ...float64) *Report {
	r := NewReport("v", "")
	for i, rate := range rates {
		r.Add(Measure{Workload: workload, Clients: 4, PerSecond: rate, P99Us: int64(1_000 * (i + 1)), Detail: map[string]float64{"own": rate}})
	}
	return r
}

// TestMedians: the run with the median rate stands for all, whole, and says how far
// they spread.
func TestMedians(t *testing.T) {
	r := reportOf("put", 30, 10, 20)
	r.Add(Measure{Workload: "get", Clients: 4, PerSecond: 7})
	r.Medians()
	if len(r.Measures) != 2 || r.Measures[1].Workload != "get" || r.Measures[1].Detail != nil {
		t.Fatalf("%+v", r.Measures)
	}
	m := r.Measures[0]
	if m.PerSecond != 20 || m.P99Us != 3_000 || m.Detail["least op/s"] != 10 || m.Detail["most op/s"] != 30 || m.Detail["runs"] != 3 || m.Detail["own"] != 20 {
		t.Errorf("%+v", m)
	}
}

func TestCompare(t *testing.T) {
	var b strings.Builder
	if err := Compare(&b, reportOf("put", 100, 100, 90), reportOf("put", 150, 140, 160)); err != nil {
		t.Fatal(err)
	}
	if want := "| put | 4 | 100 | 150 | 1.50 |"; !strings.Contains(b.String(), want) {
		t.Errorf("%s\nhas no %s", b.String(), want)
	}
}
