package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// profile fetches profiles of nodes while a workload runs: CPU for half of the time
// from the end of the warm-up, then heap, mutex and block. It returns a function that
// waits until they are written.
func (s *Suite) profile(ctx context.Context, workload string, clients int, nodes []*Process) (wait func() error) {
	if s.Profiles == "" {
		return func() error { return nil }
	}
	var (
		group sync.WaitGroup
		once  sync.Once
		first error
	)
	for i, n := range nodes {
		group.Go(func() {
			timer := time.NewTimer(s.Warmup)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
			seconds := max(int(s.Duration.Seconds()/2), 1)
			for _, p := range []string{fmt.Sprintf("profile?seconds=%d", seconds), "heap", "mutex", "block"} {
				name, _, _ := strings.Cut(p, "?")
				file := filepath.Join(s.Profiles, fmt.Sprintf("%s-%d-node%d.%s.pprof", workload, clients, i+1, name))
				if err := fetch(ctx, "http://"+n.admin+"/debug/pprof/"+p, file); err != nil {
					once.Do(func() { first = err })
				}
			}
		})
	}
	return func() error {
		group.Wait()
		return first
	}
}

func fetch(ctx context.Context, url, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, r.Status)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, r.Body); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
