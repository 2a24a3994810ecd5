package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
)

// Rounds runs each suite in turn, rounds times, and returns a report for each. What
// drifts on a shared machine drifts for all of them.
func Rounds(ctx context.Context, rounds int, version string, suites ...*Suite) ([]*Report, error) {
	reports := make([]*Report, len(suites))
	for i := range reports {
		reports[i] = NewReport(version, "")
	}
	for range max(rounds, 1) {
		for i, s := range suites {
			if err := s.Run(ctx, reports[i]); err != nil {
				return reports, err
			}
		}
	}
	return reports, nil
}

// Medians puts the measures of one workload and number of clients together: each is the
// one with the median rate, and its Detail says how many runs there were and how far
// they spread.
func (r *Report) Medians() {
	type point struct {
		workload string
		clients  int
	}
	var order []point
	runs := map[point][]Measure{}
	for _, m := range r.Measures {
		p := point{m.Workload, m.Clients}
		if runs[p] == nil {
			order = append(order, p)
		}
		runs[p] = append(runs[p], m)
	}
	r.Measures = r.Measures[:0]
	for _, p := range order {
		all := runs[p]
		slices.SortStableFunc(all, func(a, b Measure) int { return cmp.Compare(a.PerSecond, b.PerSecond) })
		m := all[len(all)/2]
		if len(all) > 1 {
			detail := map[string]float64{"runs": float64(len(all)), "least op/s": all[0].PerSecond, "most op/s": all[len(all)-1].PerSecond}
			for name, v := range m.Detail {
				detail[name] = v
			}
			m.Detail = detail
		}
		r.Measures = append(r.Measures, m)
	}
}

// Compare writes the medians of two reports of one call of Rounds side by side, and the
// ratio of the second to the first.
func Compare(w io.Writer, base, now *Report) error {
	base.Medians()
	now.Medians()
	_, err := io.WriteString(w, "| workload | clients | base op/s | now op/s | now/base | base p99 ms | now p99 ms | now/base |\n|---|---|---|---|---|---|---|---|\n")
	for _, b := range base.Measures {
		for _, n := range now.Measures {
			if err == nil && n.Workload == b.Workload && n.Clients == b.Clients {
				_, err = fmt.Fprintf(w, "| %s | %d | %s | %s | %.2f | %s | %s | %.2f |\n", b.Workload, b.Clients, thousands(b.PerSecond), thousands(n.PerSecond),
					n.PerSecond/b.PerSecond, ms(b.P99Us), ms(n.P99Us), float64(n.P99Us)/float64(max(b.P99Us, 1)))
			}
		}
	}
	return err
}
