package client

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// Numbers of ServerMessage.watch_batch and WatchBatch.events.
const (
	messageBatch protowire.Number = 3
	batchEvents  protowire.Number = 2
)

// TestB120UnknownKindIsNeverAPut: a kind of event that a newer node made ends the watch
// with an error that says so, and is never read as a put; fields that are new change
// nothing.
func TestB120UnknownKindIsNeverAPut(t *testing.T) {
	decoded := func(kind messages.EventType, revision uint64) *messages.Event {
		e, err := proto.Marshal(&messages.Event{Revision: revision, Type: kind, Record: &messages.Record{Key: []byte("k"), Value: []byte("v")}})
		if err != nil {
			t.Fatal(err)
		}
		e = protowire.AppendBytes(protowire.AppendTag(e, 999, protowire.BytesType), []byte("of a newer version"))
		var batch, message []byte
		batch = protowire.AppendBytes(protowire.AppendTag(batch, batchEvents, protowire.BytesType), e)
		message = protowire.AppendBytes(protowire.AppendTag(message, messageBatch, protowire.BytesType), batch)
		m := &messages.ServerMessage{}
		if err := messages.UnmarshalServerMessage(message, m); err != nil {
			t.Fatal(err)
		}
		got := m.GetWatchBatch().GetEvents()
		if len(got) != 1 || got[0].GetType() != kind || got[0].GetRevision() != revision {
			t.Fatalf("decoded %v", m)
		}
		return got[0]
	}
	bubble(t, func(t *testing.T, net fakeNet) {
		cluster := net["n1"].cluster
		c := newTestClient(t, net, nil)
		defer c.Close()
		w, err := c.Watch(context.Background(), PrefixSelector(""), WatchOptions{From: 101})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		add := func(kind messages.EventType) {
			cluster.mu.Lock()
			defer cluster.mu.Unlock()
			cluster.revision++
			cluster.events = append(cluster.events, decoded(kind, cluster.revision))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, known := range []messages.EventType{messages.EventType_EVENT_TYPE_PUT, messages.EventType_EVENT_TYPE_DELETE} {
			add(known)
			if b, err := w.Next(ctx); err != nil || len(b.Events) != 1 || b.Events[0].Type != known {
				t.Fatalf("%v, %v", b, err)
			}
		}
		add(3)
		b, err := w.Next(ctx)
		if messages.CodeOf(err) != messages.Code_CODE_UNSUPPORTED {
			t.Fatalf("an event of kind 3 came as %v, %v", b, err)
		}
		if detail := messages.DetailOf(err); detail.GetField() != "type" {
			t.Errorf("it says %v", detail)
		}
	})
}
