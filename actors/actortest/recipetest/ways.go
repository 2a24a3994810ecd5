package recipetest

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/cluster/clustertest/port"
	"github.com/concord-kv/concord/cluster/remoting"
	"github.com/concord-kv/concord/cluster/transport"
)

// Ways are the three ways into a node: gRPC, a pipe inside the process, and protoactor's
// remote protocol.
var Ways = []string{"grpc", "inproc", "remote"}

// Way is the one that tests go now; EachWay changes it.
var Way = "grpc"

var onlyWays = flag.String("ways", "", "the ways in that tests go, with commas; default all, with -short grpc")

// EachWay runs a package's tests once over each way: all have to do the same for the
// SDK. With -short it is gRPC alone.
func EachWay(m *testing.M) (code int) {
	if !flag.Parsed() {
		flag.Parse()
	}
	for _, Way = range Ways {
		if *onlyWays != "" && !slices.Contains(strings.Split(*onlyWays, ","), Way) || *onlyWays == "" && testing.Short() && Way != "grpc" {
			continue
		}
		fmt.Println("way in:", Way)
		if c := m.Run(); c != 0 {
			code = c
		}
	}
	return code
}

// Door is what a node and its clients need to meet, whichever way they go.
type Door struct {
	ca     *certs.Authority
	actors string
}

// NewDoor returns the door of one node; it outlives the node's restarts.
func NewDoor() (*Door, error) {
	ca, err := certs.NewAuthority("test")
	if err != nil {
		return nil, err
	}
	address, err := port.Address()
	return &Door{ca: ca, actors: address}, err
}

// Open has the node serve actors of other processes.
func (d *Door) Open(cfg *node.Config) error {
	c, err := d.certificate("node", d.actors)
	cfg.Actors = &remoting.Config{Listen: d.actors, Certificate: c, Roots: d.ca.Pool(), Logger: slog.New(slog.DiscardHandler)}
	return err
}

func (d *Door) certificate(name, address string) (tls.Certificate, error) {
	pair, err := d.ca.Issue(certs.Request{Name: name, Addresses: []string{address}})
	if err != nil {
		return tls.Certificate{}, err
	}
	return pair.TLS()
}

// Dialer returns a dialer of a way, the endpoint to give it, and what to call when the
// client has been closed. now returns the node: after a restart it is another one.
func (d *Door) Dialer(way string, now func() *node.Node) (dial transport.Dialer, endpoint string, done func(), err error) {
	switch way {
	case "inproc":
		return current(now), "embedded", func() {}, nil
	case "grpc":
		return transport.NewGRPCDialer(transport.DialerOptions{}), now().Addr(), func() {}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, err
	}
	c, err := d.certificate("service", l.Addr().String())
	if err != nil {
		return nil, "", nil, err
	}
	e, err := remoting.Join(nil, remoting.Config{Listener: l, Certificate: c, Roots: d.ca.Pool(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, "", nil, err
	}
	return e.Dialer(), d.actors, e.Close, nil
}
