package watchcheck

import (
	"errors"
	"strings"
	"testing"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func put(r uint64, op uint32, kv string) *messages.Event {
	k, v, is := strings.Cut(kv, "=")
	e := &messages.Event{Type: messages.EventType_EVENT_TYPE_PUT, Revision: r, OpIndex: op, Record: &messages.Record{Key: []byte(k), Value: []byte(v)}}
	if !is {
		e.Type = messages.EventType_EVENT_TYPE_DELETE
	}
	return e
}

func batch(to uint64, events ...*messages.Event) client.WatchBatch {
	return client.WatchBatch{Events: events, To: client.AfterRevision(to), Last: true}
}

func part(b client.WatchBatch) client.WatchBatch { b.Last = false; return b }

// Each way to break a promise is found, under its name; a good watch passes.
func TestPlantedViolations(t *testing.T) {
	good := []client.WatchBatch{
		batch(1, put(1, 0, "a=1")), batch(3, put(3, 0, "a"), put(3, 1, "b=3")), batch(5),
	}
	for name, c := range map[string]struct {
		batches []client.WatchBatch
		want    Promise
	}{
		"good":                   {good, ""},
		"good, in parts":         {[]client.WatchBatch{good[0], part(batch(3, put(3, 0, "a"))), batch(3, put(3, 1, "b=3")), batch(5)}, ""},
		"twice":                  {append(good[:1:1], good[0]), Unique},
		"an event twice":         {[]client.WatchBatch{good[0], batch(3, put(3, 0, "a"), put(3, 0, "a"))}, Unique},
		"operations swapped":     {[]client.WatchBatch{good[0], batch(3, put(3, 1, "b=3"), put(3, 0, "a"))}, Ordered},
		"a revision is missing":  {[]client.WatchBatch{good[0], good[2]}, GapFree},
		"the first is missing":   {good[1:], GapFree},
		"half a revision":        {[]client.WatchBatch{good[0], batch(3, put(3, 0, "a")), batch(5)}, Atomic},
		"two revisions at once":  {[]client.WatchBatch{batch(3, put(1, 0, "a=1"), put(3, 0, "a"))}, Atomic},
		"another value":          {[]client.WatchBatch{batch(1, put(1, 0, "a=2")), good[1], good[2]}, True},
		"a put for a delete":     {[]client.WatchBatch{good[0], batch(3, put(3, 0, "a="), put(3, 1, "b=3")), good[2]}, True},
		"progress goes back":     {append(good[:3:3], batch(2)), Honest},
		"progress runs ahead":    {[]client.WatchBatch{good[0], batch(5)}, GapFree},
		"another key":            {[]client.WatchBatch{batch(1, put(1, 0, "x=1"))}, Filtered},
		"it stops early":         {good[:2], Complete},
		"position before events": {[]client.WatchBatch{batch(0, put(1, 0, "a=1"))}, Honest},
	} {
		truth := NewTruth()
		for r, changes := range map[uint64][]Change{
			1: {{Key: "a", Value: "1"}}, 2: {{Key: "x", Value: "2"}}, 3: {{Key: "a", Deleted: true}, {Key: "b", Value: "3"}, {Key: "x"}}, 4: {{Key: "x"}}, 5: {{Key: "x"}},
		} {
			if err := truth.Wrote(r, changes...); err != nil {
				t.Fatal(err)
			}
		}
		check := New(name, truth, 1, Options{Selects: func(k string) bool { return k != "x" }})
		var err error
		for _, b := range c.batches {
			if err = check.Batch(b); err != nil {
				break
			}
		}
		if err == nil {
			err = check.Verify(5)
		}
		var v *Violation
		switch errors.As(err, &v); {
		case c.want == "" && err != nil, c.want != "" && (v == nil || v.Promise != c.want):
			t.Errorf("%s: found %v, want %q", name, err, c.want)
		}
	}
}

func TestEnds(t *testing.T) {
	c := New("w", NewTruth(), 5, Options{})
	if c.Ended(messages.NewError(messages.Code_CODE_COMPACTED, ""), 4) == nil {
		t.Error("compacted for nothing")
	}
	if err := c.Ended(messages.NewError(messages.Code_CODE_COMPACTED, ""), 5); err != nil {
		t.Error(err)
	}
	if c.Ended(nil, 0) == nil {
		t.Error("an end without a reason")
	}
	if err := NewTruth().Wrote(1); err != nil {
		t.Error(err)
	}
}
