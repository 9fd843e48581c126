BEGIN TRANSACTION;
CREATE TABLE acks (
                message_id TEXT NOT NULL,
                agent_id TEXT NOT NULL,
                ack_body TEXT,
                acked_at TEXT NOT NULL,
                PRIMARY KEY (message_id, agent_id),
                FOREIGN KEY (message_id) REFERENCES messages(id)
            );
INSERT INTO "acks" VALUES('syn_bf4443aebb98','claude-code','Will do, ingest goes first.','2026-11-26T12:46:28.557619');
INSERT INTO "acks" VALUES('syn_5530d403068c','helios','Noted for the runbook.','2026-11-26T12:46:29.734037');
INSERT INTO "acks" VALUES('syn_8699b590ade1','helios',NULL,'2026-11-26T12:46:29.834402');
CREATE TABLE atoms (
                id TEXT PRIMARY KEY,
                subject TEXT NOT NULL,
                action TEXT NOT NULL,
                outcome TEXT NOT NULL,
                consequences TEXT NOT NULL,
                confidence REAL DEFAULT 1.0,
                source TEXT DEFAULT 'agent',
                source_message_id TEXT,
                source_type TEXT DEFAULT 'unknown',
                created_at TEXT NOT NULL,
                access_count INTEGER DEFAULT 0,
                action_timestamp TEXT,
                outcome_delay_seconds REAL,
                consequence_delay_seconds REAL,
                source_memory_id TEXT,
                subject_embedding BLOB,
                action_embedding BLOB,
                outcome_embedding BLOB,
                consequences_embedding BLOB
            );
INSERT INTO "atoms" VALUES('atm_d0831f58f7fe','the certificate','expires','the gateway refuses clients','agents cannot reach the tools',0.9,'agent','syn_5530d403068c','message','2026-11-26T12:46:29.965322',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "atoms" VALUES('atm_d3a2c21c96cd','agents without tools','guess','answers get worse','users complain',1.0,'agent',NULL,'unknown','2026-11-26T12:46:30.017292',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE categories (
                name TEXT PRIMARY KEY,
                description TEXT NOT NULL DEFAULT '',
                keywords TEXT NOT NULL DEFAULT '[]',
                created_at TEXT NOT NULL
            );
INSERT INTO "categories" VALUES('ops','Running the servers','["deploy", "backup"]','2026-11-26T12:46:29.625458');
CREATE TABLE causal_links (
                id TEXT PRIMARY KEY,
                from_atom_id TEXT NOT NULL REFERENCES atoms(id),
                to_atom_id TEXT NOT NULL REFERENCES atoms(id),
                link_type TEXT DEFAULT 'causes',
                strength REAL DEFAULT 0.5,
                observation_count INTEGER DEFAULT 1,
                last_observed TEXT,
                created_at TEXT,
                UNIQUE(from_atom_id, to_atom_id, link_type)
            );
INSERT INTO "causal_links" VALUES('atm_d0831f58f7fe_atm_d3a2c21c96cd','atm_d0831f58f7fe','atm_d3a2c21c96cd','enables',0.6,1,'2026-11-26T12:46:30.077247','2026-11-26T12:46:30.077247');
CREATE TABLE embeddings (
                id TEXT PRIMARY KEY,
                source_type TEXT NOT NULL,
                source_id TEXT NOT NULL,
                content TEXT,
                embedding BLOB NOT NULL,
                model TEXT DEFAULT 'all-MiniLM-L6-v2',
                created_at TEXT NOT NULL,
                UNIQUE(source_type, source_id)
            );
CREATE TABLE messages (
                id TEXT PRIMARY KEY,
                thread_id TEXT NOT NULL,
                parent_id TEXT,
                from_agent TEXT NOT NULL,
                to_agent TEXT,
                priority TEXT DEFAULT 'info',
                subject TEXT,
                body TEXT NOT NULL,
                created_at TEXT NOT NULL,
                updated_at TEXT,
                metadata TEXT,
                expires_at TEXT,
                task_status TEXT,
                result TEXT,
                context TEXT
            );
INSERT INTO "messages" VALUES('syn_bf4443aebb98','thr_f3d7d6e8709f',NULL,'helios','claude-code','action','Deploy order','Deploy the ingest first, then the page.','2026-11-26T12:46:28.557619',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "messages" VALUES('syn_9ebadb7601af','thr_f3d7d6e8709f',NULL,'claude-code','helios','info','Re: Deploy order','Done: ingest at 14:02, page at 14:10.','2026-11-26T12:46:28.558075',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "messages" VALUES('syn_8f8b0e3d0887','thr_50c9b6fdc85d',NULL,'helios','all','urgent','Freeze','No deploys on Friday.','2026-11-26T12:46:28.558617',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "messages" VALUES('syn_5530d403068c','thr_54ff7c858e64',NULL,'nova','helios','info','Gateway','@insight The gateway needs a restart after a certificate change.','2026-11-26T12:46:29.661252',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "messages" VALUES('syn_14440d8dfe7b','thr_54ff7c858e64','syn_5530d403068c','helios','nova','action','Re: Gateway','Where is the certificate?','2026-11-26T12:46:29.755904',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "messages" VALUES('syn_8699b590ade1','thr_2394f7f2bb85',NULL,'nova','helios','info','Silent','This needs no answer.','2026-11-26T12:46:29.797307',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "messages" VALUES('syn_71f0eba6d5f1','thr_4857de102a1a',NULL,'helios','nova','action','Renew','Renew the certificate of the gateway.','2026-11-26T12:46:29.856143','2026-11-26T12:46:29.941231',NULL,'2029-08-22T12:46:29.905378','complete','Renewed until 2028.','It ends in March.');
CREATE TABLE read_receipts (
                message_id TEXT NOT NULL,
                agent_id TEXT NOT NULL,
                read_at TEXT NOT NULL,
                PRIMARY KEY (message_id, agent_id),
                FOREIGN KEY (message_id) REFERENCES messages(id)
            );
INSERT INTO "read_receipts" VALUES('syn_bf4443aebb98','claude-code','2026-11-26T12:46:28.557619');
INSERT INTO "read_receipts" VALUES('syn_5530d403068c','helios','2026-11-26T12:46:29.734037');
INSERT INTO "read_receipts" VALUES('syn_8699b590ade1','helios','2026-11-26T12:46:29.834402');
CREATE TABLE stm (
                id TEXT PRIMARY KEY,
                content TEXT NOT NULL,
                categories TEXT,
                importance REAL DEFAULT 1.0,
                access_count INTEGER DEFAULT 0,
                created_at TEXT NOT NULL,
                updated_at TEXT,
                expires_at TEXT,
                source TEXT DEFAULT 'agent',
                source_message_id TEXT,
                FOREIGN KEY (source_message_id) REFERENCES messages(id)
            );
INSERT INTO "stm" VALUES('stm_mig_0000','The dashboard listens on port 9090.','["ops"]',1.0,0,'2026-11-26T12:46:28.560246',NULL,NULL,'migrated',NULL);
INSERT INTO "stm" VALUES('stm_mig_0001','The quiet hours are read in UTC, not in local time.','["config", "bug"]',2.0,0,'2026-11-26T12:46:28.559996',NULL,NULL,'migrated',NULL);
INSERT INTO "stm" VALUES('emb_5f805c6027d86a5e','The dashboard listens on port 9090.','["ops"]',1.0,0,'2026-11-26T12:46:28.560246',NULL,NULL,'migrated:stm',NULL);
INSERT INTO "stm" VALUES('emb_f378a7dce571745d','The quiet hours are read in UTC, not in local time.','["config"]',2.0,0,'2026-11-26T12:46:28.559996',NULL,NULL,'migrated:stm',NULL);
INSERT INTO "stm" VALUES('emb_e279e4ed485cdb78','The backup runs at four in the morning.','["ops"]',1.0,0,'2026-11-26T12:46:29.011264',NULL,NULL,'migrated:collection',NULL);
INSERT INTO "stm" VALUES('stm_bb85b180a8c6','The gateway needs a restart after a certificate change.','["extracted"]',2.0,0,'2026-11-26T12:46:29.689318',NULL,NULL,'synapse:nova','syn_5530d403068c');
CREATE TABLE threads (
                id TEXT PRIMARY KEY,
                subject TEXT,
                created_by TEXT NOT NULL,
                created_at TEXT NOT NULL,
                last_message_at TEXT,
                message_count INTEGER DEFAULT 0,
                status TEXT DEFAULT 'active',
                tags TEXT
            );
INSERT INTO "threads" VALUES('thr_f3d7d6e8709f','Deploy order','helios','2026-11-26T12:46:28.557619','2026-11-26T12:46:28.558075',2,'active',NULL);
INSERT INTO "threads" VALUES('thr_50c9b6fdc85d','Freeze','helios','2026-11-26T12:46:28.558617','2026-11-26T12:46:28.558617',1,'active',NULL);
INSERT INTO "threads" VALUES('thr_54ff7c858e64','Gateway','nova','2026-11-26T12:46:29.661252','2026-11-26T12:46:29.755904',2,'active',NULL);
INSERT INTO "threads" VALUES('thr_2394f7f2bb85','Silent','nova','2026-11-26T12:46:29.797307','2026-11-26T12:46:29.797307',1,'active',NULL);
INSERT INTO "threads" VALUES('thr_4857de102a1a','Renew','helios','2026-11-26T12:46:29.856143','2026-11-26T12:46:29.856143',1,'active',NULL);
CREATE TABLE todo_templates (
                id TEXT PRIMARY KEY,
                name TEXT NOT NULL UNIQUE,
                title_pattern TEXT NOT NULL,
                description_pattern TEXT,
                default_priority TEXT DEFAULT 'medium',
                default_tags TEXT DEFAULT '[]',
                example TEXT,
                created_at TEXT NOT NULL
            );
INSERT INTO "todo_templates" VALUES('tmpl_1f82a228e28b','bug-fix','Fix: {summary}','**What''s broken:** {problem}
**Repro steps:** {steps}
**Expected:** {expected}','high','["bug"]','brain todo from-template bug-fix summary="AUGUR exit timing" problem="Positions held past lookahead window" steps="1. Trigger RARI LONG 2. Watch exit timer" expected="Exit at pattern lookahead seconds"','2026-11-26T12:46:29.456215');
INSERT INTO "todo_templates" VALUES('tmpl_204be1ca1419','feature','Feature: {summary}','**Goal:** {goal}
**Acceptance criteria:** {criteria}
**Notes:** {notes}','medium','["feature"]','brain todo from-template feature summary="Maker-only orders" goal="Avoid taker fees on entry" criteria="All entries use limit orders, fallback to cancel after 5s" notes="0.20% RT taker fees destroy edge"','2026-11-26T12:46:29.456215');
INSERT INTO "todo_templates" VALUES('tmpl_58410eda0772','research','Research: {topic}','**Question:** {question}
**Hypothesis:** {hypothesis}
**Method:** {method}','medium','["research"]','brain todo from-template research topic="GHST signal clustering" question="Do GHST signals cluster in time or distribute evenly?" hypothesis="Clusters around volatility spikes" method="Plot signal timestamps against 1h volatility"','2026-11-26T12:46:29.456215');
INSERT INTO "todo_templates" VALUES('tmpl_52bdec8bc6e3','deploy','Deploy: {service}','**What:** {what}
**Pre-checks:** {checks}
**Rollback:** {rollback}','high','["deploy", "ops"]','brain todo from-template deploy service="AUGUR v4 paper trader" what="Replace paper_augur.py with v4 multi-timeframe engine" checks="1. All tests pass 2. DB backup 3. Collector running" rollback="systemctl --user restart paper-augur with v3 binary"','2026-11-26T12:46:29.456215');
INSERT INTO "todo_templates" VALUES('tmpl_a430c036024c','spike','Spike: {topic} ({timebox})','**Explore:** {explore}
**Timebox:** {timebox}
**Deliverable:** {deliverable}','low','["spike"]','brain todo from-template spike topic="n8n webhooks" timebox="2h" explore="Can n8n replace custom webhook handlers?" deliverable="Written recommendation with pros/cons"','2026-11-26T12:46:29.456215');
CREATE TABLE todos (
                id TEXT PRIMARY KEY,
                title TEXT NOT NULL,
                description TEXT,
                status TEXT DEFAULT 'open',
                priority TEXT DEFAULT 'medium',
                assigned_to TEXT,
                tags TEXT DEFAULT '[]',
                due_at TEXT,
                template_id TEXT,
                created_at TEXT NOT NULL,
                updated_at TEXT,
                completed_at TEXT
            );
INSERT INTO "todos" VALUES('todo_a5aaa827dffa','Write the runbook of the gateway','With the certificate steps.','open','high','nova','["docs"]','2026-03-20T12:00:00',NULL,'2026-11-26T12:46:30.080511','2026-11-26T12:46:30.080511',NULL);
INSERT INTO "todos" VALUES('todo_a7e6992ad190','Order the new disks','','done','medium',NULL,'[]',NULL,NULL,'2026-11-26T12:46:30.083347','2026-11-26T12:46:30.091020','2026-11-26T12:46:30.091020');
CREATE TABLE working_memory (
                id TEXT PRIMARY KEY,
                label TEXT NOT NULL,
                content TEXT NOT NULL,
                pinned_at TEXT NOT NULL,
                position INTEGER NOT NULL
            );
INSERT INTO "working_memory" VALUES('wm_d4aa6b48894c','trading','Never restart the trading bot while the market is open.','2026-02-10T08:00:00.000Z',0);
INSERT INTO "working_memory" VALUES('wm_dc41b9788678','gateway','The gateway listens on port 8443.','2026-11-26T12:46:30.098730',1);
CREATE INDEX idx_messages_thread ON messages(thread_id, created_at);
CREATE INDEX idx_messages_from ON messages(from_agent, created_at);
CREATE INDEX idx_messages_to ON messages(to_agent);
CREATE INDEX idx_messages_created ON messages(created_at);
CREATE INDEX idx_messages_expires ON messages(expires_at);
CREATE INDEX idx_messages_task_status ON messages(task_status);
CREATE INDEX idx_threads_status ON threads(status, last_message_at);
CREATE INDEX idx_stm_importance ON stm(importance DESC);
CREATE INDEX idx_stm_source ON stm(source_message_id);
CREATE INDEX idx_atoms_source ON atoms(source_message_id);
CREATE INDEX idx_embeddings_source ON embeddings(source_type, source_id);
CREATE INDEX idx_wm_position ON working_memory(position);
CREATE INDEX idx_todos_status ON todos(status, priority);
CREATE INDEX idx_todos_assigned ON todos(assigned_to);
CREATE INDEX idx_todos_due ON todos(due_at);
COMMIT;
