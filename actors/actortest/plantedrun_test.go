package actortest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

var simPlanted = flag.String("sim.planted", "", "the planted bugs to look for, a regular expression; default all")

// plantedSeedsMax is within how many seeds each planted bug must be found.
const plantedSeedsMax = 500

// TestPlanted looks for every planted bug: by its stored seed first, then by fresh
// ones, 500 at most.
func TestPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a second test binary")
	}
	binary := buildPlanted(t)
	for _, p := range plantedBugs {
		t.Run(p.name, func(t *testing.T) {
			if ok, _ := regexp.MatchString(*simPlanted, p.name); !ok {
				t.Skip("not asked for")
			}
			if p.seed != 0 {
				if found := hunt(t, binary, p.name, p.seed, 1); found != "" {
					t.Logf("by its stored seed: %s", found)
					return
				}
				t.Logf("its stored seed %d does not find it any more", p.seed)
			}
			start := time.Now()
			found := hunt(t, binary, p.name, 1, plantedSeedsMax)
			if found == "" {
				t.Fatalf("not found within %d seeds", plantedSeedsMax)
			}
			t.Logf("after %v: %s", time.Since(start).Round(time.Second/10), found)
		})
	}
	t.Run("recipes", func(t *testing.T) { plantedRecipes(t, binary) })
}

var brokenLine = regexp.MustCompile(`seed (\d+), commit [^:]*: (.*broken at step.*)|sim: seed (\d+): (.*)`)

// hunt runs seeds with one bug switched on and returns what the first failure says.
func hunt(t *testing.T, binary, name string, from uint64, seeds int) string {
	t.Helper()
	cmd := exec.Command(binary, "-test.run=^TestSim$", fmt.Sprintf("-sim.from=%d", from), fmt.Sprintf("-sim.seeds=%d", seeds), "-sim.shrink=0")
	cmd.Env = append(os.Environ(), "SIM_PLANTED="+name)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	if m := brokenLine.FindSubmatch(out); m != nil {
		return string(bytes.TrimSpace(m[0]))
	}
	t.Fatalf("%v: no promise was named:\n%.4000s", err, out)
	return ""
}

// buildPlanted builds this package's tests with all planted bugs in them.
func buildPlanted(t *testing.T) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(here)))
	dir := t.TempDir()
	files := map[string]string{} // path in the module -> text
	all := plantedBugs
	for _, b := range recipeBugs {
		all = append(all[:len(all):len(all)], b.planted)
	}
	for _, p := range all {
		for _, e := range p.edits {
			file, text := findOnce(t, root, files, p.name, e)
			files[file] = strings.Replace(text, e.old, strings.ReplaceAll(e.new, "$ON", fmt.Sprintf("messages.Planted(%q)", p.name)), 1)
		}
	}
	for file, text := range files {
		files[file] = importMessages(text)
	}
	files["messages/planted.go"] = "package messages\n\nimport \"os\"\n\nvar planted = os.Getenv(\"SIM_PLANTED\")\n\n" +
		"// Planted says whether a planted bug is switched on.\nfunc Planted(name string) bool { return planted == name }\n"
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range files {
		at := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(root, file)] = at
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	config, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "planted.test")
	if err := os.WriteFile(config, b, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-c", "-overlay", config, "-o", binary, ".")
	cmd.Dir = filepath.Dir(here)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// findOnce returns the file of a folder that has the piece to replace, and its text with
// what other patches made of it.
func findOnce(t *testing.T, root string, files map[string]string, name string, e edit) (file, text string) {
	t.Helper()
	found := 0
	list, err := filepath.Glob(filepath.Join(root, e.folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f := filepath.ToSlash(filepath.Join(e.folder, filepath.Base(path)))
		body, patched := files[f]
		if !patched {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			body = string(b)
		}
		if n := strings.Count(body, e.old); n > 0 {
			found += n
			file, text = f, body
		}
	}
	if found != 1 {
		t.Fatalf("planted bug %s: %q stands %d times in %s: the patch must follow the code", name, e.old, found, e.folder)
	}
	return file, text
}

// importMessages adds the import of package messages to a file that has none.
func importMessages(text string) string {
	const path = `"github.com/concord-kv/concord/messages"`
	if strings.Contains(text, path) {
		return text
	}
	if !strings.Contains(text, "import (\n") {
		return strings.Replace(text, "import ", "import "+path+"\nimport ", 1)
	}
	return strings.Replace(text, "import (\n", "import (\n\t"+path+"\n", 1)
}
