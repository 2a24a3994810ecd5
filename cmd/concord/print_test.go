package main

import (
	"encoding/json"
	"os/exec"
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

// TestShellWord: what a hint says can be pasted, whatever the key is.
func TestShellWord(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Log("no bash: only the form is compared")
	}
	for key, want := range map[string]string{
		"/a/1": "/a/1", "": "''", "two words": "'two words'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "*": "'*'", "\"": `'"'`, "~": "'~'",
		"häh": "'häh'", "a\nb": `$'a\012b'`, "\xff1": `$'\3771'`, "\x01'\\": `$'\001\'\\'`,
	} {
		got, ok := shellWord([]byte(key))
		if !ok || got != want {
			t.Errorf("%q: %s, want %s", key, got, want)
		}
		if bash == "" {
			continue
		}
		if out, err := exec.Command(bash, "-c", "printf %s "+got).Output(); err != nil || string(out) != key {
			t.Errorf("bash reads %s as %q: %v", got, out, err)
		}
	}
	if got, ok := shellWord([]byte("a\x00b")); ok {
		t.Errorf("%s: no argument can hold it", got)
	}
}
