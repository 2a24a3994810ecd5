package state

import "strconv"

// ownKey is a user's idempotency key in the table. A client's own keys cannot look like
// it: the session refuses a leading NUL.
func ownKey(userID uint64, key string) string {
	return "\x00" + strconv.FormatUint(userID, 36) + "\x00" + key
}
