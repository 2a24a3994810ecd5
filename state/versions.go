package state

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// The rules that apply follows have versions. What a command does, and every answer
// that is recorded, may differ between two builds only behind a version that the
// log has raised (RaiseApplyVersion): until then the newer build keeps the older rule.
//
//	1  the first
//	2  refusals name the field at fault where version 1 left it empty; move_lease,
//	   exact compaction, compares of ranges and by order; users, roles and audit
const version2 = 2

// field names the field at fault, from version 2 on.
func (m *Machine) field(e *messages.Error, name string) *messages.Error {
	if m.global.applyVersion < version2 {
		return e
	}
	return e.WithField(name)
}

// VersionOf returns the version from which on a command may be in the log: builds that
// do not know it stop at a command that came later. Whoever proposes asks before.
func VersionOf(c *messages.Command) uint32 {
	switch c.GetOp().(type) {
	case *messages.Command_ChangeAuth, *messages.Command_RecordAudit:
		return version2
	}
	return 1
}

// TooEarly refuses a command that some member of the cluster may not know yet.
func TooEarly(c *messages.Command) *messages.Error {
	return messages.NewError(messages.Code_CODE_UNSUPPORTED,
		"not before every member of the cluster is of a build that knows it (apply version %d)", VersionOf(c)).WithField("op")
}

// asVersion1 returns a command as a build of version 1 reads it: fields that came
// later do not exist. An operation that came later stops such a build, so that it is
// refused here until nobody runs one.
func asVersion1(c *messages.Command) (*messages.Command, *messages.Error) {
	if VersionOf(c) > 1 {
		return nil, TooEarly(c)
	}
	newer := false
	switch op := c.Op.(type) {
	case *messages.Command_Put:
		newer = op.Put.GetMoveLease()
	case *messages.Command_PutMany:
		newer = slices.ContainsFunc(op.PutMany.GetPuts(), (*messages.Put).GetMoveLease)
	case *messages.Command_Compact:
		newer = op.Compact.GetExact()
	case *messages.Command_Txn:
		moves := func(o *messages.TxnOp) bool { return o.GetPut().GetMoveLease() }
		newer = slices.ContainsFunc(op.Txn.GetSuccess(), moves) || slices.ContainsFunc(op.Txn.GetFailure(), moves) ||
			slices.ContainsFunc(op.Txn.GetCompares(), func(c *messages.Compare) bool { return c.GetRange() != nil || c.GetOrdered() })
	}
	if !newer {
		return c, nil
	}
	c = proto.CloneOf(c)
	switch op := c.Op.(type) {
	case *messages.Command_Put:
		op.Put.MoveLease = false
	case *messages.Command_PutMany:
		for _, p := range op.PutMany.GetPuts() {
			p.MoveLease = false
		}
	case *messages.Command_Compact:
		op.Compact.Exact = false
	case *messages.Command_Txn:
		for _, o := range slices.Concat(op.Txn.GetSuccess(), op.Txn.GetFailure()) {
			if p := o.GetPut(); p != nil {
				p.MoveLease = false
			}
		}
		for _, x := range op.Txn.GetCompares() {
			x.Range, x.Ordered = nil, false
		}
	}
	return c, nil
}

// ApplyVersion returns the version of the rules that the log has settled on, 0 before
// bootstrap, and the highest that this machine knows.
func (m *Machine) ApplyVersion() (current, supported uint32) {
	return m.global.applyVersion, m.supported
}

// raiseApplyVersion lets newer rules begin with the next command. It answers
// ConfigResult.
func (m *Machine) raiseApplyVersion(r *messages.Result, v *messages.RaiseApplyVersion) *messages.Error {
	if v.GetVersion() < m.global.applyVersion {
		return messages.InvalidField("version", "%d is below the current %d", v.GetVersion(), m.global.applyVersion)
	}
	m.requireVersion(v.GetVersion())
	m.global.applyVersion = v.GetVersion()
	r.Answer = &messages.Result_Config{Config: &messages.ConfigResult{Config: m.config}}
	return nil
}

// requireVersion stops a build that cannot follow: if it went on it would answer
// otherwise than its peers.
func (m *Machine) requireVersion(version uint32) {
	if version > m.supported {
		panic(fmt.Sprintf("state: the cluster applies by version %d and this build knows %d: install a newer one",
			version, m.supported))
	}
}
