package transport

import (
	"fmt"
	"testing"
	"time"
)

// TestPaceOfHosts: a host gets its burst, then its rate; one that comes later does not
// stand behind it; and where all together are too fast they take turns.
func TestPaceOfHosts(t *testing.T) {
	now := time.Unix(0, 0)
	p := newPacer(ServerOptions{ConnectsMax: 20, ConnectsPerHostMax: 10}, now)
	offer := func(host string, n int) (served int) {
		for range n {
			if p.offer(&conn{host: host}, now) {
				served++
			}
		}
		return served
	}
	if n := offer("loud", 500); n != 10*paceSeconds {
		t.Fatalf("%d at once, want %d", n, 10*paceSeconds)
	}
	if n := offer("calm", 1); n != 1 {
		t.Fatal("one that comes later waits for the loud one")
	}
	for i := range 10 {
		now = now.Add(time.Second)
		if n := len(p.next(now)); n != 10 {
			t.Fatalf("second %d: %d of the loud one's, want 10", i, n)
		}
	}
	for i := range 5 { // together they use up what the node takes
		offer(fmt.Sprint("host", i), 500)
	}
	now = now.Add(time.Second)
	turns := map[string]int{}
	for _, c := range p.next(now) {
		turns[c.host]++
	}
	for host, n := range turns {
		if n < 3 || n > 4 {
			t.Errorf("%s had %d turns of 20 that six share", host, n)
		}
	}
	if len(turns) != 6 {
		t.Errorf("%d hosts had turns", len(turns))
	}
}

// TestPaceForgets: hosts that are idle are not remembered for ever, and connections that
// have ended meanwhile take nobody's turn.
func TestPaceForgets(t *testing.T) {
	now := time.Unix(0, 0)
	p := newPacer(ServerOptions{ConnectsMax: 1_000_000, ConnectsPerHostMax: 1}, now)
	for i := range 10 * hostsMax {
		p.offer(&conn{host: fmt.Sprint(i)}, now)
		now = now.Add(100 * time.Millisecond)
	}
	if len(p.hosts) > 2*hostsMax {
		t.Errorf("%d hosts are remembered", len(p.hosts))
	}
	for range 20 {
		c := &conn{host: "gone"}
		p.offer(c, now)
		c.closed.Store(true)
	}
	open := &conn{host: "gone"}
	p.offer(open, now)
	if due := p.next(now.Add(time.Second)); len(due) != 1 || due[0] != open {
		t.Errorf("%d have their turn, want the one that is open", len(due))
	}
}
