package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/fence"
)

func TestMain(m *testing.M) { recipetest.Main(m) }

func TestToken(t *testing.T) {
	for text, want := range map[string]fence.Token{"1": 1, "18446744073709551615": 1<<64 - 1, "": 0, "0": 0, "-1": 0, "x": 0} {
		got, err := fence.Parse(text)
		if got != want || (err == nil) != (want != 0) || err == nil && got.String() != text {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
}

// What was accepted is never undercut, by whatever order.
func TestMemory(t *testing.T) {
	var m fence.Memory
	errWrite := errors.New("write")
	steps := []struct {
		token fence.Token
		write error
		want  error
	}{
		{0, nil, fence.ErrStale}, {5, nil, nil}, {5, nil, nil}, {4, nil, fence.ErrStale}, {7, errWrite, errWrite}, {6, nil, fence.ErrStale}, {7, nil, nil},
	}
	for i, s := range steps {
		ran := false
		err := m.Do("x", s.token, func() error { ran = true; return s.write })
		if !errors.Is(err, s.want) || ran != (s.want != fence.ErrStale) {
			t.Errorf("step %d: %v, ran %v", i, err, ran)
		}
	}
	if m.Highest() != 7 {
		t.Error(m.Highest())
	}
	last := fence.Token(0) // guarded by the guard
	var wg sync.WaitGroup
	var crowd fence.Memory
	for i := range 64 {
		wg.Go(func() {
			token := fence.Token(i%16 + 1)
			err := crowd.Do("x", token, func() error {
				if token < last {
					t.Errorf("%d after %d", token, last)
				}
				last = token
				return nil
			})
			if err != nil && !errors.Is(err, fence.ErrStale) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// The guard in the store: the operations and the look are one step.
func TestKey(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	c := w.Admin()
	key := fence.Key("/fence")
	put := func(token fence.Token, value string) error {
		_, err := key.Do(ctx, c, token, client.OpPut("/data", []byte(value), client.PutOptions{}))
		return err
	}
	for _, s := range []struct {
		token fence.Token
		ok    bool
		want  string
	}{
		{9, true, "9"}, {10, true, "10"}, {9, false, "10"}, {10, true, "10"}, {0, false, "10"},
		{1 << 60, true, "1152921504606846976"}, {1<<60 - 1, false, "1152921504606846976"}, // beyond what a float holds
	} {
		err := put(s.token, s.token.String())
		if (err == nil) != s.ok || err != nil && !errors.Is(err, fence.ErrStale) {
			t.Fatal(s.token, err)
		}
		g, err := c.Get(ctx, "/data", client.GetOptions{})
		if err != nil || string(g.Record.GetValue()) != s.want {
			t.Fatal(s.token, string(g.Record.GetValue()), err)
		}
	}
	var stale *fence.StaleError
	if err := put(3, "3"); !errors.As(err, &stale) || stale.Highest != 1<<60 || stale.Subject != "/fence" {
		t.Fatal(err)
	}
}

// execer runs statements in the sqlite3 program, one database for all.
type execer struct{ file string }

func (e execer) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	for _, a := range args {
		text := fmt.Sprint(a)
		if s, ok := a.(string); ok {
			text = "'" + strings.ReplaceAll(s, "'", "''") + "'"
		}
		query = strings.Replace(query, "?", text, 1)
	}
	out, err := exec.Command("sqlite3", e.file, query+"; SELECT changes();").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	var n changes
	_, err = fmt.Sscan(string(out), &n)
	return n, err
}

type changes int64

func (changes) LastInsertId() (int64, error)   { return 0, errors.ErrUnsupported }
func (n changes) RowsAffected() (int64, error) { return int64(n), nil }

// The statement on a real SQLite, where the machine has one.
func TestSQLite(t *testing.T) {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip(err)
	}
	db := execer{t.TempDir() + "/db"}
	ctx := context.Background()
	g := fence.SQL{Question: true}
	schema, err := g.Schema()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := db.ExecContext(ctx, schema); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range []struct {
		subject string
		token   fence.Token
		ok      bool
	}{
		{"a", 5, true}, {"a", 5, true}, {"a", 4, false}, {"b", 1, true}, {"a", 1 << 62, true}, {"a", 6, false},
		{"o'x", 2, true}, {"a", 0, false}, {"a", 1 << 63, false},
	} {
		if err := g.Accept(ctx, db, s.subject, s.token); (err == nil) != s.ok || err != nil && !errors.Is(err, fence.ErrStale) {
			t.Fatal(i, err)
		}
	}
}

func TestSQLStatement(t *testing.T) {
	got, err := fence.SQL{Table: "app.fences"}.Statement()
	want := "INSERT INTO app.fences (subject, token) VALUES ($1, $2) ON CONFLICT (subject) DO UPDATE SET token = excluded.token WHERE app.fences.token <= excluded.token"
	if err != nil || got != want {
		t.Fatal(got, err)
	}
	for _, bad := range []string{"a b", "a;", `a"`, "1a", "a.b.c", "a'--"} {
		if _, err := (fence.SQL{Table: bad}).Schema(); err == nil {
			t.Errorf("%q was taken", bad)
		}
		if err := (fence.SQL{Table: bad}).Accept(context.Background(), nil, "x", 1); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
