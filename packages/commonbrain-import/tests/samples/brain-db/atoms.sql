BEGIN TRANSACTION;
CREATE TABLE atoms (
            id TEXT PRIMARY KEY,

            -- Core fields (the irreducible unit of causal understanding)
            subject TEXT NOT NULL,
            action TEXT NOT NULL,
            outcome TEXT NOT NULL,
            consequences TEXT NOT NULL,

            -- Field-level embeddings (384-dim each, stored as BLOB)
            subject_embedding BLOB,
            action_embedding BLOB,
            outcome_embedding BLOB,
            consequences_embedding BLOB,

            -- Temporal metadata
            action_timestamp TEXT,
            outcome_delay_seconds INTEGER,
            consequence_delay_seconds INTEGER,

            -- Quality and usage metadata
            confidence REAL DEFAULT 1.0,
            access_count INTEGER DEFAULT 0,
            created_at TEXT,
            source TEXT,

            -- Optional: link back to original text memory
            source_memory_id TEXT
        );
INSERT INTO "atoms" VALUES('174d676b40a0da88','the ingest worker','runs out of memory','batches are read twice','duplicate rows appear in the report',NULL,NULL,NULL,NULL,'2026-11-26T12:46:28.741200',60,NULL,0.8,0,'2026-11-26T12:46:28.741298','manual',NULL);
INSERT INTO "atoms" VALUES('e2d4c7a16c0ac7c4','duplicate rows','inflate the totals','the weekly report is wrong','the team rolls the ingest back',NULL,NULL,NULL,NULL,'2026-11-26T12:46:28.783260',NULL,NULL,1.0,0,'2026-11-26T12:46:28.783314','manual',NULL);
CREATE TABLE causal_links (
            id TEXT PRIMARY KEY,

            from_atom_id TEXT REFERENCES atoms(id),
            to_atom_id TEXT REFERENCES atoms(id),

            link_type TEXT,  -- 'causes', 'enables', 'precedes', 'correlates'
            strength REAL,   -- 0-1 confidence in the causal relationship

            observation_count INTEGER DEFAULT 1,
            last_observed TEXT,

            UNIQUE(from_atom_id, to_atom_id, link_type)
        );
INSERT INTO "causal_links" VALUES('da61988f04b16328','174d676b40a0da88','e2d4c7a16c0ac7c4','causes',0.7,1,'2026-11-26T12:46:28.838585');
CREATE INDEX idx_atoms_subject ON atoms(subject);
CREATE INDEX idx_atoms_timestamp ON atoms(action_timestamp);
CREATE INDEX idx_atoms_source ON atoms(source);
CREATE INDEX idx_links_from ON causal_links(from_atom_id);
CREATE INDEX idx_links_to ON causal_links(to_atom_id);
COMMIT;
