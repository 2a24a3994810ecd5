package memlog_test

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/consensus/memlog"
	"github.com/concord-kv/concord/messages"
)

func TestSingle(t *testing.T) {
	j := &journal{t: t, name: "single", trace: io.Discard}
	s := memlog.NewSingle(j, j)
	var answers sync.WaitGroup
	for i := range 100 {
		answers.Add(2)
		p := []byte(fmt.Sprint("s", i))
		s.Propose(p, time.Second, func(results []*messages.Result, err error) {
			if err != nil || results[0].Revision != uint64(i+1) {
				t.Errorf("entry %d: %v, %v", i, results, err)
			}
			answers.Done()
		})
		clear(p)
		s.ReadIndex(time.Second, func(err error) { // after the entry before it
			if n := len(j.all); err != nil || n <= i {
				t.Errorf("barrier %d: %v with %d entries", i, err, n)
			}
			answers.Done()
		})
	}
	answers.Wait()
	if st := s.Status(); st.AppliedIndex != j.index || st.LeaderID != 1 || !st.Ready {
		t.Fatalf("%+v", st)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	end := make(chan error, 2)
	s.Propose(nil, time.Second, func(_ []*messages.Result, err error) { end <- err })
	s.ReadIndex(time.Second, func(err error) { end <- err })
	for range 2 {
		if err := <-end; messages.CodeOf(err) != messages.Code_CODE_NODE_STOPPING {
			t.Fatal(err)
		}
	}
	if j.all[0] != "s0" {
		t.Fatalf("the first entry is %q: the log kept the proposer's bytes", j.all[0])
	}
}
