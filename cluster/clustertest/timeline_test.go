package clustertest

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var profilesDir = flag.String("laggard.profiles", "", "where TestLargeLaggard leaves profiles of the leader and of the member that catches up")

// timeline logs, each two seconds until stop, what processes used of the processors, what they
// have resident, and what the puts of a pace took meanwhile.
type timeline struct {
	done  chan struct{}
	group sync.WaitGroup
}

func startTimeline(t *testing.T, p *pace, names []string, nodes []*Node) *timeline {
	l := &timeline{done: make(chan struct{})}
	l.group.Go(func() {
		const step = 2 * time.Second
		began := time.Now()
		ticker := time.NewTicker(step)
		defer ticker.Stop()
		used := func() (all []time.Duration) {
			for _, n := range nodes {
				all = append(all, cpuTime(n.Pid()))
			}
			return append(all, cpuTime(os.Getpid()))
		}
		before := used()
		for {
			select {
			case <-ticker.C:
			case <-l.done:
				return
			}
			var b strings.Builder
			fmt.Fprintf(&b, "%5.1f s: %v;", time.Since(began).Seconds(), p.since())
			now := used()
			for i, n := range nodes {
				fmt.Fprintf(&b, " %s %3.0f %% %5d MiB;", names[i], 100*float64(now[i]-before[i])/float64(step), n.memory("VmRSS")>>20)
			}
			fmt.Fprintf(&b, " load %3.0f %%", 100*float64(now[len(nodes)]-before[len(nodes)])/float64(step))
			before = now
			t.Log(b.String())
		}
	})
	return l
}

func (l *timeline) stop() {
	close(l.done)
	l.group.Wait()
}

// fetchProfiles takes a heap and a CPU profile of a node that serves them at admin.
func fetchProfiles(t *testing.T, admin, name string, seconds int) {
	for _, x := range []struct{ kind, query string }{
		{"heap", "heap"}, {"cpu", fmt.Sprint("profile?seconds=", seconds)}, {"heap2", "heap"},
	} {
		r, err := http.Get("http://" + admin + "/debug/pprof/" + x.query)
		if err != nil {
			t.Log(err)
			return
		}
		f, err := os.Create(filepath.Join(*profilesDir, name+"."+x.kind))
		if err == nil {
			_, err = io.Copy(f, r.Body)
			_ = f.Close()
		}
		_ = r.Body.Close()
		if err != nil {
			t.Log(err)
		}
	}
}
