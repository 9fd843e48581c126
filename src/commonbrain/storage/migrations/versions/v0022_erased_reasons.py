"""Reasons can be erased from the audit of memories; nothing else of a line changes.

Reasons of changes to memories that were erased earlier are emptied.
"""

from typing import Final

from alembic import op

revision: Final = "0022"
down_revision: Final = "0021"

_SQLITE: Final = (
    "DROP TRIGGER IF EXISTS audit_is_never_updated",
    "DROP TRIGGER IF EXISTS audit_reason_is_only_erased",
    "CREATE TRIGGER audit_is_never_updated BEFORE UPDATE OF tenant_id, id, at, action, memory_id, "
    "agent, session, content_hmac, request_id ON audit "
    "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
    "CREATE TRIGGER audit_reason_is_only_erased BEFORE UPDATE OF reason ON audit "
    "WHEN new.reason IS NOT NULL BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
)
_POSTGRES: Final = (
    "CREATE OR REPLACE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN IF TG_OP = 'UPDATE' AND to_jsonb(NEW) = to_jsonb(OLD) || '{\"reason\": null}' "
    "THEN RETURN NEW; END IF; RAISE EXCEPTION 'audit is append-only' "
    "USING ERRCODE = 'integrity_constraint_violation'; END $$",
)
_ERASED: Final = (
    "UPDATE audit SET reason = NULL WHERE action <> 'erase' AND reason IS NOT NULL AND EXISTS "
    "(SELECT 1 FROM memories m WHERE m.tenant_id = audit.tenant_id AND m.id = audit.memory_id "
    "AND m.headline = '(erased)')"
)


def upgrade() -> None:
    """Replace the triggers, which older programs do not notice; empty old reasons."""
    is_postgres = op.get_bind().dialect.name == "postgresql"
    for statement in (*(_POSTGRES if is_postgres else _SQLITE), _ERASED):
        op.get_bind().exec_driver_sql(statement)
