package field

import (
	"strconv"

	"github.com/concord-kv/concord/messages"
	"github.com/go-json-experiment/json/jsontext"
)

// JSON returns v as JSON text in one form for each value: members sorted by name, no
// white space, numbers in their shortest exact form. Parsing it gives v again,
// unless v holds a string that is not valid UTF-8, where U+FFFD stands for what
// is not.
func (v Value) JSON() string {
	text, _ := appendJSON(nil, string(v))
	return string(text)
}

// appendJSON appends the value that s begins with and returns what follows it. Of
// bytes that are no encoding it makes null, and takes all of them.
func appendJSON(dst []byte, s string) ([]byte, string) {
	n := Len(s)
	if n < 0 {
		return append(dst, "null"...), ""
	}
	v, rest := s[:n], s[n:]
	switch v[0] {
	case tagFalse:
		return append(dst, "false"...), rest
	case tagTrue:
		return append(dst, "true"...), rest
	case tagZero:
		return append(dst, '0'), rest
	case tagNegative, tagPositive:
		return appendLiteral(dst, v), rest
	case tagString:
		return appendJSONString(dst, v), rest
	case tagArray:
		dst = append(dst, '[')
		for v = v[1:]; v[0] != tagEnd; {
			if dst, v = appendJSON(dst, v); v[0] != tagEnd {
				dst = append(dst, ',')
			}
		}
		return append(dst, ']'), rest
	case tagObject:
		dst = append(dst, '{')
		for v = v[1:]; v[0] != tagEnd; {
			dst, v = appendJSON(dst, v)
			dst = append(dst, ':')
			if dst, v = appendJSON(dst, v); len(v) > 0 && v[0] != tagEnd {
				dst = append(dst, ',')
			}
		}
		return append(dst, '}'), rest
	}
	return append(dst, "null"...), rest
}

func appendJSONString(dst []byte, v string) []byte {
	raw := make([]byte, 0, len(v))
	for i := 1; i < len(v)-2; i++ {
		raw = append(raw, v[i])
		if v[i] == 0 {
			i++ // the escape byte
		}
	}
	dst, _ = jsontext.AppendQuote(dst, raw)
	return dst
}

// appendLiteral writes a number other than zero. It keeps to the limits on digits
// and exponent wherever the value has such a form, and every value that was
// parsed has one.
func appendLiteral(dst []byte, v string) []byte {
	var flip byte
	if v[0] == tagNegative {
		flip = 0xFF
		dst = append(dst, '-')
	}
	exp := int(v[1]^flip)<<8 + int(v[2]^flip) - exponentBias
	var digits []byte
	for i := 3; i < len(v)-1; i++ {
		pair := v[i] ^ flip - 1
		digits = append(digits, '0'+pair/10, '0'+pair%10)
	}
	if n := len(digits); n > 0 && digits[n-1] == '0' {
		digits = digits[:n-1]
	}

	// Written: digits with the point after `whole` of them, times ten to `e`.
	whole, e := exp, 0
	if whole < -5 || whole > 21 {
		e = min(max(exp-1, -messages.NumberExponentMax), messages.NumberExponentMax)
		whole = exp - e
	} else if whole <= 0 && len(digits)+1-whole > messages.NumberDigitsMax {
		whole, e = 1, exp-1
	}
	for ; whole > len(digits); digits = append(digits, '0') {
	}
	if whole > 0 {
		dst = append(dst, digits[:whole]...)
		digits = digits[whole:]
	} else {
		dst = append(dst, '0')
		zeros := make([]byte, 0, 64)
		for ; whole < 0; whole++ {
			zeros = append(zeros, '0')
		}
		digits = append(zeros, digits...)
	}
	if len(digits) > 0 {
		dst = append(dst, '.')
		dst = append(dst, digits...)
	}
	if e != 0 {
		dst = append(dst, 'e')
		dst = strconv.AppendInt(dst, int64(e), 10)
	}
	return dst
}
