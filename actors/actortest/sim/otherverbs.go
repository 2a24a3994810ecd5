package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var otherVerbs = []Verb{
	{"advance", "DURATION", "lets time pass", func(w *World, a args) error {
		d, err := time.ParseDuration(a.word(0))
		if err != nil {
			return err
		}
		w.Advance(d)
		return nil
	}},
	{"steps", "COUNT", "lets so many things happen while time stands still", func(w *World, a args) error {
		n, err := strconv.Atoi(a.word(0))
		if err != nil {
			return err
		}
		for range n {
			if w.Failure() != nil || !w.Step() {
				break
			}
		}
		return nil
	}},
	{"finish", "", "mends everything, waits until all is at rest, and checks what must hold then", func(w *World, _ args) error {
		w.Finish()
		return nil
	}},
	{"expect revision", "N", "the cluster's revision", expecting(func(w *World, a args) (string, string) {
		return fmt.Sprint(w.truth.revision()), a.word(0)
	})},
	{"expect leader", "NODE|none", "who leads", expecting(func(w *World, a args) (string, string) {
		if l := w.Leader(); l != 0 {
			return endpoint(l), a.word(0)
		}
		return "none", a.word(0)
	})},
	{"expect key", "KEY VALUE|absent", "what the cluster has under a key", expecting(func(w *World, a args) (string, string) {
		if r := w.truth.at(a.word(0), w.truth.revision()); r != "" {
			return r.Value(), a.word(1)
		}
		return "absent", a.word(1)
	})},
	{"expect lease", "CLIENT NAME live|dead|gone", "a lease that was granted under a name: dead is past its deadline and not yet expired", expecting(func(w *World, a args) (string, string) {
		c := w.client(a.word(0))
		if c == nil {
			return "no client", a.word(2)
		}
		switch l := w.leases.leases[c.leases[a.word(1)]]; {
		case l == nil:
			return "gone", a.word(2)
		case w.leases.live(l):
			return "live", a.word(2)
		}
		return "dead", a.word(2)
	})},
	{"expect holder", "CLIENT NAME held|lost|none", "what the holder of a lease has been told", expecting(func(w *World, a args) (string, string) {
		if c := w.client(a.word(0)); c != nil {
			for _, h := range c.holders {
				if s := h.session(); h.name == a.word(1) && s != nil {
					if s.Lease().Err() == nil {
						return "held", a.word(2)
					}
					return "lost", a.word(2)
				}
			}
		}
		return "none", a.word(2)
	})},
	{"expect answer", "TEXT", "the answer to the last client line", expecting(func(w *World, a args) (string, string) {
		if w.last == nil {
			return "", strings.Join(a.words, " ")
		}
		return w.last.answer(), strings.TrimPrefix(strings.TrimPrefix(a.line, "expect answer"), " ")
	})},
	{"expect watch", "CLIENT NAME [LINE; LINE...]", "what a watch has delivered since the last look, and how it ended", expecting(func(w *World, a args) (string, string) {
		want := strings.Join(a.words[min(2, len(a.words)):], " ")
		if c := w.client(a.word(0)); c != nil {
			for _, x := range c.watches {
				if x.name == a.word(1) {
					got := strings.Join(x.lines, "; ")
					x.lines = nil
					return got, want
				}
			}
		}
		return "no watch", want
	})},
	{"expect members", "NODE... (NODE)...", "who takes part, as far as the leader knows; in parentheses who has no vote", expecting(func(w *World, a args) (string, string) {
		return w.members(), strings.Join(a.words, " ")
	})},
	{"expect equal", "", "the members that are up have applied the same and are in the same state", func(w *World, _ args) error {
		return w.equal()
	}},
}

func expecting(f func(*World, args) (got, want string)) func(*World, args) error {
	return func(w *World, a args) error {
		if got, want := f(w, a); got != want {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	}
}
