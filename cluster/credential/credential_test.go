package credential

import (
	"strings"
	"testing"

	"github.com/concord-kv/concord/messages"
)

func TestPassword(t *testing.T) {
	hash, err := HashPassword("correct horse", messages.PasswordRoundsMin)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := HashPassword("correct horse", messages.PasswordRoundsMin)
	if hash == again {
		t.Error("two hashes have one salt")
	}
	if !CheckPassword(hash, "correct horse") || CheckPassword(hash, "Correct horse") || CheckPassword("", "correct horse") {
		t.Error("the wrong passwords are accepted or refused")
	}
	if _, _, _, ok := messages.ParsePasswordHash(hash); !ok {
		t.Errorf("%q is refused by the validator", hash)
	}
	if _, err := HashPassword("short", messages.PasswordRoundsMin); messages.DetailOf(err).GetField() != "password" {
		t.Errorf("a short password: %v", err)
	}
}

// TestToken: a token is good for what it says and nothing else, and no byte of it may
// be changed.
func TestToken(t *testing.T) {
	key, id := []byte(strings.Repeat("k", 32)), []byte("cluster")
	claims := &messages.TokenClaims{
		ClusterId: id, Incarnation: 3, User: "ann", UserId: 7, CredentialRevision: 2, IssuedUnixMs: 500, ExpiresUnixMs: 1_000,
	}
	token, err := SignToken(key, claims)
	if err != nil {
		t.Fatal(err)
	}
	if c, e := ParseToken(key, token, id, 3, 999); e != nil || c.GetUser() != "ann" || c.GetUserId() != 7 {
		t.Fatalf("%v, %v", c, e)
	}
	for name, f := range map[string]func() *messages.Error{
		"run out":             func() *messages.Error { _, e := ParseToken(key, token, id, 3, 1_000); return e },
		"another cluster":     func() *messages.Error { _, e := ParseToken(key, token, []byte("other"), 3, 0); return e },
		"another incarnation": func() *messages.Error { _, e := ParseToken(key, token, id, 4, 0); return e },
		"another key":         func() *messages.Error { _, e := ParseToken([]byte("other"), token, id, 3, 0); return e },
		"no key":              func() *messages.Error { _, e := ParseToken(nil, token, id, 3, 0); return e },
		"nothing":             func() *messages.Error { _, e := ParseToken(key, "", id, 3, 0); return e },
	} {
		if e := f(); e.Code() != messages.Code_CODE_UNAUTHENTICATED {
			t.Errorf("%s: %v", name, e)
		}
	}
	for i := range token {
		for _, c := range []byte{'A', 'B', '.', '-'} {
			if token[i] == c {
				continue
			}
			bad := token[:i] + string(c) + token[i+1:]
			if _, e := ParseToken(key, bad, id, 3, 0); e == nil {
				t.Fatalf("accepted with byte %d changed to %q", i, c)
			}
		}
	}
}
