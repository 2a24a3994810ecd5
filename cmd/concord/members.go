package main

import (
	"net"
	"strconv"
	"strings"

	"github.com/concord-kv/concord/messages"
)

// Default ports of a node.
const (
	clientPort = "7411"
	peerPort   = "7412"
	raftPort   = "7413"
	adminPort  = "7414"
)

// memberOf reads ID=HOST, with the default ports, or ID=RAFT,PEER,CLIENT, each as
// HOST:PORT.
func memberOf(field, arg string) (*messages.MemberAddress, error) {
	bad := messages.InvalidField(field, "%q is not ID=HOST:PORT,HOST:PORT,HOST:PORT (raft, peer, client), nor ID=HOST for the default ports", arg)
	id, rest, ok := strings.Cut(arg, "=")
	n, err := strconv.ParseUint(id, 10, 64)
	if !ok || err != nil || n == 0 || rest == "" {
		return nil, bad
	}
	parts := strings.Split(rest, ",")
	if len(parts) == 1 && !strings.Contains(rest, ":") {
		at := func(port string) string { return net.JoinHostPort(rest, port) }
		return &messages.MemberAddress{ReplicaId: n, Raft: at(raftPort), Peer: at(peerPort), Client: at(clientPort)}, nil
	}
	if len(parts) != 3 {
		return nil, bad
	}
	for _, p := range parts {
		if _, _, err := net.SplitHostPort(p); err != nil {
			return nil, bad
		}
	}
	return &messages.MemberAddress{ReplicaId: n, Raft: parts[0], Peer: parts[1], Client: parts[2]}, nil
}

// membersOf reads several, each id once.
func membersOf(field string, args []string) ([]*messages.MemberAddress, error) {
	var all []*messages.MemberAddress
	for _, arg := range args {
		m, err := memberOf(field, arg)
		if err != nil {
			return nil, err
		}
		for _, other := range all {
			if other.ReplicaId == m.ReplicaId {
				return nil, messages.InvalidField(field, "%d is given twice", m.ReplicaId)
			}
		}
		all = append(all, m)
	}
	return all, nil
}
