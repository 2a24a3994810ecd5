package state

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// applySetConfig replaces the named settings and checks the whole afterwards, so
// that two settings that depend on each other can change together.
func (m *Machine) applySetConfig(r *messages.Result, s *messages.SetConfig) *messages.Error {
	config := cloneConfig(m.config)
	messages.ApplyConfig(config, s)
	config = cloneConfig(config) // ApplyConfig shares lists with the command
	if err := messages.ValidateConfig(config); err != nil {
		return err
	}
	m.replaceConfig(config)
	r.Answer = &messages.Result_Config{Config: &messages.ConfigResult{Config: m.config}}
	return nil
}

// replaceConfig installs a valid configuration that nobody else changes. A protected
// prefix that is new is protected from here: its floor is C, because what lies
// below is gone already on replicas that have swept.
func (m *Machine) replaceConfig(config *messages.ClusterConfig) {
	c := m.kv.Compacted()
	var prefixes []*messages.ProtectedPrefix
	for _, p := range config.GetProtectedPrefixes() {
		floor := c
		if old := findProtected(m.config.GetProtectedPrefixes(), p.GetPrefix()); old != nil {
			floor = old.GetFloor()
		}
		if findProtected(prefixes, p.GetPrefix()) == nil {
			prefixes = append(prefixes, &messages.ProtectedPrefix{Prefix: p.GetPrefix(), Floor: floor})
		}
	}
	slices.SortFunc(prefixes, func(a, b *messages.ProtectedPrefix) int { return bytes.Compare(a.Prefix, b.Prefix) })
	config.ProtectedPrefixes = prefixes
	m.setConfig(config)
	m.kv.Compact(c, m.protected())
	m.once.trim(config.GetIdempotencyEntriesMax())
}

// setConfig installs a configuration as it is.
func (m *Machine) setConfig(config *messages.ClusterConfig) {
	m.config = config
	m.configH = hashConfig(config)
}

// protected returns the protected prefixes as the store knows them.
func (m *Machine) protected() []store.Protected { return protectedOf(m.config) }

func protectedOf(config *messages.ClusterConfig) []store.Protected {
	var out []store.Protected
	for _, p := range config.GetProtectedPrefixes() {
		out = append(out, store.Protected{Prefix: string(p.GetPrefix()), Floor: p.GetFloor()})
	}
	return out
}

func findProtected(list []*messages.ProtectedPrefix, prefix []byte) *messages.ProtectedPrefix {
	for _, p := range list {
		if bytes.Equal(p.GetPrefix(), prefix) {
			return p
		}
	}
	return nil
}

func cloneConfig(c *messages.ClusterConfig) *messages.ClusterConfig {
	return proto.Clone(c).(*messages.ClusterConfig)
}
