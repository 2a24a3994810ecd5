package actortest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// recipeBug is a rule of the holder's side that is broken, and the promise that must
// show it. Those without edits are among plantedBugs.
type recipeBug struct {
	planted
	promise string // a regular expression
}

var recipeBugs = []recipeBug{
	{planted{name: "holder-counts-from-the-reply", seed: 1}, "P1|P7"},
	{planted{name: "stamp-from-the-last-tick", seed: 1}, "P1|P5|P6|P9"},
	{planted{name: "expire-without-recheck", seed: 8}, "P1|P5"},
	{planted{name: "unconfirmed-extends", seed: 1, edits: []edit{{
		"actors/client",
		"	// Nothing is known, so nothing is extended and nothing shortened: try again.\n",
		"	if $ON {\n		l.observer.Confirmed(sentAt, l.ttl)\n	}\n",
	}}}, "P7|P1"},
	{planted{name: "mutex-without-recheck", seed: 1, edits: []edit{{
		"actors/client/internal/line",
		"			err = p.await(ctx, before, revision, out)\n",
		"			err = p.await(ctx, before, revision, out)\n			if $ON && err == nil {\n				return held(s)\n			}\n",
	}}}, "P1|P2|P10"},
	{planted{name: "line-not-in-order", seed: 1, edits: []edit{
		{"actors/client/internal/line", "	waited  bool\n", "	waited  bool\n	moved   bool\n"},
		{"actors/client/internal/line", "		if err != nil {\n			if lost := held(s); lost != nil {\n", `		if $ON && err == nil && !p.moved {
			if last, e := p.line.Enter(ctx, nil); e == nil { // behind all who came later
				p.GiveUp()
				p.key, p.created, p.moved = last.key, last.created, true
				var again func()
				out, again = awaitGone(s, p.key, p.created, p.created)
				defer again()
			}
		}
		if err != nil {
			if lost := held(s); lost != nil {
`},
	}}, "P10"},
	{planted{name: "guard-not-consulted", seed: 4, edits: []edit{{
		"actors/client/fence", "	if t < m.highest || t == 0 {\n", "	if !$ON && (t < m.highest || t == 0) {\n",
	}}}, "P8"},
	{planted{name: "flight-run-twice", seed: 4, edits: []edit{{
		"actors/client/flight",
		"	key, name := c.runKey(), []byte(s.UniqueName())\n",
		"	key, name := c.runKey(), []byte(s.UniqueName())\n	if $ON {\n		key += string(name)\n	}\n",
	}}}, "P11"},
	{planted{name: "end-signals", seed: 1, edits: []edit{{
		"actors/client/lease", "	if state != ErrEnded {\n		l.cancel(state)\n", "	if $ON || state != ErrEnded {\n		l.cancel(state)\n",
	}}}, "P4"},
	{planted{name: "registration-not-renewed", seed: 1, edits: []edit{{
		"actors/client/registration", "		if !r.opts.Renew || !r.renew(ctx) {\n", "		if $ON || !r.opts.Renew || !r.renew(ctx) {\n",
	}}}, "registration"},
}

// recipeSeedsMax is within how many seeds each of them must be found.
const recipeSeedsMax = 200

// plantedRecipes is the part of TestPlanted that looks for broken rules of recipes: by
// the stored seed first, then by others.
func plantedRecipes(t *testing.T, binary string) {
	for _, b := range recipeBugs {
		t.Run(b.name, func(t *testing.T) {
			if ok, _ := regexp.MatchString(*simPlanted, b.name); !ok {
				t.Skip("not asked for")
			}
			found := huntRecipes(t, binary, b.name, b.seed, 1)
			if found == "" {
				t.Logf("its stored seed %d does not find it any more", b.seed)
				found = huntRecipes(t, binary, b.name, 1, recipeSeedsMax)
			}
			if found == "" {
				t.Fatalf("not found within %d seeds", recipeSeedsMax)
			}
			t.Log(found)
			if !regexp.MustCompile(`: (` + b.promise + `) broken at step`).MatchString(found) {
				t.Errorf("found by another promise than %s", b.promise)
			}
		})
	}
}

func huntRecipes(t *testing.T, binary, name string, from uint64, seeds int) string {
	t.Helper()
	cmd := exec.Command(binary, "-test.run=^TestRecipes$", fmt.Sprintf("-recipe.from=%d", from), fmt.Sprintf("-recipe.seeds=%d", seeds), "-sim.shrink=0")
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
