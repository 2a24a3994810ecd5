package node

import (
	"crypto/sha256"
	"crypto/subtle"
	"os"
	"path/filepath"
	"strings"
)

// RecoveryFile is the file in a node's data directory whose content, shown as
// credentials, opens everything: whoever may write there owns the node. It counts for a
// quarter of an hour, and only while nobody else may read it. `concord auth recover`
// makes it and removes it.
const RecoveryFile = "auth-recovery"

const (
	recoveryMs       = 15 * 60_000
	recoveryBytesMin = 32
	recoveryBytesMax = 256
)

// recovers reports whether a secret is the one in the data directory.
func (n *Node) recovers(secret []byte) bool {
	if n.cfg.Dir == "" {
		return false
	}
	path := filepath.Join(n.cfg.Dir, RecoveryFile)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() > recoveryBytesMax {
		return false
	}
	if age := n.cfg.Clock.WallMs() - info.ModTime().UnixMilli(); age > recoveryMs || age < -recoveryMs {
		return false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	want := strings.TrimSpace(string(text))
	if len(want) < recoveryBytesMin {
		return false
	}
	a, b := sha256.Sum256([]byte(want)), sha256.Sum256(secret)
	same := subtle.ConstantTimeCompare(a[:], b[:]) == 1
	n.cfg.Logger.Warn("a client has shown a recovery secret", "accepted", same)
	return same
}
