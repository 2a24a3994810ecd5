package messages

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

// What is sent in two parts is the message that For makes.
func TestSharedBatchEncoding(t *testing.T) {
	events := []*Event{{Type: EventType_EVENT_TYPE_PUT, Revision: 7, OpIndex: 2, Record: &Record{Key: []byte("k"), Value: make([]byte, 300)}}}
	for _, ids := range [][]uint64{{1}, {300, 2, 1 << 40}, {5, 6}} {
		for _, s := range []*SharedBatch{
			NewSharedBatch(events, &Position{Revision: 7, OpIndex: PositionOpIndexEnd}, true, true),
			NewSharedBatch(nil, nil, false, false),
		} {
			head, body, err := s.Encode(ids)
			if err != nil {
				t.Fatal(err)
			}
			got := new(ServerMessage)
			if err := proto.Unmarshal(append(head, body...), got); err != nil {
				t.Fatal(err)
			}
			want := &ServerMessage{Message: &ServerMessage_WatchBatch{WatchBatch: s.For(ids)}}
			if !proto.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			if again, shared, _ := s.Encode(ids); string(again) != string(head) || len(shared) > 0 && &shared[0] != &body[0] {
				t.Fatal("encoded twice")
			}
		}
	}
}
