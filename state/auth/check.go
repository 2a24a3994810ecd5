package auth

import (
	"fmt"
	"unsafe"

	"github.com/concord-kv/concord/messages"
)

// denied is the refusal of a request for what it asks in this field. It says nothing
// about what is stored.
func denied(r *Rights, right, field string) *messages.Error {
	return messages.NewError(messages.Code_CODE_PERMISSION_DENIED, "user %q has no right to %s here", r.Name, right).WithField(field)
}

// Denied is the refusal of what needs this right.
func (r *Rights) Denied(right, field string) *messages.Error { return denied(r, right, field) }

// CheckCommand refuses a command of a client, with the field that it has no right for.
// Whose a lease is, only the state knows: see state. The command is valid.
func CheckCommand(r *Rights, c *messages.Command) *messages.Error {
	if r == nil || r.root {
		return nil
	}
	switch op := c.Op.(type) {
	case *messages.Command_Put:
		return checkPut(r, op.Put)
	case *messages.Command_PutMany:
		for i, p := range op.PutMany.GetPuts() {
			if err := checkPut(r, p); err != nil {
				return at(err, "puts", i)
			}
		}
		return nil
	case *messages.Command_Delete:
		return checkDelete(r, op.Delete)
	case *messages.Command_Touch:
		return checkKey(r, r.write, "write", op.Touch.GetKey())
	case *messages.Command_Txn:
		return checkTxn(r, op.Txn)
	case *messages.Command_GrantLease:
		return checkLease(r, "ttl_ms")
	case *messages.Command_KeepAliveLease, *messages.Command_RevokeLease, *messages.Command_OpenSession, *messages.Command_CloseSession:
		return nil // a session is how writes are numbered; whose a lease is, the state knows
	case *messages.Command_OpenCursor, *messages.Command_CheckpointCursor, *messages.Command_CloseCursor:
		return checkLease(r, "name")
	case *messages.Command_ResolveIdempotency:
		return nil // one's own keys only
	case *messages.Command_ChangeAuth:
		if !r.admin && !ownCredentials(r, op.ChangeAuth) {
			return denied(r, "administer", "change_auth")
		}
		return nil
	}
	if !r.admin {
		return denied(r, "administer", operatorField(c))
	}
	return nil
}

// operatorField names what an operator asked for.
func operatorField(c *messages.Command) string {
	switch c.Op.(type) {
	case *messages.Command_CreateIndex, *messages.Command_DropIndex:
		return "index"
	case *messages.Command_Compact:
		return "compact"
	case *messages.Command_SetConfig:
		return "config"
	}
	return "operation"
}

// ownCredentials: everybody may change their own password and end their own tokens.
func ownCredentials(r *Rights, c *messages.ChangeAuth) bool {
	switch x := c.GetChange().(type) {
	case *messages.ChangeAuth_SetPassword:
		return x.SetPassword.GetName() == r.Name
	case *messages.ChangeAuth_RevokeTokens:
		return x.RevokeTokens.GetUser() == r.Name
	}
	return false
}

// CheckQuery refuses a read. What it lists of leases, cursors and indexes is picked by
// the view.
func CheckQuery(r *Rights, q *messages.Query) *messages.Error {
	if r == nil || r.root {
		return nil
	}
	switch x := q.Query.(type) {
	case *messages.Query_Get:
		return checkKey(r, r.read, "read", x.Get.GetKey())
	case *messages.Query_GetMany:
		for i, key := range x.GetMany.GetKeys() {
			if !r.read.has(view(key)) {
				return denied(r, "read", fmt.Sprintf("keys[%d]", i))
			}
		}
	case *messages.Query_List:
		return checkSelector(r, r.read, "read", x.List.GetSelector())
	case *messages.Query_History:
		return checkKey(r, r.read, "read", x.History.GetKey())
	case *messages.Query_Changes:
		return checkSelector(r, r.read, "read", x.Changes.GetSelector())
	case *messages.Query_Audit:
		if !r.admin {
			return denied(r, "administer", "audit")
		}
	}
	return nil
}

// CheckWatch refuses a watch of keys that may not be read.
func CheckWatch(r *Rights, s *messages.Selector) *messages.Error {
	if r == nil || r.root {
		return nil
	}
	return checkSelector(r, r.read, "read", s)
}

func checkKey(r *Rights, all spans, right string, key []byte) *messages.Error {
	if !all.has(view(key)) {
		return denied(r, right, "key")
	}
	return nil
}

func checkSelector(r *Rights, all spans, right string, s *messages.Selector) *messages.Error {
	if !all.covers(spanOf(s)) {
		return denied(r, right, "selector")
	}
	return nil
}

func checkLease(r *Rights, field string) *messages.Error {
	if len(r.lease) == 0 {
		return denied(r, "use leases", field)
	}
	return nil
}

func checkPut(r *Rights, p *messages.Put) *messages.Error {
	key := view(p.GetKey())
	switch {
	case !r.write.has(key):
		return denied(r, "write", "key")
	case p.GetPrevKv() && !r.read.has(key):
		return denied(r, "read", "prev_kv")
	case p.GetLeaseId() != 0 && !r.lease.has(key):
		return denied(r, "attach a lease", "lease_id")
	}
	return nil
}

func checkDelete(r *Rights, d *messages.Delete) *messages.Error {
	if err := checkSelector(r, r.write, "write", d.GetSelector()); err != nil {
		return err
	}
	if d.GetPrevKv() && !r.read.covers(spanOf(d.GetSelector())) {
		return denied(r, "read", "prev_kv")
	}
	return nil
}

// checkTxn wants the rights for both branches: which one runs must not tell what the
// compares saw.
func checkTxn(r *Rights, t *messages.Txn) *messages.Error {
	for i, c := range t.GetCompares() {
		var err *messages.Error
		if c.GetRange() != nil {
			err = checkSelector(r, r.read, "read", &messages.Selector{By: &messages.Selector_Range{Range: c.Range}})
		} else {
			err = checkKey(r, r.read, "read", c.GetKey())
		}
		if err != nil {
			return at(err, "compares", i)
		}
	}
	for _, branch := range []struct {
		name string
		ops  []*messages.TxnOp
	}{{"success", t.GetSuccess()}, {"failure", t.GetFailure()}} {
		for i, op := range branch.ops {
			if err := checkTxnOp(r, op); err != nil {
				return at(err, branch.name, i).WithOp(i)
			}
		}
	}
	return nil
}

func checkTxnOp(r *Rights, op *messages.TxnOp) *messages.Error {
	switch o := op.GetOp().(type) {
	case *messages.TxnOp_Get:
		return checkSelector(r, r.read, "read", o.Get.GetSelector())
	case *messages.TxnOp_Put:
		return checkPut(r, o.Put)
	case *messages.TxnOp_Delete:
		return checkDelete(r, o.Delete)
	case *messages.TxnOp_Touch:
		return checkKey(r, r.write, "write", o.Touch.GetKey())
	}
	return denied(r, "do this", "op")
}

func at(err *messages.Error, list string, i int) *messages.Error {
	return err.WithField(fmt.Sprintf("%s[%d].%s", list, i, err.Detail.GetField()))
}

// view returns a key as a string that shares its memory.
func view(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }
