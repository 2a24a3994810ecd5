package node

import "testing"

// TestLongestApply: the longest stays, the recent one is forgotten after a minute or two.
func TestLongestApply(t *testing.T) {
	var a applyTimes
	took := func(at, ms int64) {
		a.begin(at)
		if got := a.end(at + ms); got != ms {
			t.Fatalf("%d ms, it took %d", got, ms)
		}
	}
	look := func(at, longest, recent int64) {
		t.Helper()
		if a.longest.Load() != longest || a.recently(at) != recent {
			t.Errorf("at %d: longest %d, recently %d; want %d and %d", at, a.longest.Load(), a.recently(at), longest, recent)
		}
	}
	look(1_000, 0, 0)
	took(10_000, 7)
	took(20_000, 3)
	look(30_000, 7, 7)
	look(70_000, 7, 7)
	took(70_000, 2)
	look(71_000, 7, 7)
	look(130_000, 7, 2)
	look(180_000, 7, 0)
	took(300_000, 9)
	look(301_000, 9, 9)
	a.begin(302_000)
	if a.end(301_000) != 0 {
		t.Error("a batch that took less than nothing")
	}
}
