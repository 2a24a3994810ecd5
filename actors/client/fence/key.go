package fence

import (
	"context"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// Key guards keys of the store by one that keeps the highest accepted token, as a JSON
// number. It protects against holders of any issuer whose tokens rise.
type Key string

// Compare holds if no higher token was accepted. It is one of the compares of a Txn
// whose success branch has Put.
func (k Key) Compare(t Token) *messages.Compare {
	return &messages.Compare{Key: []byte(k), Operator: client.LessOrEqual, Target: &messages.Compare_Field_{
		Field: &messages.Compare_Field{
			Extractor: &messages.Extractor{By: &messages.Extractor_Identity{Identity: true}},
			Json:      []byte(t.String()),
		},
	}}
}

// Put keeps the token.
func (k Key) Put(t Token) *messages.TxnOp {
	return client.OpPut(string(k), []byte(t.String()), client.PutOptions{ContentType: "application/json", NoPrev: true})
}

// Do runs the operations in one transaction with the guard, or returns a *StaleError
// and nothing was done.
func (k Key) Do(ctx context.Context, c *client.Client, t Token, ops ...*messages.TxnOp) (client.TxnResult, error) {
	if t == 0 {
		return client.TxnResult{}, &StaleError{Subject: string(k)}
	}
	r, err := client.If(k.Compare(t)).Then(ops...).Then(k.Put(t)).Else(client.OpGet(client.KeySelector(string(k)), 0)).Commit(ctx, c)
	if err != nil || r.Succeeded {
		return r, err
	}
	stale := &StaleError{Subject: string(k), Token: t}
	if records := r.Responses[0].GetGet().GetRecords(); len(records) == 1 {
		stale.Highest, _ = Parse(string(records[0].Value))
	}
	return r, stale
}
