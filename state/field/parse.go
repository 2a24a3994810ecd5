package field

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unsafe"

	"github.com/concord-kv/concord/messages"
	"github.com/go-json-experiment/json/jsontext"
)

// scratchKept bounds the memory that a parser keeps between calls for each of its
// buffers: one large value must not pin its size for ever.
const scratchKept = 1 << 20

// Parser extracts parts of values and reuses its memory from call to call. The zero
// Parser works. One goroutine uses it at a time.
type Parser struct {
	dec  jsontext.Decoder
	in   bytes.Buffer
	enc  encoder
	name []byte // scratch for names with escapes
	out  []byte // scratch for Extract

	paths []Path
	live  []int  // stack of indexes into paths that the current value may match
	spans []span // where each path's part stands in text
	text  string
	raw   bool // text is not of a JSON content type

	one [1]Path
}

// span is text[from:to]; to 0 means that the text has no such part.
type span struct{ from, to int }

// ParseJSON is the function ParseJSON with the parser's memory.
func (p *Parser) ParseJSON(text []byte) (Value, error) {
	p.one[0] = Path{element: noElement}
	if err := p.scan(p.one[:], unsafe.String(unsafe.SliceData(text), len(text))); err != nil {
		return Null, messages.NewError(messages.Code_CODE_INVALID_ARGUMENT, "not strict JSON: %v", err)
	}
	v := p.value(0)
	p.release()
	return v, nil
}

// Extract is the function Extract with the parser's memory.
func (p *Parser) Extract(x *messages.Extractor, contentType, value string) Value {
	p.one[0] = Compile(x)
	p.Scan(p.one[:], contentType, value)
	v := p.value(0)
	p.release()
	return v
}

// Scan reads a record's value once for all of paths; AppendValue then gives what
// each of them found. The parser refers to paths and value until the next call.
func (p *Parser) Scan(paths []Path, contentType, value string) {
	if p.raw = !isJSON(contentType); p.raw {
		p.paths, p.text = paths, value
		return
	}
	if err := p.scan(paths, value); err != nil {
		clear(p.spans)
	}
}

// AppendValue appends the value that path i of the last Scan found, Null if none.
func (p *Parser) AppendValue(dst []byte, i int) []byte {
	switch {
	case p.raw && p.paths[i].isIdentity():
		return appendString(dst, p.text)
	case p.raw || p.spans[i].to == 0:
		return append(dst, tagNull)
	}
	dst, _ = p.enc.append(dst, p.text, p.spans[i].from)
	if cap(p.enc.sorted) > scratchKept || cap(p.enc.unquote) > scratchKept || cap(p.enc.members) > scratchKept/16 {
		p.enc = encoder{}
	}
	return dst
}

// value returns what path i found.
func (p *Parser) value(i int) Value {
	p.out = p.AppendValue(p.out[:0], i)
	if string(p.out) == string(Null) {
		return Null
	}
	return Value(p.out)
}

// release drops what a single large value has made the parser hold.
func (p *Parser) release() {
	if cap(p.out) > scratchKept {
		p.out = nil
	}
	p.text, p.paths = "", nil
}

// scan checks that text is strict JSON and notes where the part of each path is.
func (p *Parser) scan(paths []Path, text string) error {
	p.paths, p.text, p.raw = paths, text, false
	p.spans = append(p.spans[:0], make([]span, len(paths))...)
	p.live = p.live[:0]
	for i := range paths {
		if !paths[i].never {
			p.live = append(p.live, i)
		}
	}
	// The decoder only reads what it is given in a bytes.Buffer, so it may read the
	// string's own memory.
	p.in = *bytes.NewBuffer(unsafe.Slice(unsafe.StringData(text), len(text)))
	p.dec.Reset(&p.in)
	if err := p.scanValue(0, 0, 0, len(p.live)); err != nil {
		return err
	}
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return fmt.Errorf("data after the value, at offset %d", p.dec.InputOffset())
	}
	return nil
}

// scanValue reads one value inside depth open containers. The paths in
// live[lo:hi] have matched level steps down to it.
func (p *Parser) scanValue(depth, level, lo, hi int) error {
	var from int
	switch p.dec.PeekKind() {
	case '{':
		if err := p.open(depth); err != nil {
			return err
		}
		from = int(p.dec.InputOffset()) - 1
		if err := p.scanMembers(depth+1, level, lo, hi); err != nil {
			return err
		}
	case '[':
		if err := p.open(depth); err != nil {
			return err
		}
		from = int(p.dec.InputOffset()) - 1
		if err := p.scanElements(depth+1, level, lo, hi); err != nil {
			return err
		}
	case '0':
		lit, err := p.dec.ReadValue()
		if err != nil {
			return err
		}
		if err := checkNumber(lit); err != nil {
			return fmt.Errorf("%w, at offset %d", err, p.dec.InputOffset())
		}
		from = int(p.dec.InputOffset()) - len(lit)
	default: // a string, null, false, true; or an error that ReadValue returns
		lit, err := p.dec.ReadValue()
		if err != nil {
			return syntaxError(err)
		}
		from = int(p.dec.InputOffset()) - len(lit)
	}
	for _, i := range p.live[lo:hi] {
		if p.paths[i].steps() == level {
			p.spans[i] = span{from, int(p.dec.InputOffset())}
		}
	}
	return nil
}

// open reads the delimiter that opens a container inside depth others.
func (p *Parser) open(depth int) error {
	if depth == messages.JSONDepthMax {
		return fmt.Errorf("nested deeper than %d, at offset %d", messages.JSONDepthMax, p.dec.InputOffset())
	}
	_, err := p.dec.ReadToken()
	return err
}

func (p *Parser) scanMembers(depth, level, lo, hi int) error {
	for p.dec.PeekKind() != '}' {
		name, err := p.dec.ReadValue()
		if err != nil {
			return syntaxError(err)
		}
		for k := lo; k < hi; k++ {
			if i := p.live[k]; level < len(p.paths[i].names) && p.named(name, p.paths[i].names[level]) {
				p.live = append(p.live, i)
			}
		}
		if err := p.scanMatched(depth, level, hi); err != nil {
			return err
		}
	}
	_, err := p.dec.ReadToken()
	return err
}

func (p *Parser) scanElements(depth, level, lo, hi int) error {
	for n := int64(0); p.dec.PeekKind() != ']'; n++ {
		for k := lo; k < hi; k++ {
			if i := p.live[k]; level == len(p.paths[i].names) && p.paths[i].element == n {
				p.live = append(p.live, i)
			}
		}
		if err := p.scanMatched(depth, level, hi); err != nil {
			return err
		}
	}
	_, err := p.dec.ReadToken()
	return err
}

// scanMatched reads a value for the paths that have been pushed at live[hi:], and
// pops them.
func (p *Parser) scanMatched(depth, level, hi int) error {
	err := p.scanValue(depth, level+1, hi, len(p.live))
	p.live = p.live[:hi]
	return err
}

// named says that a JSON string literal is the name.
func (p *Parser) named(literal []byte, name string) bool {
	if len(literal) == len(name)+2 && string(literal[1:len(literal)-1]) == name {
		return bytes.IndexByte(literal, '\\') < 0
	}
	if len(literal) <= len(name)+2 || bytes.IndexByte(literal, '\\') < 0 {
		return false // an escape is longer than what it stands for
	}
	p.name, _ = jsontext.AppendUnquote(p.name[:0], literal)
	return string(p.name) == name
}

// syntaxError makes an end of input readable: the decoder calls it io.EOF.
func syntaxError(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("no value")
	}
	return err
}

// isJSON says that a content type is application/json, with or without parameters.
func isJSON(contentType string) bool {
	const media = "application/json"
	if contentType == media {
		return true
	}
	contentType, _, _ = strings.Cut(contentType, ";")
	return strings.EqualFold(strings.Trim(contentType, " \t"), media)
}
