package node

import (
	"log/slog"

	"github.com/concord-kv/concord/consensus"
)

// InstallLogger sends what the consensus library logs to l. It is for the whole
// process, so only a main calls it, once, before the first node starts.
func InstallLogger(l *slog.Logger) { consensus.InstallLogger(l) }
