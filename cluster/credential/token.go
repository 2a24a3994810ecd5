package credential

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// tokenPrefix begins every token, so that one is known for what it is in a log or a
// repository.
const tokenPrefix = "cct1."

// A token is its claims and HMAC-SHA256 of them, under a key that the cluster
// replicates. A signature with a pair of keys would gain nothing: every node issues
// tokens, so every node would hold the private key.

// SignToken returns a token that makes these claims.
func SignToken(key []byte, c *messages.TokenClaims) (string, error) {
	claims, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	return tokenPrefix + enc.EncodeToString(claims) + "." + enc.EncodeToString(sign(key, claims)), nil
}

func sign(key, claims []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(tokenPrefix))
	h.Write(claims)
	return h.Sum(nil)
}

// ParseToken returns what a token claims, if it was signed with this key for this
// cluster and has not run out. Anything else is unauthenticated.
func ParseToken(key []byte, token string, clusterID []byte, incarnation uint64, nowUnixMs int64) (*messages.TokenClaims, *messages.Error) {
	bad := func(why string) (*messages.TokenClaims, *messages.Error) {
		return nil, messages.NewError(messages.Code_CODE_UNAUTHENTICATED, "%s", why).WithField("credentials.token")
	}
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	claims64, signature64, two := strings.Cut(rest, ".")
	if !ok || !two || len(token) > messages.TokenBytesMax || len(key) == 0 {
		return bad("this is no token")
	}
	enc := base64.RawURLEncoding.Strict()
	claims, err := enc.DecodeString(claims64)
	signature, err2 := enc.DecodeString(signature64)
	if err != nil || err2 != nil || !hmac.Equal(signature, sign(key, claims)) {
		return bad("the token was not signed by this cluster, or tokens were revoked")
	}
	c := &messages.TokenClaims{}
	switch err := proto.Unmarshal(claims, c); {
	case err != nil || !bytes.Equal(c.GetClusterId(), clusterID) || c.GetIncarnation() != incarnation:
		return bad("the token is of another cluster, or of the time before a restore")
	case c.GetExpiresUnixMs() <= nowUnixMs:
		return bad("the token has run out")
	}
	return c, nil
}
