"""Migrations: the statements that bring an older store to each newer version of the schema.

A new store is made from `storage.schema` instead. A statement runs on every engine, and is never
changed once a store may have run it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

# An agent that called by the command line or the page alone is a person, all others are models.
_CALLED: Final = (
    "EXISTS (SELECT 1 FROM tool_events AS e WHERE e.tenant_id = {table}.tenant_id "
    "AND e.agent = {table}.agent AND e.door "
)
_BY_PERSON: Final = _CALLED + "IN ('cli', 'web'))"
_BY_MODEL: Final = _CALLED + "NOT IN ('cli', 'web'))"
_OF_COMMONBRAIN: Final = "agent IN ('upkeep', 'commonbrain')"


def _add_authority(table: str, default: str) -> str:
    return f"ALTER TABLE {table} ADD COLUMN authority VARCHAR(24) DEFAULT '{default}' NOT NULL"


# ruff: noqa: S608 the statements are put together from constants of this file alone
STEPS: Final[Mapping[str, Sequence[str]]] = {
    # Who wrote a memory, as its trust, its capture and the calls of its agent show, and for whom a
    # job runs.
    "0024": (
        _add_authority("memories", "model"),
        _add_authority("jobs", "model"),
        "UPDATE memories SET authority = CASE WHEN trust = 'untrusted_web' THEN 'web' "
        "WHEN auto_captured THEN 'captured' "
        f"WHEN {_BY_PERSON} AND NOT {_BY_MODEL} THEN 'person' ELSE 'model' END".format(
            table="memories"
        ),
    ),
    # Who changed a memory, and who wrote a note. What is stored counts as a person's, so that no
    # model undoes it, unless its agent is known as a model.
    "0025": tuple(
        statement
        for table in ("changes", "notes")
        for statement in (
            _add_authority(table, "person"),
            f"UPDATE {table} SET authority = 'model' "
            f"WHERE {_BY_MODEL.format(table=table)} OR {_OF_COMMONBRAIN}",
        )
    ),
    # Who linked two memories, and who annotated one; what an older program leaves out is a model's.
    "0026": tuple(
        statement
        for table in ("links", "annotations")
        for statement in (
            _add_authority(table, "model"),
            f"UPDATE {table} SET authority = 'person' "
            f"WHERE NOT {_OF_COMMONBRAIN} AND NOT {_BY_MODEL.format(table=table)}",
        )
    ),
    # Every boot lists the pinned memories.
    "0027": ("CREATE INDEX ix_memories_pinned ON memories (tenant_id, id) WHERE pinned",),
    # A memory is found by the reference of its source.
    "0028": (
        "CREATE INDEX ix_memories_source ON memories (tenant_id, source_ref) "
        "WHERE source_ref IS NOT NULL",
    ),
}
"""By the version that a store has afterwards, in their order."""
