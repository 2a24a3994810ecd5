package clustertest

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/concord-kv/concord/consensus"
)

// What a loss of power leaves of the record that was being written. Nothing of it was
// acknowledged by the member, but it may have told others that it holds it.
func init() {
	Faults = append(Faults,
		Fault{Name: "torn-log", Long: true, Do: func(c *Cluster, w *Workload, r *rand.Rand) {
			// A sector in the middle of the record was not written: it refuses to start and
			// says that it is to be replaced.
			m := one(r, c.Followers())
			tear(c, w, r, m, true)
			m.Start()
			select {
			case <-m.Exited():
			case <-time.After(time.Minute):
				c.t.Errorf("node %d goes on with a torn log", m.ID)
			}
			m.Kill() // takes note that it is gone
			if !strings.Contains(m.Output(), "the last record was cut off by a loss of power") {
				c.t.Errorf("node %d with a torn log says: %s", m.ID, tail(m.Output(), 1_000))
			}
			c.Replace(m.ID, c.NewID())
		}},
		Fault{Name: "cut-short-log", Long: true, Do: func(c *Cluster, w *Workload, r *rand.Rand) {
			// The file ends in the middle of the record: it is dropped, and the member goes on.
			m := one(r, c.Followers())
			tear(c, w, r, m, false)
			m.Start()
		}},
	)
}

// tear kills a member and adds a part of a record to the end of its log.
func tear(c *Cluster, w *Workload, r *rand.Rand, m *Member, gap bool) {
	c.t.Helper()
	m.Kill()
	w.WaitWrites(writesMeanwhile)
	end, err := consensus.CheckTail(nil, m.Dir)
	if err != nil || end.State != consensus.TailIntact {
		c.t.Fatalf("the log of node %d: %+v, %v", m.ID, end, err)
	}
	const block, header, sector = 32 << 10, 7, 512
	again := func() { // after more writes the end is elsewhere
		c.t.Helper()
		m.Start()
		c.WaitServing()
		tear(c, w, r, m, gap)
	}
	if end.File == "" { // killed between two files
		again()
		return
	}
	at := end.IntactBytes
	if left := block - at%block; left < header {
		at += left
	}
	length := block - at%block // as a record that goes on in the next block
	part := make([]byte, length)
	for i := range part {
		part[i] = byte(1 + r.IntN(255))
	}
	binary.LittleEndian.PutUint16(part[4:], uint16(length-header))
	part[6] = 2 // the first chunk of it
	switch {
	case gap && length < 3*sector: // too near the end of the block
		again()
		return
	case gap:
		from := (at/sector+2)*sector - at
		clear(part[from : from+sector])
	default:
		part = part[:header+(length-header)/2]
	}
	f, err := os.OpenFile(end.File, os.O_RDWR, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if !gap {
		err = f.Truncate(at) // zeros may have been laid out before
	}
	if err == nil {
		_, err = f.WriteAt(part, at)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
