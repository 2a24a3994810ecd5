package main

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// parseTxnText reads the text form that txnHelp describes.
func parseTxnText(text string) (*messages.Txn, error) {
	t := &messages.Txn{}
	section := ""
	for i, line := range strings.Split(text, "\n") {
		words, err := splitWords(line)
		if err == nil && len(words) > 0 {
			err = parseLine(t, &section, words)
		}
		if err != nil {
			return nil, messages.InvalidField("line "+strconv.Itoa(i+1), "%v", detailText(err))
		}
	}
	if section == "" {
		return nil, messages.InvalidField("txn", "empty: it needs if, then or else")
	}
	return t, nil
}

// detailText is an error without its code, to go into another one.
func detailText(err error) string {
	if d := messages.DetailOf(err); d.GetMessage() != "" {
		return d.Message
	}
	return err.Error()
}

func parseLine(t *messages.Txn, section *string, words []string) error {
	if len(words) == 1 && (words[0] == "if" || words[0] == "then" || words[0] == "else") {
		*section = words[0]
		return nil
	}
	switch *section {
	case "if":
		c, err := parseCompare(words)
		t.Compares = append(t.Compares, c)
		return err
	case "then":
		op, err := parseOp(words)
		t.Success = append(t.Success, op)
		return err
	case "else":
		op, err := parseOp(words)
		t.Failure = append(t.Failure, op)
		return err
	}
	return messages.InvalidField("txn", "%q before if, then or else", words[0])
}

// splitWords splits a line at blanks. A word in double quotes is a Go string; # begins
// a comment.
func splitWords(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeft(line, " \t\r")
		if line == "" || line[0] == '#' {
			return words, nil
		}
		end := strings.IndexAny(line, " \t\r")
		if at := strings.IndexByte(line, '"'); at >= 0 && (end < 0 || at < end) && (at == 0 || line[at-1] == '=') {
			quoted, err := strconv.QuotedPrefix(line[at:])
			if err != nil {
				return nil, messages.InvalidField("txn", "a quoted word does not end: %s", line[at:])
			}
			word, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, messages.InvalidField("txn", "%s is not a string", quoted)
			}
			words = append(words, line[:at]+word)
			line = line[at+len(quoted):]
			continue
		}
		if end < 0 {
			end = len(line)
		}
		words = append(words, line[:end])
		line = line[end:]
	}
}

var compareOperators = map[string]messages.CompareOperator{
	"==": client.Equal, "!=": client.NotEqual, "<": client.Less, "<=": client.LessOrEqual, ">": client.Greater, ">=": client.GreaterOrEqual,
}

func parseCompare(words []string) (*messages.Compare, error) {
	what := words[0]
	switch {
	case what == "exists" && len(words) == 2:
		return client.Exists(words[1], true), nil
	case what == "absent" && len(words) == 2:
		return client.Exists(words[1], false), nil
	case what == "field" && len(words) == 5:
		op, ok := compareOperators[words[3]]
		if !ok {
			return nil, messages.InvalidField("txn", "%q is not an operator", words[3])
		}
		if !json.Valid([]byte(words[4])) {
			return nil, messages.InvalidField("txn", "%s is not JSON; text needs quotes of its own, as %q", words[4], `"text"`)
		}
		return client.Field(words[1], strings.Split(words[2], "."), op, []byte(words[4])), nil
	case len(words) != 4:
		return nil, messages.InvalidField("txn", "%q is not a compare", strings.Join(words, " "))
	}
	op, ok := compareOperators[words[2]]
	if !ok {
		return nil, messages.InvalidField("txn", "%q is not an operator", words[2])
	}
	return compareOf(what, words[1], op, words[3])
}

// compareOf makes a compare of a property with a value written as text.
func compareOf(what, key string, op messages.CompareOperator, value string) (*messages.Compare, error) {
	switch what {
	case "value":
		return client.Value(key, op, []byte(value)), nil
	case "ttl":
		if value == "null" {
			c := client.TTL(key, op, 0)
			c.GetTtlMs().Null = true
			return c, nil
		}
		d, err := duration("ttl", value)
		return client.TTL(key, op, d.Milliseconds()), err
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return nil, messages.InvalidField(what, "%q is not a number", value)
	}
	switch what {
	case "version":
		return client.Version(key, op, n), nil
	case "create_revision":
		return client.CreateRevision(key, op, n), nil
	case "mod_revision":
		return client.ModRevision(key, op, n), nil
	case "lease":
		return client.LeaseOf(key, op, n), nil
	}
	return nil, messages.InvalidField("txn", "%q is nothing to compare", what)
}

func parseOp(words []string) (*messages.TxnOp, error) {
	verb, words := words[0], words[1:]
	var sel selection
	if len(words) > 0 && (words[0] == "--prefix" || words[0] == "--range") {
		sel.prefix, sel.rng = words[0] == "--prefix", words[0] == "--range"
		words = words[1:]
	}
	switch verb {
	case "put":
		return parsePut(words)
	case "touch":
		if len(words) != 2 {
			return nil, messages.InvalidField("txn", "touch KEY TTL")
		}
		d, err := duration("ttl", words[1])
		return client.OpTouch(words[0], d.Milliseconds()), err
	case "get", "delete":
		limit, prev := uint32(0), false
		for len(words) > 0 {
			last := words[len(words)-1]
			if last == "prev" && verb == "delete" && len(words) > 1 {
				prev = true
			} else if text, ok := strings.CutPrefix(last, "limit="); ok && verb == "get" {
				n, err := strconv.ParseUint(text, 10, 32)
				if err != nil {
					return nil, messages.InvalidField("limit", "%q is not a number", text)
				}
				limit = uint32(n)
			} else {
				break
			}
			words = words[:len(words)-1]
		}
		s, err := sel.selector(words, false)
		if err != nil {
			return nil, err
		}
		if verb == "delete" {
			return client.OpDelete(s, client.DeleteOptions{Prev: prev}), nil
		}
		if _, one := s.By.(*messages.Selector_Key); !one && limit == 0 {
			limit = messages.TxnGetLimitMax
		}
		return client.OpGet(s, limit), nil
	}
	return nil, messages.InvalidField("txn", "%q is none of put, get, delete, touch", verb)
}

func parsePut(words []string) (*messages.TxnOp, error) {
	if len(words) < 2 {
		return nil, messages.InvalidField("txn", "put KEY VALUE")
	}
	opts := client.PutOptions{NoPrev: true}
	for _, w := range words[2:] {
		name, value, _ := strings.Cut(w, "=")
		if err := putOption(&opts, name, value); err != nil {
			return nil, err
		}
	}
	return client.OpPut(words[0], []byte(words[1]), opts), nil
}

func putOption(opts *client.PutOptions, name, value string) (err error) {
	meta, isMeta := strings.CutPrefix(name, "meta.")
	switch {
	case name == "lease":
		opts.LeaseID, err = leaseID(value)
	case name == "ttl":
		opts.TTL, err = duration("ttl", value)
	case name == "content-type":
		opts.ContentType = value
	case name == "prev":
		opts.NoPrev = false
	case isMeta && meta != "":
		if opts.Metadata == nil {
			opts.Metadata = map[string][]byte{}
		}
		opts.Metadata[meta] = []byte(value)
	default:
		err = messages.InvalidField("txn", "%q is no option of put", name)
	}
	return err
}
