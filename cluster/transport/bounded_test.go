package transport

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestBounded: one connection more than there may be is closed at once; where one has ended
// there is room for another.
func TestBounded(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Bounded(raw, 2)
	accepted := make(chan net.Conn, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", raw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first := await(t, accepted, "the first")
	dial()
	second := await(t, accepted, "the second")
	third := dial()
	third.SetReadDeadline(time.Now().Add(waitMax))
	if _, err := third.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("one too many: %v, want it closed", err)
	}
	first.Close()
	first.Close() // counts once
	dial()
	fourth := await(t, accepted, "one after another has ended")
	fifth := dial()
	fifth.SetReadDeadline(time.Now().Add(waitMax))
	if _, err := fifth.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("one too many again: %v, want it closed", err)
	}
	second.Close()
	fourth.Close()
	l.Close()
	<-done
}
