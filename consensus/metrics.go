package consensus

import (
	"fmt"
	"io"

	"github.com/lni/dragonboat/v4"
)

// WriteMetrics writes what dragonboat counts, in the Prometheus text format: terms,
// leaders, elections, dropped proposals and the like, labelled by replica, and
// how many messages the transports kept from it. It covers all replicas of the process.
func WriteMetrics(w io.Writer) {
	dragonboat.WriteHealthMetrics(w)
	fmt.Fprintf(w, "# TYPE concord_raft_refused_messages_total counter\nconcord_raft_refused_messages_total %d\n", refusedMessages.Load())
}
