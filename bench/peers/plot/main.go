// Command plot draws what peers or `concord bench -o json` measured: for each workload
// the rate and the 99th percentile of the latency over the number of clients, a line for
// each system, as PNG files and as one HTML page that needs nothing else.
//
//	go run ./plot -o DIR FILE.json...
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// measure is what is drawn of a result.
type measure struct {
	System    string  `json:"system"`
	Workload  string  `json:"workload"`
	Clients   int     `json:"clients"`
	PerSecond float64 `json:"per_second"`
	P99Us     float64 `json:"p99_us"`
}

func main() {
	dir := flag.String("o", ".", "folder for the PNG files and index.html")
	title := flag.String("title", "Measured side by side", "heading of the page")
	flag.Parse()
	if err := run(*dir, *title, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(dir, title string, files []string) error {
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
		for _, axis := range []struct {
			name, label string
			value       func(measure) float64
		}{
			{"rate", "operations a second", func(m measure) float64 { return m.PerSecond }},
			{"p99", "99 % within, ms", func(m measure) float64 { return m.P99Us / 1000 }},
		} {
			p, err := draws(all, w, axis.label, axis.value)
			if err != nil {
				return err
			}
			if err := p.Save(14*vg.Centimeter, 9*vg.Centimeter, filepath.Join(dir, w+"-"+axis.name+".png")); err != nil {
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

// draws makes one picture: a line for each system, the median where there are several
// rounds.
func draws(all []measure, workload, label string, value func(measure) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = workload, "clients", label
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	points := map[string]map[int][]float64{}
	var systems []string
	many := map[int]bool{}
	for _, m := range all {
		if m.Workload != workload {
			continue
		}
		if points[m.System] == nil {
			points[m.System] = map[int][]float64{}
			systems = append(systems, m.System)
		}
		points[m.System][m.Clients] = append(points[m.System][m.Clients], value(m))
		many[m.Clients] = true
	}
	if len(many) > 1 {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	var lines []any
	for _, s := range systems {
		var xy plotter.XYs
		for clients, v := range points[s] {
			slices.Sort(v)
			xy = append(xy, plotter.XY{X: float64(clients), Y: v[len(v)/2]})
		}
		slices.SortFunc(xy, func(a, b plotter.XY) int { return int(a.X - b.X) })
		lines = append(lines, s, xy)
	}
	return p, plotutil.AddLinePoints(p, lines...)
}
