BEGIN TRANSACTION;
CREATE TABLE history (
                        id           TEXT PRIMARY KEY,
                        memory_id    TEXT,
                        old_memory   TEXT,
                        new_memory   TEXT,
                        event        TEXT,
                        created_at   DATETIME,
                        updated_at   DATETIME,
                        is_deleted   INTEGER,
                        actor_id     TEXT,
                        role         TEXT
                    );
INSERT INTO "history" VALUES('e63461cc-8403-4750-9961-d9d22b2a6fbc','331643af-7d1d-47b5-862d-caf8835bfe98',NULL,'The staging port is 8080.','ADD','2026-11-26T12:57:44.521135+00:00','2026-11-26T12:57:44.521135+00:00',0,NULL,'user');
INSERT INTO "history" VALUES('b8d125f8-aa33-4123-accf-87bad7904c7b','331643af-7d1d-47b5-862d-caf8835bfe98','The staging port is 8080.','The staging port is 9090.','UPDATE','2026-11-26T12:57:44.521135+00:00','2026-11-26T12:57:44.553396+00:00',0,NULL,'user');
INSERT INTO "history" VALUES('3b90b635-06a9-436a-9705-28a1a86cbb65','331643af-7d1d-47b5-862d-caf8835bfe98','The staging port is 9090.','The staging port is 9191.','UPDATE','2026-11-26T12:57:44.521135+00:00','2026-11-26T12:57:44.571037+00:00',0,NULL,'user');
INSERT INTO "history" VALUES('ca1bfd44-92f5-4feb-9be7-0538c1f4bfc9','c2d274d4-a92a-4a8f-8cda-5e0cc7726c0e',NULL,'Ann prefers long answers.','ADD','2026-11-26T12:57:44.593299+00:00','2026-11-26T12:57:44.593299+00:00',0,NULL,'user');
INSERT INTO "history" VALUES('ecd4ab69-85da-4e11-8031-99aea0276ef6','dfc786fd-1803-4536-8292-f583413debe1',NULL,'Never book a berth twice for one night.','ADD','2026-11-26T12:57:44.617247+00:00','2026-11-26T12:57:44.617247+00:00',0,NULL,'user');
INSERT INTO "history" VALUES('6329ffe4-4aee-4b52-aef2-56428fc7e16c','10ae8274-8dd6-4739-8024-92c745feb16b',NULL,'This one is deleted.','ADD','2026-11-26T12:57:44.653223+00:00','2026-11-26T12:57:44.653223+00:00',0,NULL,'user');
INSERT INTO "history" VALUES('4f8ce3f0-b1a4-4c78-aae1-b29b5fc1a1da','10ae8274-8dd6-4739-8024-92c745feb16b','This one is deleted.',NULL,'DELETE','2026-11-26T12:57:44.653223+00:00','2026-11-26T12:57:44.677321+00:00',1,NULL,'user');
CREATE TABLE messages (
                        id TEXT PRIMARY KEY,
                        session_scope TEXT,
                        role TEXT,
                        content TEXT,
                        name TEXT,
                        created_at DATETIME
                    );
COMMIT;
