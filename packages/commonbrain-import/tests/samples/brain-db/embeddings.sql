BEGIN TRANSACTION;
CREATE TABLE memories (
            id TEXT PRIMARY KEY,
            content TEXT NOT NULL,
            source TEXT NOT NULL,
            category TEXT,
            timestamp TEXT NOT NULL,
            importance REAL DEFAULT 1.0,
            access_count INTEGER DEFAULT 0,
            embedding_text TEXT
        );
INSERT INTO "memories" VALUES('5f805c6027d86a5e','The dashboard listens on port 9090.','stm','["ops"]','2026-11-26T12:46:28.560246',1.0,0,'the dashboard listens on port 9090.');
INSERT INTO "memories" VALUES('f378a7dce571745d','The quiet hours are read in UTC, not in local time.','stm','["config"]','2026-11-26T12:46:28.559996',2.0,0,'the quiet hours are read in utc, not in local time.');
INSERT INTO "memories" VALUES('e279e4ed485cdb78','The backup runs at four in the morning.','collection','["ops"]','2026-11-26T12:46:29.011264',1.0,0,'the backup runs at four in the morning.');
CREATE INDEX idx_timestamp ON memories(timestamp)
    ;
CREATE INDEX idx_category ON memories(category)
    ;
CREATE INDEX idx_source ON memories(source)
    ;
COMMIT;
