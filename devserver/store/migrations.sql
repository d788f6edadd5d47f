-- Version 1. A migration is never edited once released: append the next one
-- after a line that holds only "---".
CREATE TABLE tasks (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT, -- order of creation
  id         TEXT NOT NULL UNIQUE,
  status     TEXT NOT NULL,
  node_id    TEXT NOT NULL,
  generation INTEGER NOT NULL,
  spec       TEXT NOT NULL,                     -- protocol.Task; the columns above decide over it
  outcome    TEXT NOT NULL DEFAULT '{}',        -- operator.Outcome
  created_at INTEGER NOT NULL,                  -- microseconds since 1970
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX tasks_by_node ON tasks (node_id, status, seq);

CREATE TABLE events (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  task_id     TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
  at          INTEGER NOT NULL,
  kind        TEXT NOT NULL,
  from_status TEXT NOT NULL,
  to_status   TEXT NOT NULL,
  node_id     TEXT NOT NULL,
  generation  INTEGER NOT NULL,
  reason      TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_task ON events (task_id, seq);

CREATE TABLE requests (
  seq           INTEGER PRIMARY KEY AUTOINCREMENT,
  channel       TEXT NOT NULL,
  id            TEXT NOT NULL,
  node_id       TEXT NOT NULL,
  status        TEXT NOT NULL,
  spec          TEXT NOT NULL,                  -- SliceRequest, ImageRequest or FileRequest
  result        TEXT NOT NULL DEFAULT '',
  reason        TEXT NOT NULL DEFAULT '',
  error_message TEXT NOT NULL DEFAULT '',
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  UNIQUE (channel, id)
) STRICT;
CREATE INDEX requests_by_node ON requests (node_id, channel, status, seq);

-- One number a node, larger after everything the node should look at.
CREATE TABLE changes (
  node_id TEXT PRIMARY KEY,
  change  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Tasks a node holds whose wanted state changed; outlives the task's row, so
-- that a deletion is told too. Settled by the node's next update of the task.
CREATE TABLE intents (
  node_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  change  INTEGER NOT NULL,
  PRIMARY KEY (node_id, task_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE nodes (
  node_id     TEXT PRIMARY KEY,
  drain       INTEGER NOT NULL DEFAULT 0,
  received_at INTEGER,
  heartbeat   TEXT,                             -- as received
  kept        TEXT NOT NULL DEFAULT '{}'        -- store.Kept
) STRICT, WITHOUT ROWID;

CREATE TABLE instances (
  node_id     TEXT NOT NULL,
  instance_id TEXT NOT NULL,
  boot_id     TEXT NOT NULL,
  first_seen  INTEGER NOT NULL,
  last_seen   INTEGER NOT NULL,
  PRIMARY KEY (node_id, instance_id)
) STRICT, WITHOUT ROWID;
