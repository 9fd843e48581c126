-- The tables of Open Brain 1 (0.14) and a few rows, after scripts/setup_db.py of
-- https://github.com/shep-engineering/open-brain; its server needs Ollama to write them.
CREATE TABLE memories (
    id serial PRIMARY KEY,
    content text NOT NULL,
    embedding vector(3),
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    project text NOT NULL DEFAULT '',
    annotation text NOT NULL DEFAULT '',
    access_count integer NOT NULL DEFAULT 0,
    last_accessed timestamptz,
    upvotes integer NOT NULL DEFAULT 0,
    downvotes integer NOT NULL DEFAULT 0,
    pinned boolean NOT NULL DEFAULT false,
    updated_at timestamptz,
    projects text[] NOT NULL DEFAULT ARRAY[]::text[],
    valid_time timestamptz NOT NULL DEFAULT now(),
    transaction_time timestamptz NOT NULL DEFAULT now(),
    superseded_by_id integer REFERENCES memories (id) ON DELETE SET NULL,
    superseded_at timestamptz,
    superseded_reason text,
    skill_trigger jsonb,
    last_accessed_uptime float
);
CREATE TABLE memories_audit (
    audit_id serial PRIMARY KEY,
    operation text NOT NULL,
    memory_id integer NOT NULL,
    content text,
    metadata jsonb,
    project text,
    pinned boolean,
    changed_at timestamptz NOT NULL DEFAULT now(),
    changed_by text NOT NULL DEFAULT ''
);
CREATE TABLE active_sessions (
    id bigserial PRIMARY KEY,
    source text NOT NULL,
    project text,
    cwd text,
    pid integer,
    host text,
    current_task text,
    started_at timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    status text NOT NULL DEFAULT 'active',
    metadata jsonb,
    pid_create_time double precision
);
CREATE TABLE server_uptime (
    id integer PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    total_seconds float NOT NULL DEFAULT 0,
    last_heartbeat timestamptz DEFAULT now()
);
INSERT INTO memories
    (id, content, embedding, metadata, project, projects, pinned, upvotes, downvotes, access_count,
     annotation, created_at, valid_time, superseded_by_id, superseded_reason, skill_trigger)
VALUES
    (1, 'The web server starts with the first client.', '[1,2,3]',
     '{"type": "insight", "source": "claude", "tags": ["boot"], "topics": ["Server"]}',
     'harbour', '{}', false, 0, 1, 4, '', '2026-01-02T10:00:00Z', '2026-01-02T10:00:00Z', NULL,
     NULL, NULL),
    (2, 'The web server starts with the machine, by systemd.', '[1,2,4]',
     '{"type": "insight", "source": "cursor"}',
     'harbour', '{}', false, 0, 0, 0, '', '2026-01-05T10:00:00Z', '2026-01-05T10:00:00Z', NULL,
     NULL, NULL),
    (3, 'The web server starts when a client connects, by its socket.', '[1,2,5]',
     '{"type": "decision", "source": "cursor", "people": ["Ana", "Ben"], "auto_captured": true}',
     'harbour', '{harbour,dock,"north quay"}', false, 3, 1, 0,
     'The socket unit is in the infra repository.', '2026-01-09T10:00:00Z', '2026-01-08T09:00:00Z',
     NULL, NULL, NULL),
    (4, 'Never restart the database while a crane moves.', NULL,
     '{"type": "note", "source": "claude"}', 'harbour', '{}', true, 0, 0, 0, '',
     '2026-01-10T10:00:00Z', '2026-01-10T10:00:00Z', NULL, NULL, NULL),
    (5, 'Shut Ollama down with SIGTERM and wait for its models to unload.', NULL,
     '{"type": "procedural", "source": "claude"}', '', '{}', true, 0, 0, 0, '',
     '2026-01-11T10:00:00Z', '2026-01-11T10:00:00Z', NULL, NULL,
     '{"name": "ollama-shutdown-graceful", "keywords": ["ollama", "shutdown"], "projects": [],
       "always_on": false}'),
    (6, 'We need to follow up with the pilots about the new berth plan.', NULL,
     '{"type": "task", "source": "claude", "action_items": ["follow up with the pilots"]}', '',
     '{}', false, 0, 0, 0, '', '2026-01-12T10:00:00Z', '2026-01-12T10:00:00Z', NULL, NULL, NULL),
    (7, E'Tab\there, a backslash \\ and two\nlines: Grüße, 港.', NULL,
     '{"type": "recipe", "source": "windsurf"}', '', '{}', false, 0, 0, 0, '',
     '2026-01-13T10:00:00Z', '2026-01-13T10:00:00Z', NULL, NULL, '{"name": "Not A Name"}');
UPDATE memories SET superseded_by_id = 2, superseded_reason = 'It moved to systemd.',
    superseded_at = '2026-01-05T11:00:00Z', last_accessed = '2026-01-20T10:00:00Z' WHERE id = 1;
UPDATE memories SET superseded_by_id = 3, superseded_reason = 'It has a socket now.' WHERE id = 2;
UPDATE memories SET transaction_time = created_at;
INSERT INTO memories_audit (operation, memory_id, content)
VALUES ('INSERT', 1, 'The web server starts with the first client.'), ('UPDATE', 1, NULL);
