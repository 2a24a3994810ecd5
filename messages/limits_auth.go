package messages

// Limits of authorization.
const (
	UserNameBytesMax     = 256
	UsersMax             = 10_000
	RolesMax             = 1_000
	RolesPerUserMax      = 64
	GrantsPerRoleMax     = 256
	PasswordBytesMin     = 8
	PasswordBytesMax     = 256
	PasswordHashBytesMax = 256
	// PasswordRounds is what new passwords are hashed with; a hash of fewer than the
	// least, or of more than the most, is refused: it would be weak, or a way to keep
	// nodes busy.
	PasswordRounds    = 210_000
	PasswordRoundsMin = 10_000
	PasswordRoundsMax = 2_000_000
	TokenKeyBytes     = 32
	TokenTTLDefaultMs = 3_600_000
	TokenTTLMinMs     = 1_000
	TokenTTLMaxMs     = 90 * 24 * 3_600_000
	TokenBytesMax     = 2_048

	// ConnectionsPerNodeDefault is how many clients a node takes unless told otherwise.
	ConnectionsPerNodeDefault = 10_000

	AuditRecordsDefault = 100_000
	AuditAgeDefaultMs   = 90 * 24 * 3_600_000
	AuditDetailBytesMax = 1_024
	AuditActionBytesMax = 64

	// RootRole is built in: it has every right.
	RootRole = "root"
)
