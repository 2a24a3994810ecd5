package state

import (
	"crypto/sha256"
	"fmt"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
)

// Apply applies one entry of the log and returns one result for each of its
// commands. Indexes rise. The results belong to the caller and are never changed
// again, by either side: parts of them are recorded.
func (m *Machine) Apply(index uint64, entry *messages.Entry) []*messages.Result {
	if index <= m.applied {
		panic(fmt.Sprintf("state: entry %d after entry %d", index, m.applied))
	}
	m.applied = index
	m.view = nil
	commands := entry.GetCommands()
	m.warm(commands)
	results, apart := m.results.list(len(commands)), false
	for i, c := range commands {
		m.applyCommand(m.results.next(), entry, c)
		r, large := m.results.take()
		results[i], apart = r, apart || large
	}
	if apart {
		results = m.results.apart(results)
	}
	return results
}

// applyCommand fills in the result of one command.
func (m *Machine) applyCommand(r *messages.Result, entry *messages.Entry, c *messages.Command) {
	m.kind = kindOf(c)
	m.global.commandCount++
	m.effects.Commands[m.kind]++
	m.settle(r, m.admit(r, entry, c))
	if c.Audit != nil && m.global.applyVersion >= version2 {
		m.recordAudit(c, r)
	}
	if r.Error != nil {
		m.effects.Refused[m.kind]++
	}
}

// settle completes a result: the revision that holds the change, or the current
// one, and the error, if the command was refused.
func (m *Machine) settle(r *messages.Result, err *messages.Error) {
	if !r.Replayed {
		r.Revision = m.kv.Revision()
	}
	if err != nil {
		r.Error, r.Answer = err.Detail, nil
	}
}

// admit lets a command through to its operation: the stamp first, because a command
// of a stale epoch must leave no trace at all; then the clock; then what only this
// state can say about the command's form; then exactly-once.
func (m *Machine) admit(r *messages.Result, entry *messages.Entry, c *messages.Command) *messages.Error {
	switch op := c.Op.(type) {
	case *messages.Command_ClaimClock:
		return m.claimClock(r, op.ClaimClock)
	case *messages.Command_Bootstrap:
		return m.bootstrap(r, op.Bootstrap)
	}
	if !m.clock.owns(entry) {
		return messages.NewError(messages.Code_CODE_STALE_CLOCK, "the stamp is of epoch %d; the clock is in epoch %d",
			entry.GetEpoch(), m.clock.epoch)
	}
	if s := c.GetStampMs(); s < 0 || s > clockMaxMs {
		return messages.InvalidField("stamp_ms", "%d is no time", s)
	}
	m.clock.advance(c.GetStampMs())
	m.once.expire(m.clock.ms, m.config.GetIdempotencyAgeMs())
	if !m.Bootstrapped() {
		return messages.NewError(messages.Code_CODE_NOT_READY, "the cluster has not been bootstrapped")
	}
	if err := m.checkEnvelope(c); err != nil {
		return err
	}
	if m.guard != nil {
		if err := m.admitPrincipal(c); err != nil {
			return err
		}
	}
	switch c.Op.(type) {
	case *messages.Command_KeepAliveLease, *messages.Command_OpenSession, *messages.Command_CloseSession,
		*messages.Command_ResolveIdempotency:
		// Their answers are of their own moment. They are never recorded.
		return m.operate(r, c)
	}
	if c.GetSessionId() != 0 {
		return m.inSession(r, c)
	}
	return m.idempotent(r, c)
}

// checkEnvelope checks what stands around the operation.
func (m *Machine) checkEnvelope(c *messages.Command) *messages.Error {
	if c.GetSessionId() != 0 && c.GetSequence() == 0 {
		return messages.InvalidField("sequence", "writes of a session are numbered from 1")
	}
	if c.GetSessionId() != 0 && c.GetAcknowledged() >= c.GetSequence() {
		return messages.InvalidField("acknowledged", "%d is not below the write's own number %d", c.GetAcknowledged(), c.GetSequence())
	}
	if err := messages.ValidateAudit(c.GetAudit()); err != nil {
		return err
	}
	if key := c.GetIdempotencyKey(); key != "" {
		if n := len(key); n > messages.IdempotencyKeyMax {
			return messages.InvalidField("idempotency_key", "%d bytes, at most %d", n, messages.IdempotencyKeyMax).
				WithLimit(messages.IdempotencyKeyMax)
		}
		if n := len(c.GetRequestHash()); n != sha256.Size {
			return messages.InvalidField("request_hash", "%d bytes, not %d", n, sha256.Size)
		}
	}
	return nil
}

// operate checks an operation against the configuration, which may be newer than
// what its proposer knew, and performs it.
func (m *Machine) operate(r *messages.Result, c *messages.Command) (err *messages.Error) {
	if m.global.applyVersion < version2 {
		if c, err = asVersion1(c); err != nil {
			return err
		}
	}
	if err := messages.ValidateOperation(c, m.config); err != nil {
		return err
	}
	if m.actor != nil {
		if err := auth.CheckCommand(m.actor, c); err != nil {
			return err
		}
	}
	switch op := c.Op.(type) {
	case *messages.Command_Put:
		return m.put(r, op.Put)
	case *messages.Command_PutMany:
		return m.putMany(r, op.PutMany)
	case *messages.Command_Delete:
		return m.delete(r, op.Delete)
	case *messages.Command_Touch:
		return m.touch(r, op.Touch)
	case *messages.Command_Txn:
		return m.txn(r, op.Txn)
	case *messages.Command_GrantLease:
		return m.grantLease(r, op.GrantLease)
	case *messages.Command_KeepAliveLease:
		return m.keepAliveLease(r, op.KeepAliveLease)
	case *messages.Command_RevokeLease:
		return m.revokeLease(r, op.RevokeLease)
	case *messages.Command_OpenSession:
		return m.openSession(r, op.OpenSession)
	case *messages.Command_CloseSession:
		return m.closeSession(r, op.CloseSession)
	case *messages.Command_ResolveIdempotency:
		return m.resolveIdempotency(r, op.ResolveIdempotency)
	case *messages.Command_CreateIndex:
		return m.createIndex(r, op.CreateIndex)
	case *messages.Command_DropIndex:
		return m.dropIndex(r, op.DropIndex)
	case *messages.Command_OpenCursor:
		return m.openCursor(r, op.OpenCursor)
	case *messages.Command_CheckpointCursor:
		return m.checkpointCursor(r, op.CheckpointCursor)
	case *messages.Command_CloseCursor:
		return m.closeCursor(r, op.CloseCursor)
	case *messages.Command_Compact:
		return m.compact(r, op.Compact)
	case *messages.Command_SetConfig:
		return m.applySetConfig(r, op.SetConfig)
	case *messages.Command_ChangeAuth:
		return m.changeAuth(r, c)
	}
	return m.operateNode(r, c)
}

// operateNode performs the operations that only nodes send.
func (m *Machine) operateNode(r *messages.Result, c *messages.Command) *messages.Error {
	switch op := c.Op.(type) {
	case *messages.Command_Tick:
		m.tick()
		return nil
	case *messages.Command_ExpireLeases:
		return m.expireLeases(r, op.ExpireLeases)
	case *messages.Command_StepIndex:
		return m.stepIndex(r, op.StepIndex)
	case *messages.Command_ReportConsumers:
		return m.reportConsumers(op.ReportConsumers)
	case *messages.Command_RaiseApplyVersion:
		return m.raiseApplyVersion(r, op.RaiseApplyVersion)
	case *messages.Command_RecordAudit:
		return nil // whatever has an audit context is recorded
	}
	panic(fmt.Sprintf("state: no operation for %T", c.Op))
}

// kindOf names the operation of a command. One that is missing, or that a newer
// build has added, stops the replica: to skip it would be to differ.
func kindOf(c *messages.Command) CommandKind {
	switch c.GetOp().(type) {
	case *messages.Command_Put:
		return KindPut
	case *messages.Command_PutMany:
		return KindPutMany
	case *messages.Command_Delete:
		return KindDelete
	case *messages.Command_Touch:
		return KindTouch
	case *messages.Command_Txn:
		return KindTxn
	case *messages.Command_GrantLease:
		return KindGrantLease
	case *messages.Command_KeepAliveLease:
		return KindKeepAliveLease
	case *messages.Command_RevokeLease:
		return KindRevokeLease
	case *messages.Command_OpenSession:
		return KindOpenSession
	case *messages.Command_CloseSession:
		return KindCloseSession
	case *messages.Command_ResolveIdempotency:
		return KindResolveIdempotency
	case *messages.Command_CreateIndex:
		return KindCreateIndex
	case *messages.Command_DropIndex:
		return KindDropIndex
	case *messages.Command_OpenCursor:
		return KindOpenCursor
	case *messages.Command_CheckpointCursor:
		return KindCheckpointCursor
	case *messages.Command_CloseCursor:
		return KindCloseCursor
	case *messages.Command_Compact:
		return KindCompact
	case *messages.Command_SetConfig:
		return KindSetConfig
	case *messages.Command_ClaimClock:
		return KindClaimClock
	case *messages.Command_Tick:
		return KindTick
	case *messages.Command_ExpireLeases:
		return KindExpireLeases
	case *messages.Command_StepIndex:
		return KindStepIndex
	case *messages.Command_ReportConsumers:
		return KindReportConsumers
	case *messages.Command_Bootstrap:
		return KindBootstrap
	case *messages.Command_RaiseApplyVersion:
		return KindRaiseApplyVersion
	case *messages.Command_ChangeAuth:
		return KindChangeAuth
	case *messages.Command_RecordAudit:
		return KindRecordAudit
	}
	panic("state: the log holds an operation that this build does not know: install a newer one")
}
