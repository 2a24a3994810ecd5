package remoting

import (
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// kind is a message that may cross the wire.
type kind uint8

const (
	kindNone kind = iota
	// Client to node.
	kindClientHello
	kindFrame
	kindWatchCredit
	kindCancelWatch
	// Node to client.
	kindServerHello
	kindReplies
	kindWatchBatch
	kindWatchEnd
	kindLeaderHint
	// Both ways.
	kindHeartbeat
	kindGoodbye
	// Ignored: protoactor says it by itself when an actor is gone.
	kindDeadLetter
)

// The whitelists. A name that is not here is refused, whatever it is: system
// messages stop and wipe actors, and the registry knows hundreds of others.
var (
	toNode = map[string]kind{
		nameOf[*messages.ClientHello](): kindClientHello,
		nameOf[*messages.Frame]():       kindFrame,
		nameOf[*messages.WatchCredit](): kindWatchCredit,
		nameOf[*messages.CancelWatch](): kindCancelWatch,
		nameOf[*messages.Heartbeat]():   kindHeartbeat,
		nameOf[*messages.Goodbye]():     kindGoodbye,
		deadLetterName:                  kindDeadLetter,
	}
	toClient = map[string]kind{
		nameOf[*messages.ServerHello](): kindServerHello,
		nameOf[*messages.Replies]():     kindReplies,
		nameOf[*messages.WatchBatch]():  kindWatchBatch,
		nameOf[*messages.WatchEnd]():    kindWatchEnd,
		nameOf[*messages.LeaderHint]():  kindLeaderHint,
		nameOf[*messages.Heartbeat]():   kindHeartbeat,
		nameOf[*messages.Goodbye]():     kindGoodbye,
		deadLetterName:                  kindDeadLetter,
	}
)

const deadLetterName = "actor.DeadLetterResponse"

func nameOf[M proto.Message]() string {
	var m M
	return string(m.ProtoReflect().Descriptor().FullName())
}

func nameOfMessage(m proto.Message) string {
	return string(m.ProtoReflect().Descriptor().FullName())
}

func newMessage(k kind) proto.Message {
	switch k {
	case kindClientHello:
		return new(messages.ClientHello)
	case kindFrame:
		return new(messages.Frame)
	case kindWatchCredit:
		return new(messages.WatchCredit)
	case kindCancelWatch:
		return new(messages.CancelWatch)
	case kindServerHello:
		return new(messages.ServerHello)
	case kindReplies:
		return new(messages.Replies)
	case kindWatchBatch:
		return new(messages.WatchBatch)
	case kindWatchEnd:
		return new(messages.WatchEnd)
	case kindLeaderHint:
		return new(messages.LeaderHint)
	case kindHeartbeat:
		return new(messages.Heartbeat)
	case kindGoodbye:
		return new(messages.Goodbye)
	default:
		return nil
	}
}

// wrapClient makes of an actor's message what a session reads; nil for one that
// clients do not send.
func wrapClient(m proto.Message) *messages.ClientMessage {
	switch m := m.(type) {
	case *messages.ClientHello:
		return &messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: m}}
	case *messages.Frame:
		return &messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: m}}
	case *messages.WatchCredit:
		return &messages.ClientMessage{Message: &messages.ClientMessage_WatchCredit{WatchCredit: m}}
	case *messages.CancelWatch:
		return &messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: m}}
	case *messages.Heartbeat:
		return &messages.ClientMessage{Message: &messages.ClientMessage_Heartbeat{Heartbeat: m}}
	case *messages.Goodbye:
		return &messages.ClientMessage{Message: &messages.ClientMessage_Goodbye{Goodbye: m}}
	default:
		return nil
	}
}

// unwrapClient is the reverse; nil for an empty message.
func unwrapClient(m *messages.ClientMessage) proto.Message {
	switch m := m.GetMessage().(type) {
	case *messages.ClientMessage_Hello:
		return m.Hello
	case *messages.ClientMessage_Frame:
		return m.Frame
	case *messages.ClientMessage_WatchCredit:
		return m.WatchCredit
	case *messages.ClientMessage_CancelWatch:
		return m.CancelWatch
	case *messages.ClientMessage_Heartbeat:
		return m.Heartbeat
	case *messages.ClientMessage_Goodbye:
		return m.Goodbye
	default:
		return nil
	}
}

// wrapServer makes of an actor's message what a client stream reads.
func wrapServer(m proto.Message) *messages.ServerMessage {
	switch m := m.(type) {
	case *messages.ServerHello:
		return &messages.ServerMessage{Message: &messages.ServerMessage_Hello{Hello: m}}
	case *messages.Replies:
		return &messages.ServerMessage{Message: &messages.ServerMessage_Replies{Replies: m}}
	case *messages.WatchBatch:
		return &messages.ServerMessage{Message: &messages.ServerMessage_WatchBatch{WatchBatch: m}}
	case *messages.WatchEnd:
		return &messages.ServerMessage{Message: &messages.ServerMessage_WatchEnd{WatchEnd: m}}
	case *messages.Heartbeat:
		return &messages.ServerMessage{Message: &messages.ServerMessage_Heartbeat{Heartbeat: m}}
	case *messages.Goodbye:
		return &messages.ServerMessage{Message: &messages.ServerMessage_Goodbye{Goodbye: m}}
	case *messages.LeaderHint:
		return &messages.ServerMessage{Message: &messages.ServerMessage_LeaderHint{LeaderHint: m}}
	default:
		return nil
	}
}

// unwrapServer is the reverse; nil for an empty message.
func unwrapServer(m *messages.ServerMessage) proto.Message {
	switch m := m.GetMessage().(type) {
	case *messages.ServerMessage_Hello:
		return m.Hello
	case *messages.ServerMessage_Replies:
		return m.Replies
	case *messages.ServerMessage_WatchBatch:
		return m.WatchBatch
	case *messages.ServerMessage_WatchEnd:
		return m.WatchEnd
	case *messages.ServerMessage_Heartbeat:
		return m.Heartbeat
	case *messages.ServerMessage_Goodbye:
		return m.Goodbye
	case *messages.ServerMessage_LeaderHint:
		return m.LeaderHint
	default:
		return nil
	}
}
