// Package store keeps the reference control plane's state in one SQLite file.
//
// It owns every SQL statement. A write that was acknowledged is on disk (WAL,
// synchronous=FULL) and survives a kill or a power loss. It never talks HTTP
// and runs no goroutine of its own beside those of database/sql.
package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver, pure Go

	"github.com/heteroflow/node-agent/protocol"
)

// Errors of this package that callers decide by.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
)

// ConflictError is a compare-and-set that lost. Task is the task as it is
// stored now, nil for a request.
type ConflictError struct {
	Message string
	Task    *protocol.Task
}

func (e *ConflictError) Error() string { return e.Message }

// IllegalTransitionError is a step that the rules do not have.
type IllegalTransitionError struct {
	From, To string
}

func (e *IllegalTransitionError) Error() string {
	return fmt.Sprintf("no step leads from %q to %q", e.From, e.To)
}

//go:embed migrations.sql
var migrations string

// Store is the open database. One connection writes, several read.
type Store struct {
	w, r    *sql.DB
	changed func(nodeID string)
}

const readers = 4

// Open opens the database file, creates it (mode 0600: it holds registry
// credentials of tasks) or brings an older one up to date. changed is called
// after each commit that gave a node something to look at.
func Open(ctx context.Context, path string, changed func(nodeID string)) (*Store, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	s := &Store{changed: changed}
	if s.w, err = connect(abs, 1, "_txlock=immediate"); err != nil {
		return nil, err
	}
	if s.r, err = connect(abs, readers, "_pragma=query_only(1)"); err != nil {
		return nil, errors.Join(err, s.w.Close())
	}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("migrate database %s: %w", path, err), s.Close())
	}
	return s, nil
}

func connect(path string, conns int, extra string) (*sql.DB, error) {
	query := "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&" + extra
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: query}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// Close closes the database.
func (s *Store) Close() error { return errors.Join(s.r.Close(), s.w.Close()) }

func (s *Store) migrate(ctx context.Context) error {
	steps := strings.Split(migrations, "\n---\n")
	return s.write(ctx, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		if version > len(steps) {
			return fmt.Errorf("schema version %d is newer than this program's %d", version, len(steps))
		}
		for i, step := range steps[version:] {
			if _, err := tx.ExecContext(ctx, step); err != nil {
				return fmt.Errorf("to version %d: %w", version+i+1, err)
			}
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
		return err
	})
}

// write runs do in one transaction; only one runs at a time.
func (s *Store) write(ctx context.Context, do func(*sql.Tx) error) (err error) {
	tx, err := s.w.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		if back := tx.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) {
			err = errors.Join(err, back)
		}
	}()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// writeFor is write for a transaction that may give nodes something to look
// at; do returns those nodes.
func (s *Store) writeFor(ctx context.Context, do func(*sql.Tx) ([]string, error)) error {
	var nodes []string
	err := s.write(ctx, func(tx *sql.Tx) error {
		var err error
		nodes, err = do(tx)
		return err
	})
	if err != nil {
		return err
	}
	for _, node := range nodes {
		s.changed(node)
	}
	return nil
}

func stamp(t time.Time) int64      { return t.UnixMicro() }
func fromStamp(us int64) time.Time { return time.UnixMicro(us).UTC() }
func now() int64                   { return stamp(time.Now()) }

// placeholders returns n question marks for an IN list.
func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// collect reads all rows.
func collect[T any](rows *sql.Rows, scan func(*sql.Rows) (T, error)) (_ []T, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	all := []T{}
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
