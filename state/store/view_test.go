package store

import (
	"fmt"
	"sync"
	"testing"
)

// TestViewsAreReadWhileTheStoreGoesOn reads views in other goroutines while their
// store writes, compacts, sweeps and drops protection; run it with -race.
func TestViewsAreReadWhileTheStoreGoesOn(t *testing.T) {
	s := New()
	views := make(chan *View, 4)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for v := range views {
				if v.FullDigest() != v.Digest() {
					t.Errorf("revision %d: digest %x, full %x", v.Revision(), v.Digest(), v.FullDigest())
				}
				v.History("p5", v.Floor("p5", "p5\x00"), v.Revision(), false, func(Event) bool { return true })
			}
		})
	}
	for rev := uint64(1); rev <= 6_000; rev++ {
		key := fmt.Sprint(string("kp"[rev%2]), rev%101)
		f := Fields{Key: key, Mod: rev, Version: 1}
		if prev, ok := s.Get(key); ok && rev%7 == 0 {
			f.Version, f.Tombstone = 0, true
		} else if ok {
			f.Create, f.Version = prev.Create(), prev.Version()+1
		}
		s.Put(Make(f))
		if rev%50 == 0 {
			var list []Protected
			if rev%3000 > 600 {
				list = []Protected{{"p", s.Compacted()}}
				if len(s.r.protected) > 0 {
					list = s.r.protected
				}
			}
			s.Compact(max(rev, 1000)-1000, list)
			views <- s.View()
		}
		s.Sweep(2)
	}
	close(views)
	wg.Wait()
}
