package compat

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/node"
)

// etcdctl builds etcd's command line once.
var etcdctl = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "etcdctl")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "etcdctl")
	out, err := exec.Command("go", "build", "-o", bin, "go.etcd.io/etcd/etcdctl/v3").CombinedOutput()
	if err != nil {
		return "", &exec.Error{Name: string(out), Err: err}
	}
	return bin, nil
})

// verb is a command of etcdctl, and what it must print; "$1" in an argument is what the
// last expression in parentheses has found.
type verb struct {
	args  string
	stdin string
	want  string // a regular expression
	fails bool
}

// verbs run against one node and against three.
var verbs = []verb{
	{args: "put a 1", want: `^OK`},
	{args: "put a 2 --prev-kv", want: `^OK\na\n1`},
	{args: "put b -- -x", want: `^OK`},
	{args: "get a", want: `^a\n2`},
	{args: "get a --print-value-only", want: `^2\n$`},
	{args: "get --prefix '' --keys-only", want: `a\n\nb`},
	{args: "get a z --limit 1 --count-only -w fields", want: `"Count" : 2`},
	{args: "get a --rev 2", want: `^a\n1`},
	{args: "get --from-key a --order DESCEND --sort-by KEY --keys-only", want: `^b\n\na`},
	{args: "get a --rev 99", want: `required revision is a future revision`, fails: true},
	{args: "txn", stdin: "mod(\"a\") > \"0\"\nval(\"a\") = \"2\"\n\nput c 3\nget c\n\nget a\n\n", want: `SUCCESS\n\nOK\n\nc\n3`},
	{args: "txn", stdin: "ver(\"a\") = \"9\"\n\nput c 4\n\ndel c\n\n", want: `FAILURE\n\n1`},
	{args: "del b --prev-kv", want: `^1\nb\n-x`},
	{args: "del --prefix nothing", want: `^0`},
	{args: "lease grant 100", want: `lease ([0-9a-f]+) granted with TTL\(100s\)`},
	{args: "put --lease=$1 leased v", want: `^OK`},
	{args: "lease timetolive $1 --keys", want: `granted with TTL\(100s\), remaining\(\d+s\), attached keys\(\[leased\]\)`},
	{args: "lease keep-alive --once $1", want: `keepalived with TTL\(100\)`},
	{args: "lease list", want: `found 1 leases\n$1`},
	{args: "lease revoke $1", want: `lease $1 revoked`},
	{args: "get leased --count-only -w fields", want: `"Count" : 0`},
	{args: "lease timetolive $1", want: `already expired`},
	{args: "lease revoke 1234", want: `requested lease not found`, fails: true},
	{args: "compact 3", want: `compacted revision 3`},
	{args: "get a --rev 2", want: `required revision has been compacted`, fails: true},
	{args: "lock mutex echo held", want: `held`},
	{args: "member list", want: `replica-1`},
	{args: "endpoint status", want: `3\.7\.3`},
	{args: "endpoint health", want: `is healthy`},
	{args: "endpoint hashkv", want: `, \d+`},
	{args: "alarm list", want: `^$`},
	{args: "alarm disarm", want: `^$`},
	{args: "defrag", want: `Finished defragmenting`},
	{args: "snapshot save $DIR/snapshot.db", want: `Snapshot saved at`},
	{args: "user add root:rootpassword", want: `User root created`},
	{args: "user grant-role root root", want: `Role root is granted to user root`},
	{args: "user add ann:annspassword", want: `User ann created`},
	{args: "user add ann:annspassword", want: `user name already exists`, fails: true},
	{args: "role add writer", want: `Role writer created`},
	{args: "role grant-permission writer readwrite --prefix /ann/", want: `Role writer updated`},
	{args: "role get writer", want: `KV Read:\n\t\[/ann/, /ann0\) \(prefix /ann/\)\nKV Write:\n\t\[/ann/, /ann0\)`},
	{args: "user grant-role ann writer", want: `Role writer is granted to user ann`},
	{args: "user get ann", want: `User: ann\nRoles: writer`},
	{args: "auth enable", want: `Authentication Enabled`},
	{args: "get a", want: `user name is empty`, fails: true},
	{args: "get a --user ann:annspassword", want: `permission denied`, fails: true},
	{args: "get a --user ann:anotherpassword", want: `authentication failed`, fails: true},
	{args: "put /ann/1 x --user ann:annspassword", want: `^OK`},
	{args: "get /ann/1 --user ann:annspassword", want: `/ann/1\nx`},
	{args: "auth status --user root:rootpassword", want: `Authentication Status: true`},
	{args: "user list --user root:rootpassword", want: `ann\nroot`},
	{args: "role list --user root:rootpassword", want: `writer`},
	{args: "user revoke-role ann writer --user root:rootpassword", want: `Role writer is revoked from user ann`},
	{args: "get /ann/1 --user ann:annspassword", want: `permission denied`, fails: true},
	{args: "role revoke-permission writer --prefix /ann/ --user root:rootpassword", want: `Permission of range \[/ann/, /ann0\) is revoked`},
	{args: "role delete writer --user root:rootpassword", want: `Role writer deleted`},
	{args: "user delete ann --user root:rootpassword", want: `User ann deleted`},
	{args: "auth disable --user root:rootpassword", want: `Authentication Disabled`},
	{args: "get a", want: `^a\n2`},
}

func runVerbs(t *testing.T, nodes []*node.Node) {
	bin, err := etcdctl()
	if err != nil {
		t.Fatal(err)
	}
	dir, found := t.TempDir(), ""
	for _, v := range verbs {
		args := strings.NewReplacer("$1", found, "$DIR", dir, "''", "").Replace(v.args)
		at := endpoints(nodes)
		if strings.HasPrefix(args, "snapshot") {
			at = at[:1] // it takes one
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		cmd := exec.CommandContext(ctx, bin, append([]string{"--endpoints", strings.Join(at, ",")}, split(args)...)...)
		cmd.Stdin = strings.NewReader(v.stdin)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		cancel()
		if (err != nil) != v.fails {
			t.Errorf("etcdctl %s: %v\n%s", args, err, out.String())
			continue
		}
		m := regexp.MustCompile(strings.ReplaceAll(v.want, "$1", found)).FindStringSubmatch(out.String())
		if m == nil {
			t.Errorf("etcdctl %s printed\n%s\nnot %s", args, out.String(), v.want)
			continue
		}
		if len(m) > 1 {
			found = m[1]
		}
	}
	watchVerb(t, bin, nodes)
}

// split splits at spaces; an empty word is the empty argument.
func split(args string) []string { return strings.Split(args, " ") }

// watchVerb runs the verb that does not end by itself.
func watchVerb(t *testing.T, bin string, nodes []*node.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "--endpoints", nodes[0].EtcdAddr(), "watch", "a", "--rev", "4")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := client(t, nodes[0].EtcdAddr())
	need(c.Put(ctx, "a", "watched"))(t)
	var seen []byte
	for b := make([]byte, 256); !bytes.Contains(seen, []byte("watched")); {
		n, err := pipe.Read(b)
		if err != nil {
			t.Fatalf("etcdctl watch printed %q: %v", seen, err)
		}
		seen = append(seen, b[:n]...)
	}
	cancel()
	_ = cmd.Wait() // it was killed
}

// TestEtcdctl runs every verb of etcdctl against one node.
func TestEtcdctl(t *testing.T) { runVerbs(t, []*node.Node{startNode(t)}) }

// TestEtcdctlCluster runs them against three.
func TestEtcdctlCluster(t *testing.T) { runVerbs(t, startCluster(t)) }
