package snapfile

import (
	"testing"

	"go.uber.org/goleak"
)

// Neither reader nor writer may leave a goroutine of the compressor behind, also when
// nobody closes them.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
