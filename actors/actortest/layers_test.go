package actortest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/concord-kv/concord/"

// layers is the table of ARCHITECTURE.md section 2: which of our folders a folder
// may import. The longest match counts; a folder may always import itself and what
// is below it.
var layers = map[string][]string{
	"messages":            {},
	"state":               {"messages"},
	"consensus":           {"messages"},
	"cluster":             {"messages"},
	"actors/apply":        {"messages", "state", "consensus"},
	"actors/replica":      {"messages", "consensus"},
	"actors/session":      {"messages", "state", "cluster", "actors/watch"},
	"actors/expiry":       {"messages", "state"},
	"actors/watch":        {"messages", "state"},
	"actors/etcd":         {"messages"},
	"actors/node":         {"messages", "state", "consensus", "cluster", "actors"},
	"actors/client":       {"messages", "cluster"},
	"bench":               {"messages", "consensus", "actors/client", "cluster", "cluster/clustertest"},
	"cmd":                 {"messages", "actors/node", "actors/client", "bench", "cluster", "state/snapfile"},
	"actors/actortest":    nil, // everything
	"cluster/clustertest": nil,
}

type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports         []string
}

// packages lists ours, with their imports but without those of their tests.
func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 5 {
		t.Fatalf("go list found %d packages only", len(all))
	}
	return all
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// TestLayers holds the tree to the table.
func TestLayers(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		folder := ""
		for f := range layers {
			if within(from, f) && len(f) > len(folder) {
				folder = f
			}
		}
		if folder == "" {
			t.Errorf("%s stands in no folder of the table", from)
			continue
		}
		allowed := layers[folder]
		if allowed == nil {
			continue
		}
		for _, i := range p.Imports {
			if !strings.HasPrefix(i, module) {
				continue
			}
			to := strings.TrimPrefix(i, module)
			if within(to, folder) || slices.ContainsFunc(allowed, func(a string) bool { return within(to, a) }) {
				continue
			}
			t.Errorf("%s imports %s", from, to)
		}
	}
}

// TestStatePurity: the state machine has no clock, no random number, no I/O, no
// goroutine, no lock, no channel, no log and no actor.
func TestStatePurity(t *testing.T) {
	forbidden := []string{
		"time", "math/rand", "math/rand/v2", "crypto/rand", "os", "net", "log", "log/slog", "sync", "sync/atomic",
		"runtime", "context", "github.com/asynkron/protoactor-go/actor", "github.com/puzpuzpuz/xsync/v3",
	}
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if !within(path, "state") {
			continue
		}
		for _, i := range p.Imports {
			if slices.Contains(forbidden, i) {
				t.Errorf("%s imports %s", path, i)
			}
		}
		for _, name := range p.GoFiles {
			file := filepath.Join(p.Dir, name)
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fset := token.NewFileSet()
			tree, err := parser.ParseFile(fset, file, src, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s starts a goroutine", fset.Position(n.Pos()))
				case *ast.ChanType:
					t.Errorf("%s has a channel", fset.Position(n.Pos()))
				}
				return true
			})
		}
	}
}

// TestOneClock: in production code of the actors only node/clock.go reads a clock,
// and the client has one file of its own for it.
func TestOneClock(t *testing.T) {
	allowed := []string{"actors/node/clock.go", "actors/client/clock.go"}
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if !within(path, "actors") || within(path, "actors/actortest") {
			continue
		}
		for _, name := range p.GoFiles {
			if slices.Contains(allowed, path+"/"+name) {
				continue
			}
			fset := token.NewFileSet()
			tree, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && (sel.Sel.Name == "Now" || sel.Sel.Name == "Since") {
					t.Errorf("%s reads a clock", fset.Position(sel.Pos()))
				}
				return true
			})
		}
	}
}
