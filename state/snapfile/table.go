package snapfile

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// Table is the kind of a row: its tag in messages.SnapshotRow.
type Table int

// The tables of a snapshot, in the order of the file.
const (
	tableNone        Table = 0
	TableHeader      Table = 1
	TableFloor       Table = 2
	TableEvent       Table = 3
	TableCurrent     Table = 4
	TableLease       Table = 5
	TableSession     Table = 6
	TableIdempotency Table = 7
	TableCursor      Table = 8
	TableReport      Table = 9
	TableIndex       Table = 10
	TableSample      Table = 11
	TableAuth        Table = 12
	TableAudit       Table = 13
	TableFooter      Table = 15
)

var tableNames = map[Table]string{
	TableHeader: "header", TableFloor: "floor", TableEvent: "event", TableCurrent: "current",
	TableLease: "lease", TableSession: "session", TableIdempotency: "idempotency",
	TableCursor: "cursor", TableReport: "report", TableIndex: "index", TableSample: "sample", TableAuth: "auth", TableAudit: "audit",
	TableFooter: "footer",
}

func (t Table) String() string {
	if name, ok := tableNames[t]; ok {
		return name
	}
	return fmt.Sprintf("table %d", int(t))
}

// TableOf returns the table of a row, 0 for a row of no table that is known here.
func TableOf(r *messages.SnapshotRow) Table {
	switch r.GetRow().(type) {
	case *messages.SnapshotRow_Header:
		return TableHeader
	case *messages.SnapshotRow_Floor:
		return TableFloor
	case *messages.SnapshotRow_Event:
		return TableEvent
	case *messages.SnapshotRow_Current:
		return TableCurrent
	case *messages.SnapshotRow_Lease:
		return TableLease
	case *messages.SnapshotRow_Session:
		return TableSession
	case *messages.SnapshotRow_Idempotency:
		return TableIdempotency
	case *messages.SnapshotRow_Cursor:
		return TableCursor
	case *messages.SnapshotRow_Report:
		return TableReport
	case *messages.SnapshotRow_Index:
		return TableIndex
	case *messages.SnapshotRow_Sample:
		return TableSample
	case *messages.SnapshotRow_Auth:
		return TableAuth
	case *messages.SnapshotRow_Audit:
		return TableAudit
	case *messages.SnapshotRow_Footer:
		return TableFooter
	}
	return tableNone
}

// follows says why a row of table next may not follow one of table last, "" if it
// may. The first row follows tableNone.
func follows(last, next Table) string {
	switch {
	case next == tableNone:
		return "a row of no known table"
	case last == tableNone && next != TableHeader:
		return fmt.Sprintf("the first row is of table %v, not the header", next)
	case last == TableHeader && next == TableHeader:
		return "a second header"
	case next < last:
		return fmt.Sprintf("a row of table %v after one of %v", next, last)
	case last == TableFooter:
		return "a row after the footer"
	}
	return ""
}
