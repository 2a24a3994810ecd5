package sim

import (
	"testing/synctest"
	"time"
)

// Settle lets everything happen that can without time.
func (w *World) Settle() {
	const most = 1_000_000
	for range most {
		if !w.Step() {
			return
		}
	}
	w.failf("rest", "the world does not settle")
}

// Advance moves time by d, tick by tick. Unless the world is calm, some of what could
// happen at a tick is left for later ones.
func (w *World) Advance(d time.Duration) {
	for end := w.now + d; w.now < end && w.Failure() == nil; {
		if w.opts.Calm || w.rng.IntN(4) > 0 {
			w.Settle()
		} else {
			for range w.rng.IntN(40) {
				if !w.Step() {
					break
				}
			}
		}
		w.tick(min(w.opts.Tick, end-w.now))
	}
	if w.opts.Calm {
		w.Settle()
	}
}

// tick lets time pass, and nothing else.
func (w *World) tick(d time.Duration) {
	w.now += d
	w.shared.Store(int64(w.now))
	time.Sleep(d) // the bubble's time goes along
	synctest.Wait()
	if !w.logDead {
		w.log.Tick()
	}
	if w.woke {
		w.woke = false
		synctest.Wait()
	}
	w.logIdle = false
	w.trace("time %v", w.now)
	w.collectResults()
	w.recipes.check()
}
