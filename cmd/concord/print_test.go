package main

import (
	"encoding/json"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// TestMetadataNamesDoNotCollide: a name that looks like another one's base64 form is
// still its own.
func TestMetadataNamesDoNotCollide(t *testing.T) {
	o := object{}
	o.setMetadata([]*messages.MetadataEntry{
		{Name: "a", Value: []byte{0xFF, 0}}, {Name: "a_base64", Value: []byte("text")}, {Name: "b", Value: []byte("b")},
	})
	got, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"metadata":{"a_base64":"text","b":"b"},"metadata_base64":{"a":"/wA="}}`
	if string(got) != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}
