package consensus

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lni/vfs"

	"github.com/concord-kv/concord/messages"
)

// fill opens the replica of cfg, writes count entries and returns without closing
// it in an orderly way: the files are copied to a new directory while it runs, as
// a loss of power would leave them when everything was synced.
func fill(t *testing.T, cfg DragonboatConfig, count int) (dir string) {
	t.Helper()
	log, err := OpenDragonboat(cfg, &words{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write(t, log, count)
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, log Log, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := log.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		end := make(chan error, 1)
		log.Propose(fmt.Append(nil, "entry ", i, strings.Repeat("-", 2000)), 10*time.Second, func(_ []*messages.Result, err error) { end <- err })
		if err := <-end; err != nil {
			t.Fatal(err)
		}
	}
}

func refused(t *testing.T, cfg DragonboatConfig, meaning string) {
	t.Helper()
	log, err := OpenDragonboat(cfg, &words{}, nil)
	if err == nil {
		log.Close()
		t.Fatalf("opened; want a refusal: %s", meaning)
	}
	if !strings.Contains(err.Error(), meaning) {
		t.Fatalf("got %v\nwant %s", err, meaning)
	}
}

func TestWrongDirectoryIsExplained(t *testing.T) {
	good := DragonboatConfig{Dir: t.TempDir(), ReplicaID: 1, RaftAddress: loopback(t), DeploymentID: 7}
	log, err := OpenDragonboat(good, &words{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := good
	other.RaftAddress = loopback(t)
	refused(t, other, "already open in this process")
	same := good
	same.Dir = t.TempDir()
	refused(t, same, "the raft address is in use")
	write(t, log, 3)
	log.Close()

	refused(t, other, "belongs to another raft address")
	other = good
	other.ReplicaID = 2
	refused(t, other, "belongs to another replica")
	other = good
	other.DeploymentID = 8
	refused(t, other, "another cluster")
	other = good
	other.InitialMembers = map[uint64]string{1: good.RaftAddress, 2: "127.0.0.1:1"}
	refused(t, other, "other initial members")
	other = good
	other.Join = true
	refused(t, other, "other initial members")

	// None of it did any harm.
	w := &words{}
	log, err = OpenDragonboat(good, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write(t, log, 0)
	if n := len(w.has()); n != 3 {
		t.Fatalf("%d of 3 entries are left", n)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	good := DragonboatConfig{Dir: "d", ReplicaID: 1, RaftAddress: "127.0.0.1:1"}
	if err := good.validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*DragonboatConfig){
		"dir":             func(c *DragonboatConfig) { c.Dir = "" },
		"replica_id":      func(c *DragonboatConfig) { c.ReplicaID = 0 },
		"raft_address":    func(c *DragonboatConfig) { c.RaftAddress = "[::1]:1" },
		"listen_address":  func(c *DragonboatConfig) { c.ListenAddress = "nowhere" },
		"join":            func(c *DragonboatConfig) { c.Join = true; c.InitialMembers = map[uint64]string{1: "127.0.0.1:1"} },
		"non_voting":      func(c *DragonboatConfig) { c.NonVoting = true },
		"initial_members": func(c *DragonboatConfig) { c.InitialMembers = map[uint64]string{1: "127.0.0.1:2"} },
		"key_file":        func(c *DragonboatConfig) { c.CAFile, c.CertFile = "ca", "cert" },
		"timing":          func(c *DragonboatConfig) { c.Timing = Timing{RTT: time.Second, ElectionTicks: 2, HeartbeatTicks: 1} },
	} {
		cfg := good
		change(&cfg)
		err, _ := cfg.validate().(*messages.Error)
		if err == nil || err.Detail.Field != field || err.Code() != messages.Code_CODE_INVALID_ARGUMENT {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

func TestStraySettingsAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("dragonboat-hard-settings.json", []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, DragonboatConfig{Dir: t.TempDir(), ReplicaID: 1, RaftAddress: loopback(t)}, "dragonboat-hard-settings.json")
}

// lastLog returns the log file that is read at opening.
func lastLog(t *testing.T, dir string) string {
	t.Helper()
	files, err := tanFiles(vfs.Default, dir, 0)
	if err != nil || len(files) != 2 {
		t.Fatalf("the log in %s is %v: %v", dir, files, err)
	}
	return files[1]
}

// What a loss of power, a bad disk or an operator may leave of the log.
func TestDamagedLogIsNotOpened(t *testing.T) {
	const count = 40
	cfg := DragonboatConfig{Dir: t.TempDir(), ReplicaID: 1, RaftAddress: loopback(t)}
	source := fill(t, cfg, count)
	whole, err := os.ReadFile(lastLog(t, source))
	if err != nil {
		t.Fatal(err)
	}
	if scan := scanTail(whole); scan.State != TailIntact || scan.Records < count || scan.IntactBytes != int64(len(whole)) {
		t.Fatalf("an intact log scans as %+v", scan)
	}
	at := bytes.Index(whole, []byte("entry 20-"))
	last := bytes.LastIndex(whole, []byte(fmt.Sprint("entry ", count-1)))
	starts := recordStarts(whole)
	middle := starts[len(starts)/2]
	for _, c := range []struct {
		name    string
		change  func(b []byte) []byte
		meaning string // "": opens
		lost    int
	}{
		{"as it is", func(b []byte) []byte { return b }, "", 0},
		{"zeros after the end", func(b []byte) []byte { return append(b, make([]byte, 50_000)...) }, "", 0},
		{"last record cut short", func(b []byte) []byte { return b[:last+20] }, "", 1},
		{"last record unwritten", func(b []byte) []byte { clear(b[starts[len(starts)-1]:]); return b }, "", 1},
		{"last record torn", func(b []byte) []byte { clear(b[last+1024-last%512:]); return b }, "the last record was cut off", 1},
		{"a bit flipped in the last value", func(b []byte) []byte { b[last+30] ^= 1; return b }, "the log is damaged", 0},
		{"a bit flipped in a value", func(b []byte) []byte { b[at] ^= 1; return b }, "the log is damaged", 0},
		{"a bit flipped in a length", func(b []byte) []byte { b[middle+5] ^= 0x40; return b }, "the log is damaged", 0},
		{"a header zeroed", func(b []byte) []byte { clear(b[middle : middle+7]); return b }, "the log is damaged", 0},
		{"garbage", func(b []byte) []byte { return []byte(strings.Repeat("garbage ", 100)) }, "the log is damaged", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(lastLog(t, dir), c.change(bytes.Clone(whole)), 0o600); err != nil {
				t.Fatal(err)
			}
			mine := cfg
			mine.Dir = dir
			if c.meaning != "" {
				refused(t, mine, c.meaning)
				tail, err := CutTornTail(nil, dir)
				if c.lost == 0 {
					if err == nil {
						t.Fatalf("%+v was cut", tail)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(tail.File + ".torn"); err != nil {
					t.Fatal(err)
				}
			}
			w := &words{}
			log, err := OpenDragonboat(mine, w, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			write(t, log, 0)
			if n := len(w.has()); n < count-c.lost {
				t.Fatalf("%d of %d entries are left", n, count)
			}
		})
	}
}

func recordStarts(b []byte) (starts []int) {
	for at := 0; at < len(b); {
		kind, end := tanChunk(b, at)
		if kind == 0 {
			break
		}
		starts = append(starts, at)
		at = end
	}
	return starts
}

// A log whose manifest is gone would be taken for a new one.
func TestLogWithoutManifestIsNotOpened(t *testing.T) {
	cfg := DragonboatConfig{Dir: t.TempDir(), ReplicaID: 1, RaftAddress: loopback(t)}
	cfg.Dir = fill(t, cfg, 5)
	if err := os.Remove(filepath.Join(filepath.Dir(lastLog(t, cfg.Dir)), "CURRENT")); err != nil {
		t.Fatal(err)
	}
	refused(t, cfg, "the log is damaged")
}

func TestOtherBrokenFilesAreExplained(t *testing.T) {
	cfg := DragonboatConfig{Dir: t.TempDir(), ReplicaID: 1, RaftAddress: loopback(t)}
	source := fill(t, cfg, 5)
	for _, name := range []string{"dragonboat.ds", "MANIFEST", "CURRENT", "BOOTSTRAP"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
				t.Fatal(err)
			}
			broken := 0
			err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
				if err == nil && !info.IsDir() && strings.HasPrefix(info.Name(), name) {
					broken++
					return os.WriteFile(path, []byte("not what it was"), 0o600)
				}
				return err
			})
			if err != nil || broken == 0 {
				t.Fatal(broken, err)
			}
			mine := cfg
			mine.Dir = dir
			refused(t, mine, "replica 1 cannot open")
		})
	}
}
