package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// jsonTxn is the JSON form that txnHelp describes.
type jsonTxn struct {
	If   []jsonCompare `json:"if"`
	Then []jsonOp      `json:"then"`
	Else []jsonOp      `json:"else"`
}

type jsonCompare struct {
	Key         *string         `json:"key"`
	KeyBase64   []byte          `json:"key_base64"`
	Compare     string          `json:"compare"`
	Op          string          `json:"op"`
	Value       json.RawMessage `json:"value"`
	ValueBase64 []byte          `json:"value_base64"`
	Path        []string        `json:"path"`
}

type jsonOp struct {
	Op          string            `json:"op"`
	Key         *string           `json:"key"`
	KeyBase64   []byte            `json:"key_base64"`
	Prefix      *string           `json:"prefix"`
	Start       *string           `json:"start"`
	End         string            `json:"end"`
	Value       *string           `json:"value"`
	ValueBase64 []byte            `json:"value_base64"`
	Lease       uint64            `json:"lease"`
	TTL         string            `json:"ttl"`
	ContentType string            `json:"content_type"`
	Metadata    map[string]string `json:"metadata"`
	Limit       uint32            `json:"limit"`
	Prev        bool              `json:"prev"`
}

func parseTxnJSON(text []byte) (*messages.Txn, error) {
	var in jsonTxn
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, messages.InvalidField("txn", "%v", err)
	}
	if d.More() {
		return nil, messages.InvalidField("txn", "there is something after the transaction")
	}
	t := &messages.Txn{}
	for i, c := range in.If {
		compare, err := c.compare()
		if err != nil {
			return nil, messages.InvalidField(fmt.Sprintf("if[%d]", i), "%s", detailText(err))
		}
		t.Compares = append(t.Compares, compare)
	}
	for _, branch := range []struct {
		name string
		ops  []jsonOp
		to   *[]*messages.TxnOp
	}{{"then", in.Then, &t.Success}, {"else", in.Else, &t.Failure}} {
		for i, o := range branch.ops {
			op, err := o.operation()
			if err != nil {
				return nil, messages.InvalidField(fmt.Sprintf("%s[%d]", branch.name, i), "%s", detailText(err))
			}
			*branch.to = append(*branch.to, op)
		}
	}
	return t, nil
}

func keyOf(text *string, raw []byte) string {
	if text != nil {
		return *text
	}
	return string(raw)
}

func (c jsonCompare) compare() (*messages.Compare, error) {
	key := keyOf(c.Key, c.KeyBase64)
	if c.Compare == "exists" {
		return client.Exists(key, string(c.Value) != "false"), nil
	}
	if c.Op == "" {
		c.Op = "=="
	}
	op, ok := compareOperators[c.Op]
	if !ok {
		return nil, messages.InvalidField("op", "%q is not an operator", c.Op)
	}
	switch {
	case c.Compare == "field":
		return client.Field(key, c.Path, op, c.Value), nil
	case c.Compare == "value" && c.ValueBase64 != nil:
		return client.Value(key, op, c.ValueBase64), nil
	}
	value := strings.TrimSpace(string(c.Value))
	if strings.HasPrefix(value, `"`) {
		if err := json.Unmarshal(c.Value, &value); err != nil {
			return nil, err
		}
	} else if c.Compare == "value" {
		return nil, messages.InvalidField("value", "a string is needed")
	}
	return compareOf(c.Compare, key, op, value)
}

func (o jsonOp) operation() (*messages.TxnOp, error) {
	key := keyOf(o.Key, o.KeyBase64)
	switch o.Op {
	case "put":
		opts := client.PutOptions{LeaseID: o.Lease, ContentType: o.ContentType, NoPrev: !o.Prev}
		if o.TTL != "" {
			var err error
			if opts.TTL, err = duration("ttl", o.TTL); err != nil {
				return nil, err
			}
		}
		if len(o.Metadata) > 0 {
			opts.Metadata = map[string][]byte{}
			for name, v := range o.Metadata {
				opts.Metadata[name] = []byte(v)
			}
		}
		return client.OpPut(key, []byte(keyOf(o.Value, o.ValueBase64)), opts), nil
	case "touch":
		d, err := duration("ttl", o.TTL)
		return client.OpTouch(key, d.Milliseconds()), err
	case "get":
		s, one := o.selector(key)
		if !one && o.Limit == 0 {
			o.Limit = messages.TxnGetLimitMax
		}
		return client.OpGet(s, o.Limit), nil
	case "delete":
		s, _ := o.selector(key)
		return client.OpDelete(s, client.DeleteOptions{Prev: o.Prev}), nil
	}
	return nil, messages.InvalidField("op", "%q is none of put, get, delete, touch", o.Op)
}

func (o jsonOp) selector(key string) (s *messages.Selector, one bool) {
	switch {
	case o.Prefix != nil:
		return client.PrefixSelector(*o.Prefix), false
	case o.Start != nil:
		return client.RangeSelector(*o.Start, o.End), false
	}
	return client.KeySelector(key), true
}
