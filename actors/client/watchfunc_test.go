package client

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/concord-kv/concord/messages"
)

// TestWatchFuncSurvives: subscriptions go over cut connections without a gap and without a
// repeat, beside a watch with Next and calls while a function runs.
func TestWatchFuncSurvives(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		n1 := net["n1"]
		net["n2"] = newFakeNode(n1.cluster)
		c := newTestClient(t, net, nil)
		defer c.Close()
		const subscriptions = 20
		type told struct {
			who      int
			revision uint64
			err      error
		}
		ch := make(chan told, 10_000)
		var subs []*Subscription
		for i := range subscriptions {
			s, err := c.WatchFunc(context.Background(), PrefixSelector(""), WatchOptions{}, func(b WatchBatch, err error) {
				if err != nil {
					ch <- told{i, 0, err}
					return
				}
				for _, e := range b.Events {
					ch <- told{i, e.Revision, nil}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if s.Start().FromRevision != 101 {
				t.Fatalf("starts at %d", s.Start().FromRevision)
			}
			subs = append(subs, s)
		}
		w, err := c.Watch(context.Background(), PrefixSelector(""), WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		writer := newTestClient(t, net, nil)
		defer writer.Close()
		next := [subscriptions]uint64{}
		for i := range next {
			next[i] = 101
		}
		const events = 30
		for i := range uint64(events) {
			if i%5 == 0 {
				n1.cut()
				net["n2"].cut()
			}
			if _, err := writer.Put(context.Background(), fmt.Sprint(i), nil, PutOptions{}); err != nil {
				t.Fatal(err)
			}
			if b, err := w.Next(context.Background()); err != nil || b.Events[0].Revision != 101+i {
				t.Fatalf("%v, %v", b.Events, err)
			}
		}
		for range events * subscriptions {
			m := <-ch
			if m.err != nil || m.revision != next[m.who] {
				t.Fatalf("subscription %d was told of %d, want %d: %v", m.who, m.revision, next[m.who], m.err)
			}
			next[m.who]++
		}
		for _, s := range subs[1:] {
			s.Close()
			s.Close()
			if m := <-ch; messages.CodeOf(m.err) != messages.Code_CODE_CANCELLED {
				t.Fatalf("told %+v at the end", m)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if m := <-ch; m.who != 0 || messages.CodeOf(m.err) != messages.Code_CODE_CANCELLED {
			t.Fatalf("told %+v when the client closed", m)
		}
		if len(ch) > 0 {
			t.Fatalf("told %+v after the end", <-ch)
		}
		if _, err := c.WatchFunc(context.Background(), PrefixSelector(""), WatchOptions{}, func(WatchBatch, error) {
			t.Error("a subscription that did not begin was told something")
		}); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
			t.Fatal(err)
		}
	})
}

// TestWatchFuncHoldsUpNobodyElse: while a function does not return, watches with Next and
// calls of the client go on; closing in the function, and the end of the context, end it.
func TestWatchFuncHoldsUpNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		inside, leave := make(chan struct{}), make(chan struct{})
		var s *Subscription
		closed := make(chan error, 1)
		s, err := c.WatchFunc(context.Background(), PrefixSelector(""), WatchOptions{}, func(_ WatchBatch, err error) {
			if err != nil {
				closed <- err
				return
			}
			close(inside)
			<-leave
			s.Close()
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		over := make(chan error, 1)
		if _, err := c.WatchFunc(ctx, PrefixSelector("none/"), WatchOptions{}, func(_ WatchBatch, err error) {
			if err != nil {
				over <- err
			}
		}); err != nil {
			t.Fatal(err)
		}
		w, err := c.Watch(context.Background(), PrefixSelector(""), WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for i := range uint64(3) {
			if _, err := c.Put(context.Background(), "k", nil, PutOptions{}); err != nil {
				t.Fatal(err)
			}
			if b, err := w.Next(context.Background()); err != nil || b.Events[0].Revision != 101+i {
				t.Fatalf("%v, %v", b.Events, err)
			}
		}
		<-inside
		cancel()
		synctest.Wait()
		if len(over)+len(closed) > 0 {
			t.Fatal("a function was called while another ran")
		}
		close(leave)
		for _, end := range []chan error{closed, over} {
			select {
			case err := <-end:
				if messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
					t.Fatal(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the end was not told")
			}
		}
	})
}

// TestNextWithTheWatchsContext: a Next that waits with the context that bounds the watch
// returns when that is over, and batches that came before are returned first.
func TestNextWithTheWatchsContext(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		c := newTestClient(t, net, nil)
		defer c.Close()
		ctx, cancel := context.WithCancel(context.Background())
		w, err := c.Watch(ctx, PrefixSelector(""), WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		type answer struct {
			b   WatchBatch
			err error
		}
		answers := make(chan answer, 1)
		next := func() {
			b, err := w.Next(ctx)
			answers <- answer{b, err}
		}
		go next()
		synctest.Wait()
		if _, err := c.Put(context.Background(), "k", nil, PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if a := <-answers; a.err != nil || a.b.Events[0].Revision != 101 {
			t.Fatalf("%v, %v", a.b.Events, a.err)
		}
		go next()
		synctest.Wait()
		cancel()
		if a := <-answers; messages.CodeOf(a.err) != messages.Code_CODE_CANCELLED {
			t.Fatal(a.err)
		}
		if _, err := w.Next(ctx); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
			t.Fatal(err)
		}

		ctx, cancel = context.WithCancel(context.Background())
		defer cancel()
		if w, err = c.Watch(ctx, PrefixSelector(""), WatchOptions{From: 101}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // of the bubble: the batch comes
		cancel()
		synctest.Wait()
		if b, err := w.Next(ctx); err != nil || b.Events[0].Revision != 101 {
			t.Fatalf("%v, %v", b.Events, err)
		}
		if _, err := w.Next(ctx); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
			t.Fatal(err)
		}
	})
}
