package client

import (
	"context"

	"github.com/concord-kv/concord/messages"
)

// Operate carries a request of an operator to the node that the client is connected
// to. Repeating one that has taken effect answers as the first time, so the client
// does that like with a read: at another node if it must.
func (c *Client) Operate(ctx context.Context, r *messages.AdminRequest) (*messages.AdminReply, error) {
	reply, err := c.ask(ctx, &messages.Operation{Operation: &messages.Operation_Admin{Admin: r}})
	if err != nil {
		return nil, err
	}
	return reply.GetAdmin(), nil
}
