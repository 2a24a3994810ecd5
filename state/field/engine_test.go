package field

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestParserIsPinned: with some toolchains and experiments the module is an alias of
// the standard library's copy, whose rules change with the toolchain: two replicas
// built by different ones could then disagree on what is JSON.
func TestParserIsPinned(t *testing.T) {
	if path := reflect.TypeFor[jsontext.Decoder]().PkgPath(); !strings.HasPrefix(path, "github.com/go-json-experiment/json") {
		t.Errorf("the JSON parser is %s: check the vectors, then decide on a new Engine", path)
	}
}
