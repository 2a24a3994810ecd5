package actortest

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/concord-kv/concord/actors/actortest/sim"
)

// TestScripts runs the scripts of testdata: field reports, retold. Each runs in a calm
// world; its answers are below the line. The verbs: see TestHelp, or sim.Verbs.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "help" {
				return sim.Help()
			}
			opts := sim.Options{Seed: 1, Calm: true, Tick: 50 * time.Millisecond}
			for _, a := range d.CmdArgs {
				switch a.Key {
				case "nodes":
					a.Scan(t, 0, &opts.Nodes)
				case "seed":
					a.Scan(t, 0, &opts.Seed)
				default:
					d.Fatalf(t, "no option %s", a.Key)
				}
			}
			r := sim.Run(t, opts, strings.Split(d.Input, "\n"))
			if r.Failure != nil {
				r.Transcript = append(r.Transcript, r.Failure.Error())
			}
			return strings.Join(append(r.Transcript, ""), "\n")
		})
	})
}
