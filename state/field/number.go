package field

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// A number other than zero is 0.d1d2d3... times ten to the exponent, d1 not zero and
// no zero at the end: one form for each value. The exponent of a literal within
// the limits lies within ±(NumberExponentMax + NumberDigitsMax).
const exponentBias = 0x4000

// checkNumber refuses a JSON number literal beyond the limits. It counts what is
// written, so that the rule needs no arithmetic: 0.10 has three digits.
func checkNumber[T ~string | ~[]byte](lit T) error {
	digits, i := 0, 0
	for ; i < len(lit) && lit[i]|0x20 != 'e'; i++ {
		if isDigit(lit[i]) {
			digits++
		}
	}
	if digits > messages.NumberDigitsMax {
		return fmt.Errorf("number of %d digits, more than %d", digits, messages.NumberDigitsMax)
	}
	exp := 0
	for ; i < len(lit); i++ {
		if !isDigit(lit[i]) {
			continue
		}
		exp = exp*10 + int(lit[i]-'0')
		if exp > messages.NumberExponentMax {
			return fmt.Errorf("number with an exponent beyond %d", messages.NumberExponentMax)
		}
	}
	return nil
}

// appendNumber encodes a JSON number literal that checkNumber accepts.
func appendNumber(dst []byte, lit string) []byte {
	negative := lit[0] == '-'
	if negative {
		lit = lit[1:]
	}
	var digits [messages.NumberDigitsMax + 1]byte // one more: pairs are padded with a zero
	n := 0
	exp, point := 0, false
	i := 0
	for ; i < len(lit) && lit[i]|0x20 != 'e'; i++ {
		c := lit[i]
		switch {
		case c == '.':
			point = true
			continue
		case n == 0 && c == '0': // leading: worth nothing
			if point {
				exp--
			}
			continue
		}
		digits[n] = c - '0'
		n++
		if !point {
			exp++
		}
	}
	if n == 0 {
		return append(dst, tagZero)
	}
	exp += exponentOf(lit[i:])
	for digits[n-1] == 0 {
		n--
	}

	tag, flip := byte(tagPositive), byte(0)
	if negative {
		tag, flip = tagNegative, 0xFF
	}
	biased := uint16(exp + exponentBias)
	dst = append(dst, tag, byte(biased>>8)^flip, byte(biased)^flip)
	digits[n] = 0
	for d := 0; d < n; d += 2 {
		dst = append(dst, (digits[d]*10+digits[d+1]+1)^flip)
	}
	return append(dst, flip)
}

// exponentOf returns the value of the exponent part of a literal: "", "e10", "E-03".
func exponentOf(s string) int {
	exp, negative := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '-':
			negative = true
		case isDigit(c):
			exp = exp*10 + int(c-'0')
		}
	}
	if negative {
		return -exp
	}
	return exp
}

func isDigit(c byte) bool { return c-'0' < 10 }
