package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/registration"
	"github.com/concord-kv/concord/messages"
)

// object is one JSON object; its fields are printed by name.
type object map[string]any

// print writes v as one line of JSON, or calls text.
func (a *app) print(v any, text func()) error {
	if !a.json() {
		text()
		return a.printed(nil)
	}
	return a.printJSON(v)
}

func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return a.printed(e.Encode(v))
}

// printed is the error of having printed something.
func (a *app) printed(err error) error {
	if o, ok := a.out.(*output); ok && o.err != nil {
		return fmt.Errorf("%w: %w", errOutput, o.err)
	}
	return err
}

func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }

// note tells people something beside the result; JSON has it in the result.
func (a *app) note(format string, args ...any) {
	if !a.json() {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

// printError writes an error to stderr.
func (a *app) printError(err error, asJSON bool) {
	var e *messages.Error
	if !errors.As(err, &e) {
		code := messages.Code_CODE_INVALID_ARGUMENT
		if errors.Is(err, errCondition) {
			code = messages.Code_CODE_OK
		}
		e = messages.NewError(code, "%v", err)
	}
	own := "" // what has no code of the store
	switch {
	case errors.Is(err, lease.ErrLost):
		own = "lost"
	case errors.Is(err, errCondition), errors.Is(err, registration.ErrTaken):
		own = "condition_failed"
	case errors.Is(err, errOutput):
		own = "output_failed"
	}
	if !asJSON {
		text := e.Error()
		if own != "" {
			text = err.Error()
		}
		fmt.Fprintln(a.err, "concord: "+text+facts(e.Detail)+a.hint(e))
		return
	}
	o := errorObject(e.Detail)
	if own != "" {
		o["code"], o["message"] = own, err.Error()
	}
	if own == "output_failed" || own == "lost" { // done is what was done until then
		o["outcome"] = messages.OutcomeName(messages.Outcome_OUTCOME_APPLIED)
	}
	if e.Err != nil {
		o["cause"] = e.Err.Error()
	}
	if e.Outcome() == messages.Outcome_OUTCOME_UNKNOWN && a.usedIdempotency != "" {
		o["idempotency_key"] = a.usedIdempotency
	}
	enc := json.NewEncoder(a.err)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(object{"error": o})
}

// facts are the numbers of an error, for people.
func facts(d *messages.ErrorDetail) string {
	var parts []string
	add := func(name string, n uint64) {
		if n != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	add("compact revision", d.GetCompactRevision())
	add("current revision", d.GetCurrentRevision())
	add("lease", d.GetLeaseId())
	add("limit", d.GetLimit())
	if len(parts) == 0 {
		return ""
	}
	return " [" + strings.Join(parts, ", ") + "]"
}

func (a *app) hint(e *messages.Error) string {
	if e.Outcome() == messages.Outcome_OUTCOME_UNKNOWN && a.usedIdempotency != "" {
		if word, ok := shellWord([]byte(a.usedIdempotency)); ok {
			return "\nconcord: ask what became of it with: concord resolve " + word
		}
	}
	if e.Code() == messages.Code_CODE_UNAVAILABLE && a.endpoint == "" && a.getenv("CONCORD_ENDPOINT") == "" {
		return "\nconcord: start a node with concord serve, or name one with --endpoint or CONCORD_ENDPOINT"
	}
	return ""
}

func errorObject(d *messages.ErrorDetail) object {
	o := object{"code": messages.CodeName(d.GetCode()), "outcome": messages.OutcomeName(d.GetOutcome()), "message": d.GetMessage()}
	if d.GetField() != "" {
		o["field"] = d.Field
	}
	if d.GetOpIndex() != 0 || d != nil && d.OpIndex != nil {
		o["op_index"] = d.GetOpIndex()
	}
	for name, n := range map[string]uint64{
		"compact_revision": d.GetCompactRevision(), "current_revision": d.GetCurrentRevision(), "lease_id": d.GetLeaseId(),
		"limit": d.GetLimit(), "retry_after_ms": uint64(d.GetRetryAfterMs()),
	} {
		if n != 0 {
			o[name] = n
		}
	}
	return o
}

// setBytes puts bytes into an object: as text, or as name_base64 when they are not.
func (o object) setBytes(name string, b []byte) {
	if utf8.Valid(b) {
		o[name] = string(b)
		return
	}
	o[name+"_base64"] = base64.StdEncoding.EncodeToString(b)
}

// setMetadata puts metadata into an object: texts into metadata, other bytes into
// metadata_base64. Names are the user's, so that no suffix of theirs would be safe.
func (o object) setMetadata(entries []*messages.MetadataEntry) {
	for _, e := range entries {
		in, value := "metadata", string(e.GetValue())
		if !utf8.Valid(e.GetValue()) {
			in, value = "metadata_base64", base64.StdEncoding.EncodeToString(e.GetValue())
		}
		if o[in] == nil {
			o[in] = object{}
		}
		o[in].(object)[e.GetName()] = value
	}
}

// recordObject is a record; nil for none, which is JSON null.
func recordObject(r *messages.Record) any {
	if r == nil {
		return nil
	}
	o := object{"create_revision": r.CreateRevision, "mod_revision": r.ModRevision, "version": r.Version}
	o.setBytes("key", r.Key)
	o.setBytes("value", r.Value)
	if r.LeaseId != 0 {
		o["lease_id"] = r.LeaseId
	}
	if r.ContentType != "" {
		o["content_type"] = r.ContentType
	}
	o.setMetadata(r.Metadata)
	if r.RemainingTtlMs != nil {
		o["remaining_ttl_ms"] = *r.RemainingTtlMs
	}
	if r.ExpiresAtUnixMs != nil {
		o["expires_at_unix_ms"] = *r.ExpiresAtUnixMs
	}
	return o
}

func recordObjects(records []*messages.Record) []any {
	all := make([]any, len(records))
	for i, r := range records {
		all[i] = recordObject(r)
	}
	return all
}

func eventObject(e *messages.Event) object {
	o := object{
		"revision": e.GetRevision(), "op_index": e.GetOpIndex(),
		"type": enumName(e.GetType().String(), "EVENT_TYPE_"), "cause": enumName(e.GetCause().String(), "EVENT_CAUSE_"),
		"record": recordObject(e.GetRecord()),
	}
	if e.GetPrev() != nil {
		o["prev"] = recordObject(e.Prev)
	}
	return o
}

func eventObjects(events []*messages.Event) []object {
	all := make([]object, len(events))
	for i, e := range events {
		all[i] = eventObject(e)
	}
	return all
}

func positionObject(p *messages.Position) object {
	return object{"revision": p.GetRevision(), "op_index": p.GetOpIndex()}
}

func enumName(s, prefix string) string { return strings.ToLower(strings.TrimPrefix(s, prefix)) }

// eventLine is an event for people: 12.0 put key value.
func eventLine(e *messages.Event, keysOnly bool) string {
	r := e.GetRecord()
	what := enumName(e.GetType().String(), "EVENT_TYPE_")
	if e.GetType() == messages.EventType_EVENT_TYPE_DELETE {
		what = enumName(e.GetCause().String(), "EVENT_CAUSE_")
	}
	line := fmt.Sprintf("%d.%d\t%s\t%s", e.GetRevision(), e.GetOpIndex(), what, quote(r.GetKey()))
	if e.GetType() != messages.EventType_EVENT_TYPE_DELETE && !keysOnly {
		line += "\t" + quote(r.GetValue())
	}
	return line
}

// quote prints bytes as they are when they are printable text on one line, and as a
// quoted string otherwise: what is printed can always be told apart.
func quote(b []byte) string {
	s := string(b)
	if s != "" && utf8.ValidString(s) && !strings.HasPrefix(s, `"`) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}

// shellWord prints bytes as one word of a command line, to be pasted: as they are where a
// shell reads them so, else quoted for it; what is not printable in the form of bash, zsh
// and ksh. False for what no argument can hold.
func shellWord(b []byte) (string, bool) {
	s := string(b)
	switch {
	case strings.ContainsRune(s, 0):
		return "", false
	case s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/_-.,:@%+=", r)
	}):
		return s, true
	case utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", true
	}
	var w strings.Builder
	w.WriteString("$'")
	for _, c := range b {
		switch {
		case c == '\'' || c == '\\':
			w.WriteByte('\\')
			fallthrough
		case c >= ' ' && c < 0x7f:
			w.WriteByte(c)
		default:
			fmt.Fprintf(&w, `\%03o`, c) // three digits, so that what follows is not taken for one more
		}
	}
	w.WriteByte('\'')
	return w.String(), true
}

// remaining prints a time to live.
func remaining(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
