package consensus_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/cluster/clustertest/port"
	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// sum is a small applier: it keeps what it applied.
type sum struct {
	mu    sync.Mutex
	index uint64
	all   []string
}

func (s *sum) Apply(entries []consensus.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entries {
		if entries[i].Index <= s.index {
			panic(fmt.Sprintf("index %d after %d", entries[i].Index, s.index))
		}
		s.index = entries[i].Index
		s.all = append(s.all, string(entries[i].Payload))
		entries[i].Results = []*messages.Result{{Revision: uint64(len(s.all))}}
	}
}

func (s *sum) Freeze() consensus.Frozen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return frozenSum(s.all[:len(s.all):len(s.all)])
}

func (s *sum) Restore(index uint64, r io.Reader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index, s.all = index, nil
	var n [4]byte
	for {
		if _, err := io.ReadFull(r, n[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		b := make([]byte, binary.BigEndian.Uint32(n[:]))
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		s.all = append(s.all, string(b))
	}
}

func (s *sum) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.all...)
}

type frozenSum []string

func (f frozenSum) Save(w io.Writer, _ <-chan struct{}) error {
	for _, p := range f {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(p)))
		if _, err := w.Write(append(n[:], p...)); err != nil {
			return err
		}
	}
	return nil
}

func freeAddress(t testing.TB) string {
	t.Helper()
	a, err := port.Address()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func propose(log consensus.Log, payload string) (uint64, error) {
	type end struct {
		results []*messages.Result
		err     error
	}
	c := make(chan end, 1)
	log.Propose([]byte(payload), 5*time.Second, func(results []*messages.Result, err error) { c <- end{results, err} })
	e := <-c
	if e.err != nil {
		return 0, e.err
	}
	return e.results[0].Revision, nil
}

func TestOneReplicaAppliesSavesAndRestarts(t *testing.T) {
	cfg := consensus.DragonboatConfig{Dir: t.TempDir(), ReplicaID: 1, RaftAddress: freeAddress(t), SnapshotKeepEntries: 1}
	for boot := range 3 {
		s := &sum{}
		log, err := consensus.OpenDragonboat(cfg, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := log.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		if got := len(s.list()); got != boot*10 {
			t.Fatalf("boot %d starts with %d entries, want %d", boot, got, boot*10)
		}
		for i := range 10 {
			n, err := propose(log, fmt.Sprint(boot, i))
			if err != nil || n != uint64(boot*10+i+1) {
				t.Fatalf("boot %d entry %d: %d, %v", boot, i, n, err)
			}
		}
		if boot == 1 {
			if err := log.RequestSnapshot(5 * time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
