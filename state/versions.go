package state

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// The rules that apply follows have versions. What a command does, and every answer
// that is recorded, may differ between two builds only behind a version that the
// log has raised (RaiseApplyVersion): until then the newer build keeps the older rule.
//
//	1  the first
//	2  refusals name the field at fault where version 1 left it empty
const versionFields = 2

// field names the field at fault, from versionFields on.
func (m *Machine) field(e *messages.Error, name string) *messages.Error {
	if m.global.applyVersion < versionFields {
		return e
	}
	return e.WithField(name)
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
