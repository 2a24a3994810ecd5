package state

import (
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// answerBudget bounds the records in one answer to AnswerBytesMax; the first one
// always fits.
type answerBudget struct {
	bytes int
	any   bool
}

func newAnswerBudget() *answerBudget { return &answerBudget{} }

// fits counts a record, or reports that it does not fit any more.
func (b *answerBudget) fits(r store.Rec, keysOnly bool) bool {
	return b.fitsBytes(shownBytes(r, keysOnly))
}

func (b *answerBudget) fitsBytes(n int) bool {
	if b.any && b.bytes+n > messages.AnswerBytesMax {
		return false
	}
	b.any = true
	b.bytes += n
	return true
}

// take refuses a command whose answer would be too large: half an answer would hide
// what was deleted.
func (b *answerBudget) take(r store.Rec) *messages.Error {
	if b.fits(r, false) {
		return nil
	}
	return messages.NewError(messages.Code_CODE_TOO_LARGE, "the replaced records are more than %d bytes", messages.AnswerBytesMax).
		WithField("prev_kv").WithLimit(messages.AnswerBytesMax)
}

// shownBytes is what a record counts towards the size of an answer.
func shownBytes(r store.Rec, keysOnly bool) int {
	n := int(r.LogicalBytes())
	if keysOnly {
		n -= len(r.Value())
	}
	return n
}
