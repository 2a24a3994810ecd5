package field

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// literals draws number literals that crowd around each other and the limits.
func literals() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		if rapid.Bool().Draw(t, "negative") {
			b.WriteByte('-')
		}
		b.WriteString(rapid.SampledFrom([]string{"0", "1", "9", "10", "99", "100", "9007199254740992", "9007199254740993", strings.Repeat("9", 63)}).Draw(t, "whole"))
		if rapid.Bool().Draw(t, "fraction") {
			b.WriteByte('.')
			b.WriteString(rapid.StringMatching(`0{0,3}[0-9]{1,4}0{0,3}`).Draw(t, "digits"))
		}
		if rapid.Bool().Draw(t, "exponent") {
			fmt.Fprintf(&b, "e%d", rapid.OneOf(rapid.IntRange(-3, 3), rapid.IntRange(-1002, 1002)).Draw(t, "e"))
		}
		return b.String()
	})
}

// documents draws JSON texts, now and then broken ones.
func documents(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		if depth == 0 && kind > 3 {
			kind = 0
		}
		switch kind {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
		case 1:
			return literals().Draw(t, "number")
		case 2, 3:
			return quoted().Draw(t, "string")
		case 4:
			return "[" + strings.Join(rapid.SliceOfN(documents(depth-1), 0, 3).Draw(t, "elements"), " ,") + "]"
		}
		var members []string
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			members = append(members, quoted().Draw(t, "name")+": "+documents(depth-1).Draw(t, "value"))
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

func quoted() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return `"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", `\u0000`, `\u0061`, `\u0001`, "é", `\u00e9`, `\ud83d\ude00`, "😀", `\ud83d`, `\n`, "\x7f"}), 0, 3).Draw(t, "chars"), "") + `"`
	})
}

func TestRandomNumbersAgree(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		agree(t, []byte(literals().Draw(r, "a")), []byte(literals().Draw(r, "b")))
	})
}

func TestRandomDocumentsAgree(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		agree(t, []byte(documents(3).Draw(r, "a")), []byte(documents(3).Draw(r, "b")))
	})
}
