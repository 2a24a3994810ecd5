// Package credential makes and checks what says who a client is: hashes of passwords,
// and tokens.
package credential

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"

	"github.com/concord-kv/concord/messages"
)

const (
	saltBytes = 16
	hashBytes = 32
)

// HashPassword returns what is stored of a password: with a salt of its own, so slow to
// compute that guessing is dear. rounds 0 is messages.PasswordRounds. It takes about a
// tenth of a second. Refused, by the field password, are passwords that are too short or
// too long.
func HashPassword(password string, rounds int) (string, error) {
	if n := len(password); n < messages.PasswordBytesMin || n > messages.PasswordBytesMax {
		return "", messages.InvalidField("password", "%d bytes, %d to %d", n, messages.PasswordBytesMin, messages.PasswordBytesMax)
	}
	if rounds == 0 {
		rounds = messages.PasswordRounds
	}
	salt := make([]byte, saltBytes)
	rand.Read(salt) // never fails
	key, err := pbkdf2.Key(sha256.New, password, salt, rounds, hashBytes)
	if err != nil {
		return "", err
	}
	enc := base64.RawStdEncoding
	return fmt.Sprintf("%s$%d$%s$%s", messages.PasswordScheme, rounds, enc.EncodeToString(salt), enc.EncodeToString(key)), nil
}

// CheckPassword reports whether a hash is of this password. It takes as long as
// HashPassword, whatever the answer.
func CheckPassword(hash, password string) bool {
	rounds, salt, want, ok := messages.ParsePasswordHash(hash)
	if !ok {
		// As slow as for a user who exists: how long it takes must not tell.
		rounds, salt, want = messages.PasswordRounds, make([]byte, saltBytes), make([]byte, hashBytes)
	}
	key, err := pbkdf2.Key(sha256.New, password, salt, rounds, len(want))
	return subtle.ConstantTimeCompare(key, want) == 1 && err == nil && ok
}
