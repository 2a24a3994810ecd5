package consensus

import (
	"io"

	"github.com/lni/dragonboat/v4"
)

// WriteMetrics writes what dragonboat counts, in the Prometheus text format: terms,
// leaders, elections, dropped proposals and the like, labelled by replica. It
// covers all replicas of the process.
func WriteMetrics(w io.Writer) { dragonboat.WriteHealthMetrics(w) }
