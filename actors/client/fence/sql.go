package fence

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"regexp"
)

// SQL guards rows of a database. It keeps the highest token of each subject in a table
// of its own, which Schema describes, and is written for PostgreSQL, SQLite (3.24 or
// later) and what understands their upsert.
type SQL struct {
	// Table keeps the tokens: an identifier, perhaps with a schema's name before it.
	// Default "concord_fences".
	Table string
	// Question has the statement use ? for its parameters rather than $1 and $2: some
	// drivers know only that.
	Question bool
}

// Execer is what runs the statement: a *sql.Tx. A *sql.DB would do too, but then the
// write that follows is not one step with the look, and is not protected.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

func (g SQL) table() (string, error) {
	switch {
	case g.Table == "":
		return "concord_fences", nil
	case !identifier.MatchString(g.Table):
		return "", fmt.Errorf("fence: %q is not the name of a table", g.Table)
	}
	return g.Table, nil
}

// Schema returns the statement that creates the table unless it is there.
func (g SQL) Schema() (string, error) {
	table, err := g.table()
	if err != nil {
		return "", err
	}
	return "CREATE TABLE IF NOT EXISTS " + table + " (subject TEXT PRIMARY KEY, token BIGINT NOT NULL)", nil
}

// Statement returns what Accept runs, with the subject and the token as parameters. It
// changes one row if the token is accepted and none if it is stale.
func (g SQL) Statement() (string, error) {
	table, err := g.table()
	if err != nil {
		return "", err
	}
	subject, token := "$1", "$2"
	if g.Question {
		subject, token = "?", "?"
	}
	return fmt.Sprintf("INSERT INTO %[1]s (subject, token) VALUES (%[2]s, %[3]s) "+
		"ON CONFLICT (subject) DO UPDATE SET token = excluded.token WHERE %[1]s.token <= excluded.token",
		table, subject, token), nil
}

// Accept accepts the token inside the caller's transaction or returns a *StaleError.
// Call it before the writes that it guards and roll back after an error. The row stays
// locked until the transaction ends, so a higher token waits for it, and a lower one
// that comes later is refused.
func (g SQL) Accept(ctx context.Context, tx Execer, subject string, t Token) error {
	if t == 0 || t > math.MaxInt64 {
		return &StaleError{Subject: subject, Token: t}
	}
	statement, err := g.Statement()
	if err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, statement, subject, int64(t))
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return &StaleError{Subject: subject, Token: t}
	}
	return nil
}
