"""Mending vectors in SQLite: what cannot be compared or belongs to nothing is taken away."""

from typing import Final

from sqlalchemy import Connection, text

from commonbrain.domain.memory import FINDABLE_STATES

# ruff: noqa: S608 the statements are put together from constants of this file alone
_FINDABLE: Final = ", ".join(f"'{state}'" for state in sorted(FINDABLE_STATES))
_DROP_ORPHANS: Final = text(
    "DELETE FROM vectors WHERE tenant_id = :tenant AND NOT EXISTS "
    "(SELECT 1 FROM memories m WHERE m.tenant_id = vectors.tenant_id AND m.id = memory_id)"
)
# The rows stay without their values under a new number, from which readers learn of it.
_EMPTY_UNSOUND: Final = text(
    "UPDATE vectors SET vector = NULL, seq = :seq + part "
    "WHERE tenant_id = :tenant AND space_id = :space AND vector IS NOT NULL AND memory_id IN ("
    "SELECT w.memory_id FROM vectors w JOIN memories m "
    "ON m.tenant_id = w.tenant_id AND m.id = w.memory_id "
    "WHERE w.tenant_id = :tenant AND w.space_id = :space AND w.vector IS NOT NULL "
    f"AND (length(w.vector) <> :size OR m.state NOT IN ({_FINDABLE})))"
)


def drop_unsound(connection: Connection, *, tenant: str, space_id: int, size: int, seq: int) -> int:
    """Empty the vectors of another size in bytes, or of what cannot be found; count the rows.

    A memory loses all of its windows, for they are made together. What is emptied is numbered from
    `seq`, from which readers learn of it.
    """
    orphans = connection.execute(_DROP_ORPHANS, {"tenant": tenant}).rowcount
    given = {"tenant": tenant, "space": space_id, "size": size, "seq": seq}
    return orphans + connection.execute(_EMPTY_UNSOUND, given).rowcount
