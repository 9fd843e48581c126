BEGIN TRANSACTION;
CREATE TABLE "observations" (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        memory_session_id TEXT NOT NULL,
        project TEXT NOT NULL,
        text TEXT,
        type TEXT NOT NULL,
        title TEXT,
        subtitle TEXT,
        facts TEXT,
        narrative TEXT,
        concepts TEXT,
        files_read TEXT,
        files_modified TEXT,
        prompt_number INTEGER,
        created_at TEXT NOT NULL,
        created_at_epoch INTEGER NOT NULL, discovery_tokens INTEGER DEFAULT 0, content_hash TEXT, generated_by_model TEXT, relevance_count INTEGER DEFAULT 0, merged_into_project TEXT, agent_type TEXT, agent_id TEXT, metadata TEXT, synced_at INTEGER, origin_device_id TEXT, origin_local_id TEXT, sync_rev TEXT NOT NULL DEFAULT '1',
        FOREIGN KEY(memory_session_id) REFERENCES sdk_sessions(memory_session_id) ON DELETE CASCADE ON UPDATE CASCADE
      );
INSERT INTO "observations" VALUES(1,'memory-1','harbour',NULL,'bugfix','Booking page crash on leap days','The tide table had no row for 29 February.','["tides.sql had 365 rows","The test now covers leap years"]','The page crashed because the tide table had no row for a leap day. The row was added.','["problem-solution","gotcha"]','["src/booking.py"]','["sql/tides.sql"]',1,'2026-03-01T09:00:00.000Z',1772355600000,1200,'2371d8654668fead','claude-sonnet',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'1');
INSERT INTO "observations" VALUES(2,'memory-1','harbour',NULL,'decision','Tides are computed, not stored',NULL,'[]','The team decided to compute tides from the harmonic constants.','["trade-off"]','[]','[]',2,'2026-03-01T09:01:00.000Z',1772355660000,300,'c9e62b9403d72d76','claude-sonnet',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'1');
INSERT INTO "observations" VALUES(3,'memory-1','harbour',NULL,'discovery','Berths are locked by row',NULL,'[]','A booking locks its berth row.','[]','[]','[]',2,'2026-03-01T09:02:00.000Z',1772355720000,100,'f71de49b35bb3242',NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'1');
CREATE TABLE pending_messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_db_id INTEGER NOT NULL,
        content_session_id TEXT NOT NULL,
        message_type TEXT NOT NULL CHECK(message_type IN ('observation', 'summarize')),
        tool_name TEXT,
        tool_input TEXT,
        tool_response TEXT,
        cwd TEXT,
        last_user_message TEXT,
        last_assistant_message TEXT,
        prompt_number INTEGER,
        status TEXT NOT NULL DEFAULT 'pending' CHECK(status IN ('pending', 'processing')),
        created_at_epoch INTEGER NOT NULL, agent_type TEXT, agent_id TEXT, tool_use_id TEXT,
        FOREIGN KEY (session_db_id) REFERENCES sdk_sessions(id) ON DELETE CASCADE
      );
CREATE TABLE schema_versions (
        id INTEGER PRIMARY KEY,
        version INTEGER UNIQUE NOT NULL,
        applied_at TEXT NOT NULL
      );
INSERT INTO "schema_versions" VALUES(1,4,'2026-11-26T13:00:18.760Z');
INSERT INTO "schema_versions" VALUES(2,5,'2026-11-26T13:00:18.761Z');
INSERT INTO "schema_versions" VALUES(3,6,'2026-11-26T13:00:18.762Z');
INSERT INTO "schema_versions" VALUES(4,7,'2026-11-26T13:00:18.769Z');
INSERT INTO "schema_versions" VALUES(5,8,'2026-11-26T13:00:18.770Z');
INSERT INTO "schema_versions" VALUES(6,9,'2026-11-26T13:00:18.772Z');
INSERT INTO "schema_versions" VALUES(7,10,'2026-11-26T13:00:18.777Z');
INSERT INTO "schema_versions" VALUES(8,11,'2026-11-26T13:00:18.778Z');
INSERT INTO "schema_versions" VALUES(9,16,'2026-11-26T13:00:18.781Z');
INSERT INTO "schema_versions" VALUES(10,17,'2026-11-26T13:00:18.782Z');
INSERT INTO "schema_versions" VALUES(11,20,'2026-11-26T13:00:18.785Z');
INSERT INTO "schema_versions" VALUES(12,21,'2026-11-26T13:00:18.785Z');
INSERT INTO "schema_versions" VALUES(13,22,'2026-11-26T13:00:18.786Z');
INSERT INTO "schema_versions" VALUES(14,23,'2026-11-26T13:00:18.787Z');
INSERT INTO "schema_versions" VALUES(15,24,'2026-11-26T13:00:18.798Z');
INSERT INTO "schema_versions" VALUES(16,26,'2026-11-26T13:00:18.799Z');
INSERT INTO "schema_versions" VALUES(17,27,'2026-11-26T13:00:18.802Z');
INSERT INTO "schema_versions" VALUES(18,29,'2026-11-26T13:00:18.802Z');
INSERT INTO "schema_versions" VALUES(19,30,'2026-11-26T13:00:18.803Z');
INSERT INTO "schema_versions" VALUES(20,31,'2026-11-26T13:00:18.805Z');
INSERT INTO "schema_versions" VALUES(21,28,'2026-11-26T13:00:18.806Z');
INSERT INTO "schema_versions" VALUES(22,32,'2026-11-26T13:00:18.807Z');
INSERT INTO "schema_versions" VALUES(23,33,'2026-11-26T13:00:18.808Z');
INSERT INTO "schema_versions" VALUES(24,34,'2026-11-26T13:00:18.811Z');
INSERT INTO "schema_versions" VALUES(25,35,'2026-11-26T13:00:18.812Z');
INSERT INTO "schema_versions" VALUES(26,39,'2026-11-26T13:00:18.815Z');
INSERT INTO "schema_versions" VALUES(27,41,'2026-11-26T13:00:18.819Z');
INSERT INTO "schema_versions" VALUES(28,42,'2026-11-26T13:00:18.820Z');
INSERT INTO "schema_versions" VALUES(29,44,'2026-11-26T13:00:18.823Z');
INSERT INTO "schema_versions" VALUES(30,45,'2026-11-26T13:00:18.823Z');
INSERT INTO "schema_versions" VALUES(31,46,'2026-11-26T13:00:18.825Z');
INSERT INTO "schema_versions" VALUES(32,47,'2026-11-26T13:00:18.826Z');
INSERT INTO "schema_versions" VALUES(33,48,'2026-11-26T13:00:18.826Z');
INSERT INTO "schema_versions" VALUES(34,49,'2026-11-26T13:00:18.827Z');
INSERT INTO "schema_versions" VALUES(35,50,'2026-11-26T13:00:18.828Z');
INSERT INTO "schema_versions" VALUES(36,51,'2026-11-26T13:00:18.831Z');
INSERT INTO "schema_versions" VALUES(37,52,'2026-11-26T13:00:18.831Z');
CREATE TABLE sdk_sessions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        content_session_id TEXT NOT NULL,
        memory_session_id TEXT UNIQUE,
        project TEXT NOT NULL,
        platform_source TEXT NOT NULL DEFAULT 'claude',
        user_prompt TEXT,
        started_at TEXT NOT NULL,
        started_at_epoch INTEGER NOT NULL,
        completed_at TEXT,
        completed_at_epoch INTEGER,
        status TEXT CHECK(status IN ('active', 'completed', 'failed')) NOT NULL DEFAULT 'active'
      , worker_port INTEGER, prompt_counter INTEGER DEFAULT 0, custom_title TEXT, observed_model TEXT, observed_billing TEXT);
INSERT INTO "sdk_sessions" VALUES(1,'content-1','memory-1','harbour','claude','Why does the booking page crash?','2026-11-26T13:00:18.831Z',1795698018831,'2026-11-26T13:00:18.858Z',1795698018858,'completed',NULL,0,NULL,NULL,NULL);
CREATE TABLE "session_summaries" (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        memory_session_id TEXT NOT NULL,
        project TEXT NOT NULL,
        request TEXT,
        investigated TEXT,
        learned TEXT,
        completed TEXT,
        next_steps TEXT,
        files_read TEXT,
        files_edited TEXT,
        notes TEXT,
        prompt_number INTEGER,
        created_at TEXT NOT NULL,
        created_at_epoch INTEGER NOT NULL, discovery_tokens INTEGER DEFAULT 0, merged_into_project TEXT, synced_at INTEGER, origin_device_id TEXT, origin_local_id TEXT, sync_rev TEXT NOT NULL DEFAULT '1',
        FOREIGN KEY(memory_session_id) REFERENCES sdk_sessions(memory_session_id) ON DELETE CASCADE ON UPDATE CASCADE
      );
INSERT INTO "session_summaries" VALUES(1,'memory-1','harbour','Fix the crash of the booking page','The tide table and its loader','Leap days had no row','The row was added and tested','Compute tides','[]','[]',NULL,2,'2026-03-01T09:03:00.000Z',1772355780000,50,NULL,NULL,NULL,NULL,'1');
CREATE TABLE sync_content_outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        entity_id TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('observation', 'summary', 'prompt')),
        origin_local_id TEXT NOT NULL,
        entity_rev TEXT NOT NULL,
        body TEXT NOT NULL,
        operation_sha256 TEXT NOT NULL,
        deleted INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1)),
        created_at_epoch INTEGER NOT NULL,
        UNIQUE(entity_id, entity_rev)
      );
CREATE TABLE sync_dead_letter (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        lane TEXT NOT NULL CHECK (lane IN ('content', 'mutation')),
        queue_key TEXT NOT NULL,
        kind TEXT,
        origin_local_id TEXT,
        entity_rev TEXT,
        reason TEXT NOT NULL,
        raw_body TEXT,
        created_at_epoch INTEGER NOT NULL,
        UNIQUE(lane, queue_key, entity_rev, reason)
      );
CREATE TABLE sync_entity_heads (
        entity_id TEXT PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('observation', 'summary', 'prompt')),
        origin_device_id TEXT NOT NULL,
        origin_local_id TEXT NOT NULL,
        entity_rev TEXT NOT NULL,
        operation_sha256 TEXT NOT NULL,
        deleted INTEGER NOT NULL CHECK (deleted IN (0, 1)),
        updated_at_epoch INTEGER NOT NULL
      );
CREATE TABLE sync_launch_exclusions (
        kind TEXT NOT NULL CHECK (kind IN ('observation', 'summary', 'prompt')),
        origin_local_id TEXT NOT NULL,
        through_rev TEXT NOT NULL,
        PRIMARY KEY (kind, origin_local_id)
      );
CREATE TABLE sync_outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        op_uuid TEXT NOT NULL UNIQUE,
        rev TEXT NOT NULL DEFAULT '1',
        body TEXT NOT NULL,
        canonical_body TEXT,
        operation_sha256 TEXT,
        created_at_epoch INTEGER NOT NULL
      );
CREATE TABLE sync_state (
        k TEXT PRIMARY KEY,
        v TEXT
      );
CREATE TABLE telegram_wrapups (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        platform_source TEXT NOT NULL,
        content_session_id TEXT NOT NULL,
        project TEXT NOT NULL,
        route_key TEXT NOT NULL,
        summary_created_at_epoch INTEGER NOT NULL,
        status TEXT NOT NULL CHECK(status IN ('claimed', 'sent')),
        claimed_at_epoch INTEGER NOT NULL,
        sent_at_epoch INTEGER,
        UNIQUE(platform_source, content_session_id, project, route_key)
      );
CREATE TABLE tool_uses (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      tool_use_id TEXT NOT NULL,
      content_session_id TEXT NOT NULL,
      memory_session_id TEXT,
      session_db_id INTEGER,
      project TEXT NOT NULL,
      platform_source TEXT NOT NULL DEFAULT 'claude',
      tool_name TEXT NOT NULL,
      tool_input TEXT,
      tool_response TEXT,
      cwd TEXT,
      prompt_number INTEGER,
      agent_type TEXT,
      agent_id TEXT,
      observation_id INTEGER,
      or_generation_id TEXT,
      or_session_id TEXT,
      content_hash TEXT,
      created_at TEXT NOT NULL,
      created_at_epoch INTEGER NOT NULL,
      UNIQUE(content_session_id, tool_use_id)
    );
CREATE TABLE "user_prompts" (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_db_id INTEGER,
        content_session_id TEXT NOT NULL,
        prompt_number INTEGER NOT NULL,
        prompt_text TEXT NOT NULL,
        created_at TEXT NOT NULL,
        created_at_epoch INTEGER NOT NULL, synced_at INTEGER, origin_device_id TEXT, origin_local_id TEXT, sync_rev TEXT NOT NULL DEFAULT '1',
        FOREIGN KEY(session_db_id) REFERENCES sdk_sessions(id) ON DELETE CASCADE
      );
INSERT INTO "user_prompts" VALUES(1,1,'content-1',1,'Why does the booking page crash?','2026-11-26T13:00:18.847Z',1795698018847,NULL,NULL,NULL,'1');
INSERT INTO "user_prompts" VALUES(2,1,'content-1',2,'Then fix it, and note why.','2026-11-26T13:00:18.848Z',1795698018848,NULL,NULL,NULL,'1');
CREATE INDEX idx_sdk_sessions_claude_id ON sdk_sessions(content_session_id);
CREATE INDEX idx_sdk_sessions_sdk_id ON sdk_sessions(memory_session_id);
CREATE INDEX idx_sdk_sessions_project ON sdk_sessions(project);
CREATE INDEX idx_sdk_sessions_status ON sdk_sessions(status);
CREATE INDEX idx_sdk_sessions_started ON sdk_sessions(started_at_epoch DESC);
CREATE INDEX idx_session_summaries_sdk_session ON session_summaries(memory_session_id);
CREATE INDEX idx_session_summaries_project ON session_summaries(project);
CREATE INDEX idx_session_summaries_created ON session_summaries(created_at_epoch DESC);
CREATE INDEX idx_observations_sdk_session ON observations(memory_session_id);
CREATE INDEX idx_observations_project ON observations(project);
CREATE INDEX idx_observations_type ON observations(type);
CREATE INDEX idx_observations_created ON observations(created_at_epoch DESC);
CREATE INDEX idx_pending_messages_session ON pending_messages(session_db_id);
CREATE INDEX idx_pending_messages_status ON pending_messages(status);
CREATE INDEX idx_pending_messages_claude_session ON pending_messages(content_session_id);
CREATE INDEX idx_observations_content_hash ON observations(content_hash, created_at_epoch);
CREATE INDEX idx_sdk_sessions_platform_source ON sdk_sessions(platform_source);
CREATE INDEX idx_observations_merged_into ON observations(merged_into_project);
CREATE INDEX idx_summaries_merged_into ON session_summaries(merged_into_project);
CREATE INDEX idx_observations_agent_type ON observations(agent_type);
CREATE INDEX idx_observations_agent_id ON observations(agent_id);
CREATE UNIQUE INDEX ux_observations_session_hash
      ON observations(memory_session_id, content_hash)
    ;
CREATE UNIQUE INDEX ux_sdk_sessions_platform_content ON sdk_sessions(platform_source, content_session_id);
CREATE INDEX idx_user_prompts_session ON user_prompts(session_db_id);
CREATE INDEX idx_user_prompts_claude_session ON user_prompts(content_session_id);
CREATE INDEX idx_user_prompts_created ON user_prompts(created_at_epoch DESC);
CREATE INDEX idx_user_prompts_prompt_number ON user_prompts(prompt_number);
CREATE INDEX idx_user_prompts_lookup ON user_prompts(session_db_id, prompt_number);
CREATE INDEX idx_user_prompts_content_lookup ON user_prompts(content_session_id, prompt_number);
CREATE UNIQUE INDEX ux_pending_session_tool
      ON pending_messages(session_db_id, tool_use_id)
      WHERE tool_use_id IS NOT NULL
    ;
CREATE INDEX idx_observations_unsynced ON observations(id) WHERE synced_at IS NULL;
CREATE INDEX idx_session_summaries_unsynced ON session_summaries(id) WHERE synced_at IS NULL;
CREATE INDEX idx_user_prompts_unsynced ON user_prompts(id) WHERE synced_at IS NULL;
CREATE UNIQUE INDEX ux_observations_origin
        ON observations(origin_device_id, origin_local_id)
        WHERE origin_device_id IS NOT NULL
      ;
CREATE UNIQUE INDEX ux_session_summaries_origin
        ON session_summaries(origin_device_id, origin_local_id)
        WHERE origin_device_id IS NOT NULL
      ;
CREATE UNIQUE INDEX ux_user_prompts_origin
        ON user_prompts(origin_device_id, origin_local_id)
        WHERE origin_device_id IS NOT NULL
      ;
CREATE INDEX idx_tool_uses_project ON tool_uses(project);
CREATE INDEX idx_tool_uses_memory_session ON tool_uses(memory_session_id);
CREATE INDEX idx_tool_uses_content_session ON tool_uses(content_session_id);
CREATE INDEX idx_tool_uses_session_db_id ON tool_uses(session_db_id);
CREATE INDEX idx_tool_uses_tool_name ON tool_uses(tool_name);
CREATE INDEX idx_tool_uses_created_at_epoch ON tool_uses(created_at_epoch);
CREATE INDEX idx_tool_uses_observation_id ON tool_uses(observation_id);
CREATE INDEX idx_tool_uses_or_generation_id ON tool_uses(or_generation_id);
CREATE INDEX idx_telegram_wrapups_platform_content ON telegram_wrapups(platform_source, content_session_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('session_summaries',1);
INSERT INTO "sqlite_sequence" VALUES('observations',3);
INSERT INTO "sqlite_sequence" VALUES('user_prompts',2);
INSERT INTO "sqlite_sequence" VALUES('sdk_sessions',1);
COMMIT;
