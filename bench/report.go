package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Report collects what one run measured. Measures of one run may be compared with
// each other; measures of two runs may not.
type Report struct {
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Cores    int       `json:"cores"`
	Go       string    `json:"go"`
	Note     string    `json:"note,omitempty"`
	Measures []Measure `json:"measures"`
}

// NewReport returns an empty report about this machine.
func NewReport(version, note string) *Report {
	return &Report{Version: version, Started: time.Now().UTC(), Cores: runtime.NumCPU(), Go: runtime.Version(), Note: note}
}

// Add appends a measure.
func (r *Report) Add(m Measure) { r.Measures = append(r.Measures, m) }

// JSON writes the report as one indented object.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Markdown writes the report as a table. A workload whose baseline, the measure
// called "raw "+workload or baseline[workload], has the same number of clients gets
// a ratio.
func (r *Report) Markdown(w io.Writer, baseline map[string]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores, %s. %s\n\n", r.Version, r.Cores, r.Go, r.Note)
	b.WriteString("| workload | clients | op/s | p50 ms | p99 ms | p99.9 ms | max ms | failed | node CPU us/op | node RSS MiB | ratio |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, m := range r.Measures {
		ratio := ""
		if base := baseline[m.Workload]; base != "" {
			for _, o := range r.Measures {
				if o.Workload == base && o.Clients == m.Clients && o.PerSecond > 0 {
					ratio = fmt.Sprintf("%.2f of %s", m.PerSecond/o.PerSecond, base)
				}
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %d | %s | %s | %s |\n", m.Workload, m.Clients, thousands(m.PerSecond),
			ms(m.P50Us), ms(m.P99Us), ms(m.P999Us), ms(m.MaxUs), m.Failed, unlessZero("%.1f", m.NodeCPUUs), unlessZero("%.0f", float64(m.NodeRSSBytes)/(1<<20)), ratio)
	}
	for _, m := range r.Measures {
		if len(m.Detail) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s, %d:", m.Workload, m.Clients)
		for _, name := range slices.Sorted(maps.Keys(m.Detail)) {
			fmt.Fprintf(&b, " %s %.4g;", name, m.Detail[name])
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func ms(us int64) string { return fmt.Sprintf("%.2f", float64(us)/1000) }

func thousands(perSecond float64) string {
	if perSecond >= 10_000 {
		return fmt.Sprintf("%.1fk", perSecond/1000)
	}
	return fmt.Sprintf("%.0f", perSecond)
}

func unlessZero(format string, v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}
