-- The tables of Open Brain 2 and a few rows, after brain_v2/schema.py and store.py of
-- https://github.com/shep-engineering/open-brain; its server needs Ollama to write them.
CREATE TABLE rules (
    id serial PRIMARY KEY,
    headline text NOT NULL,
    body text NOT NULL,
    severity text NOT NULL,
    project text NOT NULL DEFAULT '',
    source text NOT NULL DEFAULT '',
    supersedes integer REFERENCES rules (id) ON DELETE SET NULL,
    superseded_by integer REFERENCES rules (id) ON DELETE SET NULL,
    supersede_reason text,
    linked_incident_ids integer[] NOT NULL DEFAULT ARRAY[]::integer[],
    skill_trigger jsonb,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE facts (
    id serial PRIMARY KEY,
    headline text NOT NULL,
    body text NOT NULL,
    project text NOT NULL DEFAULT '',
    tags text[] NOT NULL DEFAULT ARRAY[]::text[],
    ttl timestamptz,
    confidence real NOT NULL DEFAULT 1.0,
    access_count integer NOT NULL DEFAULT 0,
    last_accessed timestamptz,
    source text NOT NULL DEFAULT '',
    supersedes integer,
    superseded_by integer,
    supersede_reason text,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE incidents (
    id serial PRIMARY KEY,
    headline text NOT NULL,
    body text NOT NULL,
    project text NOT NULL DEFAULT '',
    root_cause text,
    resolution text,
    linked_rule_ids integer[] NOT NULL DEFAULT ARRAY[]::integer[],
    occurred_at timestamptz NOT NULL DEFAULT now(),
    last_accessed timestamptz,
    archived boolean NOT NULL DEFAULT false,
    source text NOT NULL DEFAULT ''
);
CREATE TABLE tasks (
    id serial PRIMARY KEY,
    content text NOT NULL,
    project text NOT NULL DEFAULT '',
    priority text NOT NULL DEFAULT 'medium',
    status text NOT NULL DEFAULT 'open',
    due_condition text,
    created_session text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE memory_index (
    kind text NOT NULL,
    memory_id integer NOT NULL,
    project text NOT NULL DEFAULT '',
    headline text NOT NULL,
    severity text,
    skill_trigger jsonb,
    embedding vector(3),
    pinned boolean NOT NULL DEFAULT false,
    active boolean NOT NULL DEFAULT true,
    forgotten_at timestamptz,
    forgotten_reason text,
    forgotten_by text,
    annotation text,
    upvotes integer NOT NULL DEFAULT 0,
    downvotes integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (kind, memory_id)
);
CREATE TABLE action_items (
    id serial PRIMARY KEY,
    source_kind text NOT NULL,
    source_id integer NOT NULL,
    text text NOT NULL,
    project text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'pending',
    kind text NOT NULL DEFAULT 'task',
    ack_reason text,
    ack_source text,
    ack_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE handoffs (
    id serial PRIMARY KEY,
    session_id integer,
    source text NOT NULL,
    project text NOT NULL DEFAULT '',
    content text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE active_sessions (
    id serial PRIMARY KEY,
    source text NOT NULL,
    project text NOT NULL DEFAULT '',
    cwd text NOT NULL DEFAULT '',
    pid integer,
    host text NOT NULL DEFAULT '',
    current_task text,
    started_at timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    status text NOT NULL DEFAULT 'active',
    metadata jsonb,
    pid_create_time double precision
);
CREATE TABLE maintenance_runs (
    id serial PRIMARY KEY,
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    report jsonb,
    source text NOT NULL DEFAULT ''
);
CREATE TABLE v2_audit (
    audit_id serial PRIMARY KEY,
    operation text NOT NULL,
    kind text NOT NULL DEFAULT '',
    memory_id integer NOT NULL DEFAULT 0,
    snapshot jsonb,
    source text,
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE tool_events (
    id bigserial PRIMARY KEY,
    session_id integer,
    tool_name text NOT NULL,
    project text NOT NULL DEFAULT '',
    source text NOT NULL DEFAULT '',
    duration_ms integer,
    success boolean NOT NULL DEFAULT true,
    error_msg text,
    occurred_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO rules (id, headline, body, severity, project, source, supersedes, supersede_reason,
                   linked_incident_ids, skill_trigger, created_at)
VALUES
    (1, 'Deploy only from main', 'Never deploy from a branch.', 'DEPRECATED', 'harbour', 'claude',
     NULL, NULL, '{}', NULL, '2026-02-01T09:00:00Z'),
    (2, 'Deploy only from signed tags', 'Never deploy anything but a signed tag.', 'BLOCKER',
     'harbour', 'claude', 1, 'Branches can be moved.', '{1}',
     '{"name": "deploy-tags", "keywords": ["deploy", "release"], "always_on": true}',
     '2026-02-03T09:00:00Z'),
    (3, 'Times are in UTC', 'Write every time in UTC.', 'CONTEXT', '', 'cursor', NULL, NULL, '{}',
     NULL, '2026-02-04T09:00:00Z'),
    (4, 'Deploy at night', 'Deploy at night alone.', 'PATTERN', 'harbour', 'cursor', NULL,
     'It was undone.', '{}', NULL, '2026-02-05T09:00:00Z');
UPDATE rules SET superseded_by = 2 WHERE id = 1;
INSERT INTO facts (id, headline, body, project, tags, ttl, confidence, access_count, source,
                   superseded_by, supersede_reason, created_at)
VALUES
    (1, 'Trello holds the tickets', 'Tickets are in Trello.', 'harbour', '{tickets}', NULL, 0.75, 3,
     'claude', 2, 'switched tools', '2026-02-05T09:00:00Z'),
    (2, 'Linear holds the tickets', 'Tickets are in Linear now.', 'harbour', '{tickets,tools}',
     '2031-01-01T00:00:00Z', 0.9, 0, 'claude', NULL, NULL, '2026-02-06T09:00:00Z'),
    (3, 'The old crane is blue', 'The old crane is blue.', '', '{}', NULL, 1, 0, 'claude', NULL,
     NULL, '2026-02-07T09:00:00Z');
INSERT INTO incidents (id, headline, body, project, root_cause, resolution, linked_rule_ids,
                       occurred_at, archived, source)
VALUES (1, 'A branch went live', 'A half-done branch was deployed to production.', 'harbour',
        'The branch was force-pushed.', 'Rolled back within ten minutes.', '{2}',
        '2026-02-02T15:00:00Z', true, 'claude');
INSERT INTO tasks (id, content, project, priority, status, due_condition, created_at)
VALUES
    (1, 'Rotate the key of the signing machine', 'harbour', 'high', 'blocked', '2026-04-01',
     '2026-02-08T09:00:00Z'),
    (2, 'Describe the release in the runbook', '', 'low', 'done', 'after the next release',
     '2026-02-09T09:00:00Z');
INSERT INTO memory_index (kind, memory_id, project, headline, pinned, active, forgotten_at,
                          annotation, upvotes, downvotes)
VALUES
    ('rule', 1, 'harbour', 'Deploy only from main', true, false, NULL, NULL, 0, 0),
    ('rule', 2, 'harbour', 'Deploy only from signed tags', true, true, NULL, NULL, 2, 0),
    ('rule', 3, '', 'Times are in UTC', false, true, NULL, NULL, 0, 0),
    ('rule', 4, 'harbour', 'Deploy at night', false, false, NULL, NULL, 0, 0),
    ('fact', 1, 'harbour', 'Trello holds the tickets', false, false, NULL, NULL, 0, 0),
    ('fact', 2, 'harbour', 'Linear holds the tickets', false, true, NULL,
     'The team calls it the board.', 0, 3),
    ('fact', 3, '', 'The old crane is blue', false, false, '2026-02-10T09:00:00Z', NULL, 0, 0),
    ('incident', 1, 'harbour', 'A branch went live', false, true, NULL, NULL, 0, 0),
    ('task', 1, 'harbour', 'Rotate the key', false, true, NULL, NULL, 0, 0),
    ('task', 2, '', 'Describe the release', false, false, NULL, NULL, 0, 0);
UPDATE memory_index SET created_at = '2026-02-02T15:30:00Z' WHERE kind = 'incident';
INSERT INTO action_items (id, source_kind, source_id, text, project, status, kind, ack_reason,
                          ack_source, ack_at, created_at)
VALUES
    (1, 'incident', 1, 'Forbid force-pushes to release branches.', 'harbour', 'pending', 'rule',
     NULL, NULL, NULL, '2026-02-02T16:00:00Z'),
    (2, 'incident', 1, 'Tell the pilots about the outage.', 'harbour', 'already_done', 'task',
     'Ana called them.', 'cursor', '2026-02-03T08:00:00Z', '2026-02-02T16:00:00Z');
INSERT INTO handoffs (id, source, project, content, created_at)
VALUES (1, 'claude', 'harbour', 'The tag job works; the key still has to be rotated.',
        '2026-02-11T18:00:00Z');
INSERT INTO v2_audit (operation) VALUES ('INSERT'), ('SUPERSEDE'), ('FORGET');
