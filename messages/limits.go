package messages

// Limits that hold for every cluster, whatever its configuration. Limits that an
// operator may change are fields of ClusterConfig; DefaultClusterConfig has their
// defaults.
const (
	KeyBytesMax = 4096

	MetadataEntriesMax   = 64
	MetadataBytesMax     = 16 << 10
	MetadataNameBytesMax = 1024
	ContentTypeBytesMax  = 256

	// ValueBytesCeiling bounds ClusterConfig.value_bytes_max.
	ValueBytesCeiling = 16 << 20

	CommandKeysMax = 10_000 // keys that one command may change

	PutManyPutsMax     = 500
	GetManyKeysMax     = 10_000
	ListLimitDefault   = 1_000
	ListLimitMax       = 10_000
	AnswerBytesMax     = 1 << 20 // get_many, list, history and changes end here
	ChangesScanMax     = 10_000  // events that one changes call looks at
	TxnComparesMax     = 64
	TxnOperationsMax   = 128 // in one branch
	TxnGetLimitMax     = 1_000
	TxnOverheadBytes   = 64 << 10 // a transaction may be this much larger than a value
	IdempotencyKeyMax  = 256      // bytes
	LabelBytesMax      = 256
	NameBytesMax       = 256 // names of indexes and cursors
	FieldPathDepthMax  = 64
	FieldNameBytesMax  = 1024
	JSONDepthMax       = 64
	NumberDigitsMax    = 64
	NumberExponentMax  = 1000
	ExpireLeasesMax    = 50     // pairs in one ExpireLeases
	IndexStepKeysMax   = 10_000 // keys that one StepIndex reads
	ProtectedPrefixMax = 64

	LeaseTTLMaxMs      = 10 * 365 * 24 * 3_600_000 // ten years
	LeaseTTLFloorMs    = 100                       // lowest lease_ttl_min_ms
	SessionTTLMaxMs    = 24 * 3_600_000
	ProtocolVersion    = 1
	ApplyVersionMin    = 1 // what a node that says nothing can apply
	ApplyVersion       = 2 // the rules that this build can apply: state/versions.go
	SnapshotVersion    = 2
	EntryCommandsMax   = 512     // commands in one log entry
	EntryBytesMax      = 1 << 20 // a single larger command travels alone
	FrameOperationsMax = 64
	FrameBytesMax      = 256 << 10

	WatchCreditEventsDefault  = 1_000
	WatchCreditBytesDefault   = 8 << 20
	WatchCreditEventsMax      = 1_000_000
	WatchCreditBytesMax       = 64 << 20
	WatchFragmentEventsMax    = 1_000
	WatchFragmentBytesMax     = 1 << 20
	WatchProgressMsMin        = 100
	WatchProgressMsMax        = 600_000
	WatchProgressMsDefault    = 1_000
	WatchSlowConsumerMs       = 30_000 // no credit for this long while behind ends a watch
	RequestTimeoutMsDefault   = 5_000
	RequestTimeoutMsMax       = 600_000
	ClientNameBytesMax        = 256
	PositionOpIndexEnd        = ^uint32(0) // after every event of a revision
	RevisionMax               = 1<<63 - 1  // revisions fit a signed 64-bit integer
	SessionSequenceWindowMax  = 1_024      // default of session_answers_max
	WatchersPerNodeDefault    = 10_000
	WatchersPerClientDefault  = 100
	CallsPerConnectionDefault = 4_096
	HeartbeatMs               = 1_000
	HeartbeatsMissedMax       = 5
)

// DefaultClusterConfig returns the configuration that a new cluster starts with.
func DefaultClusterConfig() *ClusterConfig {
	return &ClusterConfig{
		ValueBytesMax:         1 << 20,
		LeasesMax:             100_000,
		LeaseKeysMax:          10_000,
		LeaseTtlMinMs:         1_000,
		LeaseTtlMaxMs:         LeaseTTLMaxMs,
		RetentionRevisions:    1_000_000,
		RetentionMs:           24 * 3_600_000,
		ConsumerLagMax:        1_000_000,
		QuotaBytes:            2 << 30,
		IdempotencyEntriesMax: 100_000,
		IdempotencyAgeMs:      10 * 60_000,
		SessionsMax:           100_000,
		SessionAnswersMax:     SessionSequenceWindowMax,
		CursorsMax:            10_000,
		IndexesMax:            64,
		IndexEntriesPerKeyMax: 1_024,
	}
}
