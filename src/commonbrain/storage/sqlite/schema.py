"""The part of the schema that only SQLite has: full text, and triggers of the audit."""

from typing import Final

from commonbrain.storage.sql.schema_version import EngineSchema

SQLITE: Final = EngineSchema(
    statements={
        "0023": (
            "CREATE VIRTUAL TABLE memory_text USING fts5(text, keywords, content='', "
            "contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2')",
            "CREATE VIRTUAL TABLE atom_text USING fts5(subject, action, outcome, consequences, "
            "content='', contentless_delete=1, "
            "tokenize='porter unicode61 remove_diacritics 2')",
            # Full text knows a memory by its id alone, whatever its tenant.
            "CREATE UNIQUE INDEX ix_memories_id ON memories (id)",
            "CREATE TRIGGER access_audit_is_never_updated BEFORE UPDATE ON access_audit "
            "BEGIN SELECT RAISE(ABORT, 'access_audit is append-only'); END",
            "CREATE TRIGGER access_audit_is_never_deleted BEFORE DELETE ON access_audit "
            "BEGIN SELECT RAISE(ABORT, 'access_audit is append-only'); END",
            "CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit "
            "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
            "CREATE TRIGGER audit_is_never_updated BEFORE UPDATE OF tenant_id, id, at, action, "
            "memory_id, agent, session, content_hmac, request_id ON audit "
            "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
            # Only to erase a reason.
            "CREATE TRIGGER audit_reason_is_only_erased BEFORE UPDATE OF reason ON audit "
            "WHEN new.reason IS NOT NULL "
            "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
        )
    }
)
