package consensus

import (
	"log/slog"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/vfs"

	"github.com/concord-kv/concord/messages"
)

// Defaults of DragonboatConfig.
const (
	InFlightBytesDefault       = 64 << 20
	SnapshotBytesDefault       = 256 << 20
	SnapshotEveryDefault       = 10 * time.Minute
	SnapshotKeepEntriesDefault = 2_000
	DiskReserveBytesDefault    = 128 << 20
)

// Timing sets Raft's clock. It decides how fast a lost leader is replaced and how
// much an idle node works; it has no part in throughput.
type Timing struct {
	// RTT is the length of one tick, in whole milliseconds.
	RTT time.Duration
	// ElectionTicks without word from a leader start an election; the real time is
	// random between one and two times it.
	ElectionTicks uint64
	// HeartbeatTicks are between a leader's heartbeats.
	HeartbeatTicks uint64
}

// SingleNodeTiming is for a node that has no peers and so nobody to wait for.
// MultiNodeTiming replaces a lost leader within half a second.
var (
	SingleNodeTiming = Timing{RTT: 5 * time.Millisecond, ElectionTicks: 4, HeartbeatTicks: 1}
	MultiNodeTiming  = Timing{RTT: 20 * time.Millisecond, ElectionTicks: 15, HeartbeatTicks: 2}
)

// DragonboatConfig says where a replica lives and with whom. Zero values stand for
// the defaults named.
type DragonboatConfig struct {
	// Dir holds the log and the snapshots, and nothing else. It belongs to one
	// replica on one host for ever: replica id, raft address, host name and
	// deployment id may not change under it.
	Dir string
	// ReplicaID is this replica's number, at least 1. Ids are never reused.
	ReplicaID uint64
	// RaftAddress is how peers reach this replica: an IPv4 address or a DNS name,
	// and a port. Without TLS it must not be reachable by anyone else.
	RaftAddress string
	// ListenAddress is where to listen, if it is not RaftAddress.
	ListenAddress string
	// InitialMembers are the first members of a new cluster, by replica id; the
	// same on each of them and at each restart. Empty and not joining: this
	// replica alone.
	InitialMembers map[uint64]string
	// Join starts a replica that was added to a running cluster. It stays set at
	// restarts.
	Join bool
	// NonVoting starts a replica that was added by AddNonVoting. It stays set at
	// restarts, also after a promotion.
	NonVoting bool
	// DeploymentID keeps clusters apart: replicas of another one are not heard.
	DeploymentID uint64
	// CAFile, CertFile and KeyFile turn on mutual TLS between replicas. Any
	// certificate of the CA is accepted, so the CA signs for nothing else. Files that
	// are replaced count from the next connection on, a second later at most.
	CAFile, CertFile, KeyFile string

	// InFlightBytesMax bounds what is proposed here and not resolved; beyond it
	// proposals are refused as overloaded. Default InFlightBytesDefault.
	InFlightBytesMax int64
	// SnapshotBytes of applied entries, or an eighth of it when nothing is going on, or
	// SnapshotEvery with at least one entry applied, lead to a snapshot. Defaults
	// SnapshotBytesDefault, SnapshotEveryDefault; negative values turn that trigger off.
	SnapshotBytes int64
	SnapshotEvery time.Duration
	// SnapshotKeepEntries stay in the log behind a snapshot, for replicas that are
	// a little behind, or as many as are held in memory for them (32 MiB), if that is
	// fewer. Default SnapshotKeepEntriesDefault.
	SnapshotKeepEntries uint64
	// DiskReserveBytes stay free for the log: a snapshot that would take them is
	// abandoned. Default DiskReserveBytesDefault.
	DiskReserveBytes int64
	// Timing defaults to SingleNodeTiming for a replica alone and not joining, else
	// to MultiNodeTiming. A cluster that grew from one replica sets it.
	Timing Timing
	// Logger gets what this replica has to say. Default: nowhere. What dragonboat
	// says is process-wide: see InstallLogger.
	Logger *slog.Logger

	// FS is the file system, for tests. Default: the real one.
	FS vfs.FS
	// logDB replaces the log, for tests and measurements.
	logDB config.LogDBFactory
}

func (cfg *DragonboatConfig) validate() error {
	switch {
	case cfg.Dir == "":
		return messages.InvalidField("dir", "a directory is needed")
	case cfg.ReplicaID == 0:
		return messages.InvalidField("replica_id", "replica ids start at 1")
	case !config.IsValidAddress(cfg.RaftAddress):
		return messages.InvalidField("raft_address", "%q is not an IPv4 address or DNS name with a port", cfg.RaftAddress)
	case cfg.ListenAddress != "" && !config.IsValidAddress(cfg.ListenAddress):
		return messages.InvalidField("listen_address", "%q is not an IPv4 address or DNS name with a port", cfg.ListenAddress)
	case cfg.Join && len(cfg.InitialMembers) > 0:
		return messages.InvalidField("join", "a joining replica has no initial members")
	case cfg.NonVoting && !cfg.Join:
		return messages.InvalidField("non_voting", "only a joining replica can be non-voting")
	}
	if n := len(cfg.InitialMembers); n > 0 {
		if cfg.InitialMembers[cfg.ReplicaID] != cfg.RaftAddress {
			return messages.InvalidField("initial_members", "they do not hold replica %d at %s", cfg.ReplicaID, cfg.RaftAddress)
		}
		for id, address := range cfg.InitialMembers {
			if id == 0 || !config.IsValidAddress(address) {
				return messages.InvalidField("initial_members", "replica %d at %q is not valid", id, address)
			}
		}
	}
	if files := []string{cfg.CAFile, cfg.CertFile, cfg.KeyFile}; cfg.tls() {
		for i, name := range []string{"ca_file", "cert_file", "key_file"} {
			if files[i] == "" {
				return messages.InvalidField(name, "mutual TLS needs CA, certificate and key")
			}
		}
	}
	if t := cfg.Timing; t != (Timing{}) {
		if t.RTT < time.Millisecond || t.HeartbeatTicks == 0 || t.ElectionTicks <= 2*t.HeartbeatTicks {
			return messages.InvalidField("timing", "%+v: the tick is at least 1 ms and an election takes more than two heartbeats", t)
		}
	}
	return nil
}

func (cfg *DragonboatConfig) tls() bool {
	return cfg.CAFile != "" || cfg.CertFile != "" || cfg.KeyFile != ""
}

func (cfg *DragonboatConfig) setDefaults() {
	if len(cfg.InitialMembers) == 0 && !cfg.Join {
		cfg.InitialMembers = map[uint64]string{cfg.ReplicaID: cfg.RaftAddress}
	}
	if cfg.Timing == (Timing{}) {
		cfg.Timing = MultiNodeTiming
		if len(cfg.InitialMembers) == 1 {
			cfg.Timing = SingleNodeTiming
		}
	}
	if cfg.InFlightBytesMax == 0 {
		cfg.InFlightBytesMax = InFlightBytesDefault
	}
	if cfg.SnapshotBytes == 0 {
		cfg.SnapshotBytes = SnapshotBytesDefault
	}
	if cfg.SnapshotEvery == 0 {
		cfg.SnapshotEvery = SnapshotEveryDefault
	}
	if cfg.SnapshotKeepEntries == 0 {
		cfg.SnapshotKeepEntries = SnapshotKeepEntriesDefault
	}
	if cfg.DiskReserveBytes == 0 {
		cfg.DiskReserveBytes = DiskReserveBytesDefault
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.FS == nil {
		cfg.FS = spreadFS{vfs.Default}
	}
}

// nodeHost returns the settings of the process's part. Log type, ExecShards,
// LogDB.Shards and RaftAddress are written into the directory: changing one makes
// every existing directory unusable.
func (cfg *DragonboatConfig) nodeHost(peers config.TransportFactory, listener raftio.IRaftEventListener) config.NodeHostConfig {
	// Tan allocates 16 buffers of KVWriteBufferSize, which with the default preset
	// are 2 GiB of heap. It uses one of them, and what is larger than it gets its own:
	// the others are never touched, but the collector counts them as heap that lives.
	logDB := config.GetTinyMemLogDBConfig()
	logDB.Shards, logDB.KVWriteBufferSize = 1, 1<<20
	return config.NodeHostConfig{
		DeploymentID:      cfg.DeploymentID,
		NodeHostDir:       cfg.Dir,
		RTTMillisecond:    uint64(cfg.Timing.RTT / time.Millisecond),
		RaftAddress:       cfg.RaftAddress,
		ListenAddress:     cfg.ListenAddress,
		MutualTLS:         cfg.tls(),
		CAFile:            cfg.CAFile,
		CertFile:          cfg.CertFile,
		KeyFile:           cfg.KeyFile,
		RaftEventListener: listener,
		EnableMetrics:     true,
		Expert: config.ExpertConfig{
			TransportFactory: peers,
			LogDBFactory:     cfg.logDB,
			LogDB:            logDB,
			FS:               cfg.FS,
			Engine: config.EngineConfig{
				ExecShards: 1, CommitShards: 1, ApplyShards: 1,
				SnapshotShards: 2, CloseShards: 1,
			},
		},
	}
}

// replica returns the settings of the Raft group. MaxInMemLogSize stays unset: it
// is a brake, not back-pressure (once tripped, every write fails for seconds), so
// the bytes in flight are bounded before dragonboat sees them.
func (cfg *DragonboatConfig) replica() config.Config {
	return config.Config{
		ReplicaID:           cfg.ReplicaID,
		ShardID:             shardID,
		ElectionRTT:         cfg.Timing.ElectionTicks,
		HeartbeatRTT:        cfg.Timing.HeartbeatTicks,
		CheckQuorum:         true,
		PreVote:             true,
		OrderedConfigChange: true,
		SnapshotEntries:     0,
		CompactionOverhead:  cfg.SnapshotKeepEntries,
		IsNonVoting:         cfg.NonVoting,
		WaitReady:           true,
	}
}
