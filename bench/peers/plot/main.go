// Command plot draws what peers or `concord bench -o json` measured: for each workload
// the rate, the 99th percentile of the latency and, where it was measured, the memory of
// the largest member, over the number of clients or another axis, a line for each system
// or number of nodes, as PNG files and as one HTML page that needs nothing else.
//
//	go run ./plot -o DIR FILE.json...
//	go run ./plot -x keys -by nodes -o DIR FILE.json...
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// measure is what is drawn of a result.
type measure struct {
	System     string  `json:"system"`
	Workload   string  `json:"workload"`
	Clients    int     `json:"clients"`
	Nodes      int     `json:"nodes"`
	Keys       int     `json:"keys"`
	ValueBytes int     `json:"value_bytes"`
	PerSecond  float64 `json:"per_second"`
	P99Us      float64 `json:"p99_us"`
	RSSBytes   float64 `json:"node_rss_bytes"`
}

// axis is what goes to the right.
type axis struct {
	label string
	of    func(measure) int
}

var axes = map[string]axis{
	"clients":     {"clients", func(m measure) int { return m.Clients }},
	"watchers":    {"watchers", func(m measure) int { return m.Clients }},
	"leases":      {"leases", func(m measure) int { return m.Clients }},
	"nodes":       {"nodes", func(m measure) int { return m.Nodes }},
	"keys":        {"keys", func(m measure) int { return m.Keys }},
	"value-bytes": {"bytes of a value", func(m measure) int { return m.ValueBytes }},
}

// lines are what a picture has a line for each of.
var lines = map[string]func(measure) string{
	"system":  func(m measure) string { return m.System },
	"nodes":   func(m measure) string { return fmt.Sprintf("%d nodes", m.Nodes) },
	"clients": func(m measure) string { return fmt.Sprintf("%d clients", m.Clients) },
}

func main() {
	dir := flag.String("o", ".", "folder for the PNG files and index.html")
	title := flag.String("title", "Measured side by side", "heading of the page")
	x := flag.String("x", "clients", strings.Join(slices.Sorted(maps.Keys(axes)), ", "))
	by := flag.String("by", "system", strings.Join(slices.Sorted(maps.Keys(lines)), ", "))
	flag.Parse()
	if err := run(*dir, *title, *x, *by, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(dir, title, x, by string, files []string) error {
	right, ok := axes[x]
	if !ok {
		return fmt.Errorf("x: %q is none of the axes", x)
	}
	line, ok := lines[by]
	if !ok {
		return fmt.Errorf("by: %q is none of the lines", by)
	}
	var all []measure
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		read, err := decode(text)
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		all = append(all, read...)
	}
	if len(all) == 0 {
		return fmt.Errorf("nothing to draw")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	page := bytes.NewBufferString("<!doctype html><meta charset=utf-8><title>" + html.EscapeString(title) + "</title><h1>" + html.EscapeString(title) + "</h1>\n")
	var workloads []string
	for _, m := range all {
		if !slices.Contains(workloads, m.Workload) {
			workloads = append(workloads, m.Workload)
		}
	}
	for _, w := range workloads {
		fmt.Fprintf(page, "<h2>%s</h2>\n", html.EscapeString(w))
		of := slices.DeleteFunc(slices.Clone(all), func(m measure) bool { return m.Workload != w })
		for _, up := range []struct {
			name, label string
			value       func(measure) float64
		}{
			{"rate", "operations a second", func(m measure) float64 { return m.PerSecond }},
			{"p99", "99 % within, ms", func(m measure) float64 { return m.P99Us / 1000 }},
			{"memory", "memory of the largest member, MiB", func(m measure) float64 { return m.RSSBytes / (1 << 20) }},
		} {
			if !slices.ContainsFunc(of, func(m measure) bool { return up.value(m) > 0 }) {
				continue
			}
			p, err := draws(of, w, right, line, up.label, up.value)
			if err != nil {
				return err
			}
			if err := p.Save(14*vg.Centimeter, 9*vg.Centimeter, filepath.Join(dir, w+"-"+up.name+".png")); err != nil {
				return err
			}
			c := vgsvg.New(14*vg.Centimeter, 9*vg.Centimeter)
			p.Draw(draw.New(c))
			var svg bytes.Buffer
			if _, err := c.WriteTo(&svg); err != nil {
				return err
			}
			// Inside a page an SVG has no declaration of its own.
			_, body, _ := bytes.Cut(svg.Bytes(), []byte("<svg"))
			page.WriteString("<svg")
			page.Write(body)
		}
	}
	return os.WriteFile(filepath.Join(dir, "index.html"), page.Bytes(), 0o644)
}

// decode reads a list of results, or a report with measures in it.
func decode(text []byte) (list []measure, err error) {
	if err = json.Unmarshal(text, &list); err == nil {
		return list, nil
	}
	var report struct {
		Measures []measure `json:"measures"`
	}
	err = json.Unmarshal(text, &report)
	for i := range report.Measures {
		if report.Measures[i].System == "" {
			report.Measures[i].System = "concord"
		}
	}
	return report.Measures, err
}

// draws makes one picture: a line for each system or number, the median where there are
// several rounds.
func draws(of []measure, title string, right axis, line func(measure) string, label string, value func(measure) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, right.label, label
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	points := map[string]map[int][]float64{}
	var names []string
	least, most, top := of[0], of[0], 0.0
	for _, m := range of {
		top = max(top, value(m))
		name, x := line(m), right.of(m)
		if points[name] == nil {
			points[name] = map[int][]float64{}
			names = append(names, name)
		}
		points[name][x] = append(points[name][x], value(m))
		if x < right.of(least) {
			least = m
		}
		if x > right.of(most) {
			most = m
		}
	}
	if right.of(least) > 0 && right.of(most) > 10*right.of(least) {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	var drawn []any
	for _, name := range names {
		var xy plotter.XYs
		for x, v := range points[name] {
			slices.Sort(v)
			xy = append(xy, plotter.XY{X: float64(x), Y: v[len(v)/2]})
		}
		slices.SortFunc(xy, func(a, b plotter.XY) int { return int(a.X - b.X) })
		drawn = append(drawn, name, xy)
	}
	err := plotutil.AddLinePoints(p, drawn...)
	p.Y.Min, p.Y.Max = 0, top*(1+0.08*float64(1+len(names))) // room for the legend
	return p, err
}
