package main

import (
	"bytes"
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

const txnHelp = `A transaction is read from FILE, or from stdin. Either as text, one item a line:

  if                                 # every line must hold
    exists /a                        # or: absent /a
    value /a == hello                # == or !=
    version /a >= 3                  # also create_revision, mod_revision
    lease /a == 7                    # 0 is none
    ttl /a > 10s                     # or null
    field /a user.age >= 18          # JSON
    field /a user.name == "\"Ann\""  # text has quotes of its own
  then
    put /a "a value" ttl=30s         # also lease=7 content-type=T meta.NAME=V
    delete /a                        # also: delete --prefix /a/
    touch /a 30s
    get /a                           # also: get --prefix /a/ limit=10
  else
    get /a

or as JSON:

  {"if":   [{"key": "/a", "compare": "version", "op": ">=", "value": 3}],
   "then": [{"op": "put", "key": "/a", "value": "a value", "ttl": "30s"}],
   "else": [{"op": "get", "key": "/a"}]}

Words with spaces, quotes or other bytes are written as Go strings: "a\nb\xff". The
JSON has key_base64 and value_base64 for bytes, prefix in place of key, and for field
compares a path: ["user", "age"] with any JSON as value.`

func (a *app) txnCommand() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "txn [FILE]",
		Short: "Run a transaction: compares, then one of two branches, all or nothing",
		Long:  txnHelp,
		Args:  cobra.MaximumNArgs(1),
		RunE: a.with(func(ctx context.Context, s *client.Client, args []string) error {
			text, err := a.txnText(args)
			if err != nil {
				return err
			}
			t, err := parseTxn(text)
			if err != nil {
				return err
			}
			r, err := s.Txn(ctx, t, client.TxnOptions{})
			if err != nil {
				return err
			}
			if err := a.printTxn(r); err != nil {
				return err
			}
			if check && !r.Succeeded {
				return errCondition
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&check, "check", false, "exit with 7 when a compare did not hold")
	return a.withKey(c)
}

func (a *app) txnText(args []string) ([]byte, error) {
	in := a.in
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return nil, messages.InvalidField("file", "%v", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, 2*messages.ValueBytesCeiling))
	if err != nil {
		return nil, messages.InvalidField("file", "%v", err)
	}
	return text, nil
}

// parseTxn reads either form.
func parseTxn(text []byte) (*messages.Txn, error) {
	if t := bytes.TrimSpace(text); len(t) > 0 && t[0] == '{' {
		return parseTxnJSON(t)
	}
	return parseTxnText(string(text))
}

func (a *app) printTxn(r client.TxnResult) error {
	responses := make([]object, len(r.Responses))
	for i, op := range r.Responses {
		responses[i] = opObject(op)
	}
	o := object{"succeeded": r.Succeeded, "revision": r.Revision, "replayed": r.Replayed, "responses": responses}
	return a.print(o, func() {
		branch := "else"
		if r.Succeeded {
			branch = "then"
		}
		a.printf("%s at revision %d\n", branch, r.Revision)
		for _, op := range r.Responses {
			a.printOp(op)
		}
	})
}

func opObject(op *messages.TxnOpResult) object {
	switch answer := op.GetAnswer().(type) {
	case *messages.TxnOpResult_Get:
		g := answer.Get
		return object{"op": "get", "records": recordObjects(g.GetRecords()), "count": g.GetCount(), "has_more": g.GetHasMore()}
	case *messages.TxnOpResult_Put:
		return object{"op": "put", "prev": recordObject(answer.Put.GetPrev())}
	case *messages.TxnOpResult_Delete:
		return object{"op": "delete", "deleted": answer.Delete.GetDeleted(), "prev": recordObjects(answer.Delete.GetPrev())}
	case *messages.TxnOpResult_Touch:
		return object{"op": "touch", "remaining_ttl_ms": answer.Touch.GetRemainingTtlMs()}
	}
	return object{"op": "unknown"}
}

func (a *app) printOp(op *messages.TxnOpResult) {
	switch answer := op.GetAnswer().(type) {
	case *messages.TxnOpResult_Get:
		a.printf("get\t%d\n", answer.Get.GetCount())
		for _, r := range answer.Get.GetRecords() {
			a.printf("\t%s\t%s\n", quote(r.GetKey()), quote(r.GetValue()))
		}
	case *messages.TxnOpResult_Put:
		a.printf("put\n")
	case *messages.TxnOpResult_Delete:
		a.printf("delete\t%d\n", answer.Delete.GetDeleted())
	case *messages.TxnOpResult_Touch:
		a.printf("touch\t%s\n", remaining(answer.Touch.GetRemainingTtlMs()))
	}
}
