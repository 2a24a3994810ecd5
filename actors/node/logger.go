package node

import (
	"log/slog"

	"github.com/concord-kv/concord/consensus"
)

// InstallLogger sends what the consensus library logs to l. It is for the whole
// process, so only a main calls it, once, before the first node starts.
func InstallLogger(l *slog.Logger) { consensus.InstallLogger(l) }

// ErrDamaged is in the chain of an error about what is on the disk: starting again does
// not help, the error says what does.
var ErrDamaged = consensus.ErrDamaged

// OnFailStop sets what ends the process when the consensus library stops for a reason
// that an operator can do something about; see consensus.OnFailStop. Only a main function
// calls it.
func OnFailStop(f func(error)) { consensus.OnFailStop(f) }
