package bench

import (
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are recorded in microseconds from 1 us to 2 minutes with three
// significant digits.
const (
	latencyMinUs  = 1
	latencyMaxUs  = 120_000_000
	latencyDigits = 3
)

// latencies is a histogram that many clients add to.
type latencies struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram
}

func newLatencies() *latencies {
	return &latencies{hist: hdrhistogram.New(latencyMinUs, latencyMaxUs, latencyDigits)}
}

// report writes the quantiles into m.
func (l *latencies) report(m *Measure) {
	h := l.hist
	m.MeanUs, m.MaxUs = h.Mean(), h.Max()
	m.P50Us, m.P90Us, m.P99Us, m.P999Us = h.ValueAtQuantile(50), h.ValueAtQuantile(90), h.ValueAtQuantile(99), h.ValueAtQuantile(99.9)
}

// sampleSize is how many latencies a client keeps before it adds them.
const sampleSize = 256

// sample is what one client has measured and not yet added. A histogram for each of a
// thousand clients is tens of megabytes that push everything else out of the cache: it
// took a thirtieth of the time of a run.
type sample struct {
	to *latencies
	n  int
	us [sampleSize]uint32
}

func (s *sample) add(us int64) {
	s.us[s.n] = uint32(min(max(us, latencyMinUs), latencyMaxUs))
	if s.n++; s.n == sampleSize {
		s.flush()
	}
}

func (s *sample) flush() {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	for _, us := range s.us[:s.n] {
		_ = s.to.hist.RecordValue(int64(us))
	}
	s.n = 0
}
