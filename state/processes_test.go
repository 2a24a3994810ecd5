package state_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// treatment is how a replica in a process of its own is treated. None of it may show.
type treatment struct {
	gogc  string
	batch int // commands in an entry, as far as one owner's stamps reach
	// at, not 0: save and load before each command whose number it divides.
	at int
	// sweep: views are taken, memory is swept and effects are taken between entries.
	sweep bool
}

var treatments = []treatment{
	{gogc: "100", batch: 1},
	{gogc: "off", batch: 64},
	{gogc: "5", batch: 7, sweep: true},
	{gogc: "20", batch: 3, at: 90},
}

// determinismChild names, in the environment of a child process, its treatment and the
// seed and length of the log; determinismOut the file for what it did.
const (
	determinismChild = "CONCORD_DETERMINISM_CHILD"
	determinismOut   = "CONCORD_DETERMINISM_OUT"
)

// TestDeterminismAcrossProcesses: replicas in processes of their own, so that every map
// has another seed and the collector another pace, are fed one log in batches of
// different sizes; one of them begins anew from its own snapshot again and again. After
// each command that ends a batch their digests are equal, and so is every result.
// CONCORD_DETERMINISM_ENTRIES sets the length of the log, 300 by default.
func TestDeterminismAcrossProcesses(t *testing.T) {
	entries := 300
	if n, err := strconv.Atoi(os.Getenv("CONCORD_DETERMINISM_ENTRIES")); err == nil {
		entries = n
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range 2 {
		var want map[int]string // of the first one, which sees every command alone
		for i, treat := range treatments {
			out := t.TempDir() + "/out"
			child := exec.Command(binary, "-test.run", "^TestDeterminismChild$", "-test.count", "1")
			child.Env = append(os.Environ(), "GOGC="+treat.gogc, determinismOut+"="+out,
				fmt.Sprintf("%s=%d %d %d", determinismChild, i, seed+100, entries))
			if said, err := child.CombinedOutput(); err != nil {
				t.Fatalf("seed %d, %+v: %v\n%s", seed, treat, err, said)
			}
			got := readSteps(t, out)
			if i == 0 {
				if want = got; len(want) < entries {
					t.Fatalf("seed %d: %d commands of %d entries", seed, len(want), entries)
				}
				continue
			}
			if len(got) == 0 || got[len(want)-1] == "" {
				t.Fatalf("seed %d, %+v: %d steps, and not the last one", seed, treat, len(got))
			}
			for n, step := range got {
				if step != want[n] {
					t.Fatalf("seed %d, %+v: after command %d: %s, want %s", seed, treat, n, step, want[n])
				}
			}
		}
	}
}

// readSteps reads what a child wrote: what was so after a command, by its number.
func readSteps(t *testing.T, file string) map[int]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	steps := map[int]string{}
	for line := range strings.Lines(string(text)) {
		n, step, _ := strings.Cut(strings.TrimSpace(line), " ")
		i, err := strconv.Atoi(n)
		if err != nil {
			t.Fatalf("%q", line)
		}
		steps[i] = step
	}
	return steps
}

// TestDeterminismChild is one replica of TestDeterminismAcrossProcesses.
func TestDeterminismChild(t *testing.T) {
	var which, seed, entries int
	if _, err := fmt.Sscan(os.Getenv(determinismChild), &which, &seed, &entries); err != nil {
		t.Skip("a part of TestDeterminismAcrossProcesses")
	}
	file, err := os.Create(os.Getenv(determinismOut))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	treat := treatments[which]
	m := state.New()
	results := sha256.New()
	done := 0 // commands
	for i, e := range regroup(logOf(uint64(seed), entries), treat.batch) {
		if treat.at != 0 && done/treat.at != (done-len(e.Commands))/treat.at {
			m = reloadAt(t, m, messages.ApplyVersion)
		}
		for _, r := range m.Apply(uint64(i+1), e) {
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(withoutText(r))
			if err != nil {
				t.Fatal(err)
			}
			results.Write(b)
		}
		done += len(e.Commands)
		if treat.sweep {
			m.View()
			m.Sweep(i % 40)
			m.TakeEffects()
		}
		fmt.Fprintf(out, "%d digest %016x results %x\n", done-1, m.Digest(), results.Sum(nil)[:8])
	}
	if m.Digest() != m.FullDigest() {
		t.Fatalf("digest %x, full %x", m.Digest(), m.FullDigest())
	}
	var saved bytes.Buffer // also readable again
	if err := m.View().Save(&saved); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Load(&saved); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
}

// regroup makes entries of n commands, or fewer where the owner of the clock changes.
func regroup(log []*messages.Entry, n int) (out []*messages.Entry) {
	for _, e := range log {
		for _, c := range e.Commands {
			if k := len(out) - 1; k >= 0 && len(out[k].Commands) < n &&
				out[k].Epoch == e.Epoch && out[k].ReplicaId == e.ReplicaId && out[k].Nonce == e.Nonce {
				out[k].Commands = append(out[k].Commands, c)
				continue
			}
			out = append(out, &messages.Entry{Epoch: e.Epoch, ReplicaId: e.ReplicaId, Nonce: e.Nonce, Commands: []*messages.Command{c}})
		}
	}
	return out
}
