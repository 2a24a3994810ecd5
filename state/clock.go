package state

import (
	"math"

	"github.com/concord-kv/concord/messages"
)

// clock is the lease clock: milliseconds that pass only in the log. It never goes
// back, and only its owner moves it.
type clock struct {
	ms                    int64
	epoch, replica, nonce uint64
}

// clockMaxMs bounds stamps, so that clock + ttl cannot overflow.
const clockMaxMs = math.MaxInt64 / 4

// owns reports whether the entry's stamps are those of the clock's owner.
func (c *clock) owns(e *messages.Entry) bool {
	return c.nonce != 0 && e.GetEpoch() == c.epoch && e.GetReplicaId() == c.replica && e.GetNonce() == c.nonce
}

// advance moves the clock to a valid stamp. A stamp behind the clock is in order:
// the owner counts from the moment it claimed, others from what was committed.
func (c *clock) advance(stampMs int64) { c.ms = max(c.ms, stampMs) }

// claimClock makes the proposer the owner, unless somebody else was faster.
func (m *Machine) claimClock(r *messages.Result, c *messages.ClaimClock) *messages.Error {
	if c.GetReplicaId() == 0 || c.GetNonce() == 0 {
		return messages.InvalidField("nonce", "replica_id and nonce must not be 0")
	}
	if c.GetExpectedEpoch() != m.clock.epoch {
		return messages.NewError(messages.Code_CODE_CLAIM_REFUSED, "the clock is in epoch %d, not %d",
			m.clock.epoch, c.GetExpectedEpoch())
	}
	m.clock.epoch++
	m.clock.replica, m.clock.nonce = c.GetReplicaId(), c.GetNonce()
	m.effects.ClockOwner = true
	r.Answer = &messages.Result_ClaimClock{ClaimClock: &messages.ClaimClockResult{
		Epoch: m.clock.epoch, ClockMs: m.clock.ms,
	}}
	return nil
}

// bootstrap begins the cluster's life.
func (m *Machine) bootstrap(r *messages.Result, b *messages.Bootstrap) *messages.Error {
	if m.Bootstrapped() {
		return messages.NewError(messages.Code_CODE_ALREADY_BOOTSTRAPPED, "the cluster exists")
	}
	if n := len(b.GetClusterId()); n == 0 || n > clusterIDBytesMax {
		return messages.InvalidField("cluster_id", "%d bytes, 1 to %d", n, clusterIDBytesMax)
	}
	if b.GetIncarnation() == 0 {
		return messages.InvalidField("incarnation", "must not be 0")
	}
	if b.GetApplyVersion() == 0 {
		return messages.InvalidField("apply_version", "must not be 0")
	}
	config := b.GetConfig()
	if config == nil {
		config = messages.DefaultClusterConfig()
	}
	if err := messages.ValidateConfig(config); err != nil {
		return err
	}
	m.requireVersion(b.GetApplyVersion())
	m.global.clusterID = append([]byte(nil), b.GetClusterId()...)
	m.global.incarnation = b.GetIncarnation()
	m.global.applyVersion = b.GetApplyVersion()
	m.replaceConfig(cloneConfig(config))
	r.Answer = &messages.Result_Config{Config: &messages.ConfigResult{Config: m.config}}
	return nil
}

// clusterIDBytesMax bounds Bootstrap.cluster_id.
const clusterIDBytesMax = 64
