package remoting

import (
	"github.com/asynkron/protoactor-go/remote"
)

// checker holds what one peer may say.
type checker struct {
	kinds map[string]kind
	own   string // our address
	// allowed reports whether the peer of this address may send this kind to this
	// id: nothing else names a process here.
	allowed func(peer, id string, k kind) verdict
}

type verdict uint8

const (
	deliver verdict = iota
	stale           // ended: drop it, and say so
	forbid
)

// admitted is an envelope that passed, with its indexes resolved. Its bytes are
// not decoded yet.
type admitted struct {
	kind      kind
	stale     bool
	target    string
	sender    string // id; empty for none
	requestID uint32 // of the sender: a future waits under it
	data      []byte
}

// checkConnect returns the address that a connect request declares.
func (c *checker) checkConnect(m *remote.RemoteMessage) (address, member string, err error) {
	sc := m.GetConnectRequest().GetServerConnection()
	if sc == nil || sc.Address == "" || len(sc.Address) > idBytesMax || len(sc.MemberId) > memberBytesMax {
		return "", "", refusal{RefusedFirstMessage}
	}
	if sc.Address == c.own {
		// Answers to ourselves would never leave this process.
		return "", "", refusal{RefusedSelf}
	}
	return sc.Address, sc.MemberId, nil
}

// checkBatch looks at a whole batch of a peer before any of it counts, and appends
// its envelopes to dst.
func (c *checker) checkBatch(dst []admitted, b *remote.MessageBatch, peer string) ([]admitted, error) {
	if len(b.GetEnvelopes()) > envelopesMax || len(b.GetTypeNames()) > typeNamesMax ||
		len(b.GetTargets()) > envelopesMax || len(b.GetSenders()) > envelopesMax {
		return dst, refusal{RefusedBatchSize}
	}
	for _, id := range b.Targets {
		if len(id) > idBytesMax {
			return dst, refusal{RefusedBatchSize}
		}
	}
	for _, pid := range b.Senders {
		if pid.GetAddress() != peer || pid.GetId() == "" {
			return dst, refusal{RefusedSender}
		}
		if len(pid.GetId()) > idBytesMax {
			return dst, refusal{RefusedBatchSize}
		}
	}
	for _, e := range b.Envelopes {
		a, err := c.checkEnvelope(b, e, peer)
		if err != nil {
			return dst, err
		}
		dst = append(dst, a)
	}
	return dst, nil
}

func (c *checker) checkEnvelope(b *remote.MessageBatch, e *remote.MessageEnvelope, peer string) (admitted, error) {
	var a admitted
	if e.GetSerializerId() != 0 {
		return a, refusal{RefusedSerializer}
	}
	if !within(e.GetTypeId(), len(b.TypeNames)) {
		return a, refusal{RefusedTypeIndex}
	}
	if !within(e.GetTarget(), len(b.Targets)) {
		return a, refusal{RefusedTargetIndex}
	}
	// Sender 0 is none, so it is one more than the index.
	if e.GetSender() != 0 {
		if !within(e.GetSender()-1, len(b.Senders)) {
			return a, refusal{RefusedSenderIndex}
		}
		a.sender = b.Senders[e.GetSender()-1].GetId()
		a.requestID = e.GetSenderRequestId()
	}
	a.kind = c.kinds[b.TypeNames[e.GetTypeId()]]
	if a.kind == kindNone {
		return a, refusal{RefusedTypeName}
	}
	a.target, a.data = b.Targets[e.GetTarget()], e.GetMessageData()
	if a.kind == kindDeadLetter {
		return a, nil // dropped, whatever it is for
	}
	switch c.allowed(peer, a.target, a.kind) {
	case deliver:
	case stale:
		a.stale = true
	default:
		return a, refusal{RefusedTarget}
	}
	// Whoever opens a session must say who hears the answers.
	if a.sender == "" && (a.target == gatewayID || a.kind == kindServerHello) {
		return a, refusal{RefusedSender}
	}
	return a, nil
}

func within(index int32, n int) bool { return index >= 0 && int(index) < n }
