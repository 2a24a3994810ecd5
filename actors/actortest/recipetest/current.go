package recipetest

import (
	"context"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/transport"
)

// current dials the node that runs now, in this process.
type current func() *node.Node

// Dial implements transport.Dialer.
func (c current) Dial(ctx context.Context, endpoint string) (transport.ClientStream, error) {
	return c().Dialer().Dial(ctx, endpoint)
}
