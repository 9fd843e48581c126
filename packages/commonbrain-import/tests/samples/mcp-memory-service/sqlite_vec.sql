BEGIN TRANSACTION;
CREATE TABLE beliefs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    belief_hash TEXT UNIQUE NOT NULL,
    content TEXT NOT NULL,
    confidence REAL NOT NULL DEFAULT 0.5,
    status TEXT NOT NULL DEFAULT 'candidate',  -- candidate, active, disputed, superseded
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    derived_from TEXT NOT NULL DEFAULT '[]',  -- JSON array of observation content_hashes (provenance)
    contradicted_by TEXT NOT NULL DEFAULT '[]',  -- JSON array of observation content_hashes
    metadata TEXT DEFAULT '{}'
);
INSERT INTO "beliefs" VALUES(1,'b1','Deploys fail when a table lacks rows.',0.6,'candidate','2026-01-02T00:00:00Z','2026-01-02T00:00:00Z','["df4e9c8161dd751ea5b8c1516a5aaa4b0610edd673db1a6a1577a6bb3a4732a5"]','[]','{}');
CREATE TABLE memories (
                        id INTEGER PRIMARY KEY AUTOINCREMENT,
                        content_hash TEXT UNIQUE NOT NULL,
                        content TEXT NOT NULL,
                        tags TEXT,
                        memory_type TEXT,
                        metadata TEXT,
                        created_at REAL,
                        updated_at REAL,
                        created_at_iso TEXT,
                        updated_at_iso TEXT,
                        deleted_at REAL DEFAULT NULL
                    , store TEXT DEFAULT 'default', parent_id TEXT, version INTEGER DEFAULT 1, confidence REAL DEFAULT 1.0, last_accessed INTEGER, superseded_by TEXT, embedding_pending INTEGER NOT NULL DEFAULT 0);
INSERT INTO "memories" VALUES(1,'7666207d032cacd000266fd237c089d119a0c3805ea7bac361a21b33f237a514','The team decided to move the berth table to Postgres.','decision,db','decision','{"source": "test"}',1767225600.0,1767225600.0,'2026-01-01T00:00:00Z','2026-01-01T00:00:00Z',NULL,'default',NULL,1,1.0,NULL,NULL,0);
INSERT INTO "memories" VALUES(2,'df4e9c8161dd751ea5b8c1516a5aaa4b0610edd673db1a6a1577a6bb3a4732a5','The deploy failed because the tide table had no row.','deploy','error','{}',1767229200.0,1767229200.0,'2026-01-01T01:00:00Z','2026-01-01T01:00:00Z',NULL,'default',NULL,1,1.0,NULL,NULL,0);
INSERT INTO "memories" VALUES(3,'7dfcea2ef45da1305001430de18e67891822f20b2fd080691ffd07c4126b6c39','The staging port is 8080.','ports,staging','note','{"superseded_by": "bf9c3140a46163c97c140ae73ad6306f3a7befb445d3fe294d24cbf4ceb6db7c"}',1767232800.0,1767232800.0,'2026-01-01T02:00:00Z','2026-01-01T02:00:00Z',NULL,'default',NULL,1,1.0,NULL,'bf9c3140a46163c97c140ae73ad6306f3a7befb445d3fe294d24cbf4ceb6db7c',0);
INSERT INTO "memories" VALUES(4,'d71b24213e9b874d492e4f92b3b033821e268cb74885b45bc736afca80efae2d','Never restart the crane service at noon.','untagged','pattern','{}',1767236400.0,1767236400.0,'2026-01-01T03:00:00Z','2026-01-01T03:00:00Z',NULL,'harbour',NULL,1,1.0,NULL,NULL,0);
INSERT INTO "memories" VALUES(5,'89c14003fa436ab60993570bcaf81b04c98b67bec966c7ec0b413a3544649efc','Buy a new rope for the pilot boat.','untagged','observation','{}',1767240000.0,1767240000.0,'2026-01-01T04:00:00Z','2026-01-01T04:00:00Z',NULL,'default',NULL,1,1.0,NULL,NULL,0);
INSERT INTO "memories" VALUES(6,'c79cc769758add7f359eb296fe8b68130168590c78d48389e4bb76a43d590083','This one is deleted.','untagged','note','{}',1767243600.0,1767243600.0,'2026-01-01T05:00:00Z','2026-01-01T05:00:00Z',1.79569776954844236372e+09,'default',NULL,1,1.0,NULL,NULL,0);
INSERT INTO "memories" VALUES(7,'bf9c3140a46163c97c140ae73ad6306f3a7befb445d3fe294d24cbf4ceb6db7c','The staging port is 9090.','ports,staging','note','{}',1.79569776954601478574e+09,1.79569776954601478574e+09,'2026-11-26T12:56:09.546015Z','2026-11-26T12:56:09.546015Z',NULL,'default','7dfcea2ef45da1305001430de18e67891822f20b2fd080691ffd07c4126b6c39',2,1.0,NULL,NULL,0);
CREATE TABLE memory_graph (
    source_hash TEXT NOT NULL,
    target_hash TEXT NOT NULL,
    similarity REAL NOT NULL,
    connection_types TEXT NOT NULL,  -- JSON array: ["semantic", "temporal", "causal", "thematic"]
    metadata TEXT,                   -- JSON object: {discovery_date, confidence, context}
    created_at REAL NOT NULL, relationship_type TEXT DEFAULT 'related',
    PRIMARY KEY (source_hash, target_hash)
);
INSERT INTO "memory_graph" VALUES('df4e9c8161dd751ea5b8c1516a5aaa4b0610edd673db1a6a1577a6bb3a4732a5','7666207d032cacd000266fd237c089d119a0c3805ea7bac361a21b33f237a514',0.8,'["causal"]','{}',1.79569776954977107052e+09,'causes');
INSERT INTO "memory_graph" VALUES('7666207d032cacd000266fd237c089d119a0c3805ea7bac361a21b33f237a514','d71b24213e9b874d492e4f92b3b033821e268cb74885b45bc736afca80efae2d',0.4,'["semantic"]','{}',1.79569776955002593987e+09,'related');
INSERT INTO "memory_graph" VALUES('d71b24213e9b874d492e4f92b3b033821e268cb74885b45bc736afca80efae2d','7666207d032cacd000266fd237c089d119a0c3805ea7bac361a21b33f237a514',0.4,'["semantic"]','{}',1.79569776955002593987e+09,'related');
CREATE TABLE metadata (
                key TEXT PRIMARY KEY,
                value TEXT NOT NULL
            );
INSERT INTO "metadata" VALUES('distance_metric','cosine');
INSERT INTO "metadata" VALUES('fts5_enabled','true');
INSERT INTO "metadata" VALUES('schema_version','19');
INSERT INTO "metadata" VALUES('sync_hlc_physical','0');
INSERT INTO "metadata" VALUES('sync_hlc_logical','0');
CREATE TABLE migration_registry (
                version INTEGER PRIMARY KEY,
                name TEXT NOT NULL,
                filename TEXT NOT NULL,
                applied_at TEXT NOT NULL,
                checksum TEXT
            );
INSERT INTO "migration_registry" VALUES(8,'add_graph_table','008_add_graph_table.sql','2026-11-26T12:56:09.507772+00:00','2f9a9790446132e799e98216c8b63817370806f5f8cae6c07a1a2f72df2db526');
INSERT INTO "migration_registry" VALUES(9,'add_relationship_type','009_add_relationship_type.sql','2026-11-26T12:56:09.508456+00:00','1ac4592fe01144b1274de6a255661c40c4d1e80034a8521bc6e65bfdfaaf640a');
INSERT INTO "migration_registry" VALUES(10,'fix_asymmetric_relationships','010_fix_asymmetric_relationships.sql','2026-11-26T12:56:09.509140+00:00','cfd32afb02e75faee4054eea5deb807c812bd9df95f09958f6a8e1e88da98a4f');
INSERT INTO "migration_registry" VALUES(11,'memory_evolution_p1','011_memory_evolution_p1.sql','2026-11-26T12:56:09.509801+00:00','0701f310c540c4d00df1cb1889315b729ea1c8e0a77db8561ceff96d848f5a43');
INSERT INTO "migration_registry" VALUES(12,'add_belief_store','012_add_belief_store.sql','2026-11-26T12:56:09.511793+00:00','7c8ba14e31023c3d8c94b74436c9160c76744066a0d4ffb3a5d7b3253d9df318');
INSERT INTO "migration_registry" VALUES(15,'add_sync_events','015_add_sync_events.sql','2026-11-26T12:56:09.512398+00:00','e178451d72dde5cf414cebbfba5a8fa77c9a5a1781d6e2ebc371273605f315cb');
INSERT INTO "migration_registry" VALUES(16,'add_hlc_to_sync_events','016_add_hlc_to_sync_events.sql','2026-11-26T12:56:09.513149+00:00','50c08256872940e289fab24a56e9fa93c8f15261fdedc31ff6fefb3a666a1dd8');
INSERT INTO "migration_registry" VALUES(17,'add_embedding_consistency','017_add_embedding_consistency.sql','2026-11-26T12:56:09.514235+00:00','ede2fa157a74ea4b232bac5b7cd09ea8dafaf6a0f1c5fc0e8fd781649cfb4e66');
INSERT INTO "migration_registry" VALUES(18,'add_sync_cursor','018_add_sync_cursor.sql','2026-11-26T12:56:09.515501+00:00','694dd8917ec1c7979cfe0c494a6f12070f3abcd8683745a5fe65aa275c23aac4');
INSERT INTO "migration_registry" VALUES(19,'add_push_cursor','019_add_push_cursor.sql','2026-11-26T12:56:09.515958+00:00','df1886eb50d9de69784c8a0dc15fca81151689c1e1f22c656a7e8c417b459d76');
CREATE TABLE push_cursor (
    peer_id TEXT PRIMARY KEY,
    last_seq_pushed INTEGER NOT NULL DEFAULT 0,
    updated_at REAL NOT NULL
);
CREATE TABLE sync_cursor (
    peer_id TEXT PRIMARY KEY,
    last_seq_seen INTEGER NOT NULL DEFAULT 0,
    last_hlc_physical INTEGER,
    last_hlc_logical INTEGER,
    updated_at REAL NOT NULL
);
CREATE TABLE sync_events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    schema_version INTEGER NOT NULL DEFAULT 1,
    agent_id TEXT,
    event_id TEXT NOT NULL,
    op TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    payload TEXT NOT NULL,
    created_at REAL NOT NULL,
    created_at_iso TEXT, hlc_physical INTEGER, hlc_logical INTEGER, embedding_model TEXT, embedding_dim INTEGER,
    UNIQUE(agent_id, event_id)
);
CREATE INDEX idx_content_hash ON memories(content_hash);
CREATE INDEX idx_created_at ON memories(created_at);
CREATE INDEX idx_memory_type ON memories(memory_type);
CREATE INDEX idx_deleted_at ON memories(deleted_at);
CREATE INDEX idx_graph_source ON memory_graph(source_hash);
CREATE INDEX idx_graph_target ON memory_graph(target_hash);
CREATE INDEX idx_graph_relationship ON memory_graph(relationship_type);
CREATE INDEX idx_beliefs_status ON beliefs(status);
CREATE INDEX idx_beliefs_confidence ON beliefs(confidence);
CREATE INDEX idx_sync_events_hash ON sync_events(content_hash);
CREATE INDEX idx_sync_events_seq ON sync_events(seq);
CREATE INDEX idx_sync_events_op ON sync_events(op, content_hash);
CREATE INDEX idx_sync_events_hlc ON sync_events(hlc_physical, hlc_logical, agent_id, event_id);
CREATE INDEX idx_memories_embedding_pending ON memories(embedding_pending);
CREATE INDEX idx_sync_cursor_updated ON sync_cursor(updated_at);
CREATE INDEX idx_push_cursor_updated ON push_cursor(updated_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('memories',7);
INSERT INTO "sqlite_sequence" VALUES('beliefs',1);
COMMIT;
