"""Mending vectors in SQLite: what cannot be compared or belongs to nothing is taken away."""

from typing import Final

from sqlalchemy import Connection, text

from commonbrain.domain.memory import FINDABLE_STATES

# ruff: noqa: S608 the statements are put together from constants of this file alone
_FINDABLE: Final = ", ".join(f"'{state}'" for state in sorted(FINDABLE_STATES))
_ORPHANS: Final = (
    "DELETE FROM {0} WHERE tenant_id = :tenant AND NOT EXISTS "
    "(SELECT 1 FROM memories m WHERE m.tenant_id = {0}.tenant_id AND m.id = memory_id)"
)
_DROP_ORPHANS: Final = text(_ORPHANS.format("vectors"))
_DROP_ORPHANS_OF_FIELDS: Final = text(_ORPHANS.format("field_vectors"))
# The rows stay without their values under a new number, from which readers learn of it.
_UNSOUND: Final = (
    "UPDATE {0} SET vector = NULL, seq = {1} "
    "WHERE tenant_id = :tenant AND space_id = :space AND vector IS NOT NULL AND memory_id IN ("
    "SELECT w.memory_id FROM {0} w JOIN memories m "
    "ON m.tenant_id = w.tenant_id AND m.id = w.memory_id "
    "WHERE w.tenant_id = :tenant AND w.space_id = :space AND w.vector IS NOT NULL "
    f"AND (length(w.vector) <> :size OR m.state NOT IN ({_FINDABLE})))"
)
_EMPTY_UNSOUND: Final = text(_UNSOUND.format("vectors", ":seq + part"))
# Each field numbers its own changes.
_EMPTY_UNSOUND_OF_FIELDS: Final = text(
    _UNSOUND.format(
        "field_vectors",
        "(SELECT max(o.seq) + 1 FROM field_vectors o WHERE o.tenant_id = field_vectors.tenant_id "
        "AND o.space_id = field_vectors.space_id AND o.field = field_vectors.field)",
    )
)


def drop_unsound(connection: Connection, *, tenant: str, space_id: int, size: int, seq: int) -> int:
    """Empty the vectors of another size in bytes, or of what cannot be found; count the rows.

    A memory loses all of its windows, or all of its fields, for they are made together. What is
    emptied is numbered from `seq`, and by field, from which readers learn of it.
    """
    given = {"tenant": tenant, "space": space_id, "size": size}
    return (
        connection.execute(_DROP_ORPHANS, {"tenant": tenant}).rowcount
        + connection.execute(_DROP_ORPHANS_OF_FIELDS, {"tenant": tenant}).rowcount
        + connection.execute(_EMPTY_UNSOUND, given | {"seq": seq}).rowcount
        + connection.execute(_EMPTY_UNSOUND_OF_FIELDS, given).rowcount
    )
