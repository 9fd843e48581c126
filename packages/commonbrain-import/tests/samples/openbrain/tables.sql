-- The table of OpenBrain and a few rows, after the migrations of https://github.com/dAppCore/agent.
-- dump.sql is what `mariadb-dump agentic` (10.11) makes of it, one_line.sql what it makes with
-- --complete-insert --skip-extended-insert --hex-blob --compact.
CREATE TABLE brain_memories (
    id char(36) NOT NULL,
    workspace_id bigint unsigned NOT NULL,
    org varchar(255) DEFAULT NULL,
    agent_id varchar(64) NOT NULL,
    type varchar(32) NOT NULL,
    content text NOT NULL,
    tags longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(tags)),
    project varchar(128) DEFAULT NULL,
    confidence double(8, 2) NOT NULL DEFAULT 0.80,
    source varchar(100) DEFAULT NULL COMMENT 'Origin: manual, ingest:claude-md, ...',
    supersedes_id char(36) DEFAULT NULL,
    expires_at timestamp NULL DEFAULT NULL,
    indexed_at timestamp NULL DEFAULT NULL,
    created_at timestamp NULL DEFAULT NULL,
    updated_at timestamp NULL DEFAULT NULL,
    deleted_at timestamp NULL DEFAULT NULL,
    PRIMARY KEY (id),
    KEY brain_memories_type_index (type),
    CONSTRAINT brain_memories_supersedes_id_foreign FOREIGN KEY (supersedes_id)
        REFERENCES brain_memories (id) ON DELETE SET NULL
) DEFAULT CHARSET = utf8mb4;
CREATE TABLE agent_plans (id int PRIMARY KEY, title varchar(100));
SET time_zone = '+00:00';
INSERT INTO brain_memories (id, workspace_id, org, agent_id, type, content, tags, project,
    confidence, source, supersedes_id, expires_at, created_at, updated_at, deleted_at) VALUES
('019c0000-0000-7000-8000-000000000001', 1, NULL, 'virgil', 'decision',
 'Verdicts are classified by the small model.', '["verdict"]', 'eaas', 0.60, 'manual', NULL, NULL,
 '2026-03-01 10:00:00', '2026-03-05 10:00:00', '2026-03-05 10:00:00'),
('019c0000-0000-7000-8000-000000000002', 1, NULL, 'charon', 'decision',
 'Verdicts are classified by the large model, since the small one is blind to irony.',
 '["verdict","model"]', 'eaas', 0.90, NULL, '019c0000-0000-7000-8000-000000000001', NULL,
 '2026-03-05 10:00:00', '2026-03-05 10:00:00', NULL),
('019c0000-0000-7000-8000-000000000003', 1, 'core', 'virgil', 'bug',
 'LEM\'s "emotional_register" was blind to negative emotions;\nfixed by 8 pattern groups. INSERT INTO `brain_memories` VALUES (1);',
 '["scoring","lem"]', 'lem', 0.95, 'ingest:plans', NULL, NULL, '2026-03-06 10:00:00',
 '2026-03-06 10:00:00', NULL),
('019c0000-0000-7000-8000-000000000004', 1, NULL, 'darbs', 'convention',
 'Never commit generated code.', NULL, NULL, 0.80, NULL, NULL, NULL, '2026-03-07 10:00:00',
 '2026-03-07 10:00:00', NULL),
('019c0000-0000-7000-8000-000000000005', 1, NULL, 'lem', 'observation',
 'Der Lauf heute nacht war grün, 港 😀 und C:\\temp.', '[]', 'lem', 0.50, NULL, NULL,
 '2031-01-01 00:00:00', '2026-03-08 10:00:00', '2026-03-08 10:00:00', NULL),
('019c0000-0000-7000-8000-000000000006', 1, NULL, 'lem', 'research',
 'This was forgotten.', '[]', 'lem', 0.50, NULL, NULL, NULL, '2026-03-08 10:00:00',
 '2026-03-09 10:00:00', '2026-03-09 10:00:00'),
('019c0000-0000-7000-8000-000000000007', 1, NULL, 'virgil', 'service',
 'Qdrant listens on port 6334 of de1.', '["qdrant"]', NULL, 0.80, 'ingest:claude-md', NULL, NULL,
 '2026-03-10 10:00:00', '2026-03-10 10:00:00', NULL);
INSERT INTO agent_plans VALUES (1, 'Not a memory'), (2, 'Nor this');
