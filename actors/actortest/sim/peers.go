package sim

import (
	"context"
	"net"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/cluster/peers"
	"github.com/concord-kv/concord/messages"
)

// The links between nodes are the production ones, over simulated connections: what a
// node that does not lead passes on, signs of life, the addresses of members.

// peerStream is one end of a link: each message with its length in front of it.
type peerStream struct{ conn net.Conn }

// SendMsg implements peers.Stream.
func (s peerStream) SendMsg(m any) error { return writeMessage(s.conn, m.(proto.Message)) }

// RecvMsg implements peers.Stream.
func (s peerStream) RecvMsg(m any) error { return readMessage(s.conn, m.(proto.Message)) }

func (n *Node) peerTransport() *peers.Transport {
	return &peers.Transport{
		Serve: func(accept func(context.Context, peers.Stream) error) { n.acceptPeer = accept },
		Dial: func(ctx context.Context, address string) (peers.Stream, func(), error) {
			c, err := n.world.network.dialFor(ctx, endpoint(n.id), n.id, strings.TrimSuffix(address, peerPort))
			if err != nil {
				return nil, nil, err
			}
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			return peerStream{c}, func() {
				stop()
				_ = c.Close()
			}, nil
		},
		Every: n.clock.Every,
	}
}

// peerPort makes a peer address of a node's name.
const peerPort = ":0"

// address is where the others reach a node.
func (n *Node) address() *messages.MemberAddress {
	return &messages.MemberAddress{
		ReplicaId: n.id, Raft: "memory:" + strconv.FormatUint(n.id, 10), Peer: endpoint(n.id) + peerPort, Client: endpoint(n.id),
	}
}

// servePeer serves a link that another node has dialled.
func (n *Node) servePeer(c *conn) {
	accept := n.acceptPeer
	go func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		_ = accept(ctx, peerStream{c}) // why it ended was told to the other side
		_ = c.Close()
	}()
}
