package node_test

import (
	"context"
	"fmt"
	"os"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/messages"
)

// A node embedded in a process: no socket, no configuration but a directory.
func Example() {
	dir, err := os.MkdirTemp("", "concord")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	n, err := node.Start(node.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer n.Close()

	// The stream that an SDK client would use; see package client for the comfort.
	stream, err := n.Dialer().Dial(context.Background(), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()
	send := func(m *messages.ClientMessage) {
		if err := stream.Send(m); err != nil {
			fmt.Println(err)
		}
	}
	send(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: &messages.ClientHello{
		Protocol: messages.ProtocolVersion, ClientName: "example", ClientEpoch: 1,
	}}})
	send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{
		ClientEpoch: 1, FirstCall: 1,
		Operations: []*messages.Operation{{Operation: &messages.Operation_Write{Write: &messages.Write{
			Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("greeting"), Value: []byte("hello")}},
		}}}},
	}}})
	for {
		m, err := stream.Recv()
		if err != nil {
			fmt.Println(err)
			return
		}
		if replies := m.GetReplies().GetReplies(); len(replies) > 0 {
			fmt.Println("stored at revision", replies[0].GetResult().GetRevision())
			return
		}
	}
	// Output: stored at revision 1
}
