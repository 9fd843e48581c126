"""What stands before anything is stored: the tenant's row, and that of the store's space."""

import secrets
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, insert, select

from commonbrain.adapters.sql.tables import spaces, tenants
from commonbrain.domain.space import KeptSpace, Space, SpaceState
from commonbrain.ports.spaces import SpaceMismatch

_AUDIT_KEY_BYTES: Final = 32
"""As long as the digest it keys (RFC 2104)."""


_OPENED: Final = frozenset({SpaceState.CURRENT, SpaceState.RETIRED})
"""A program that was not told of a move goes on in the space that it knows, and says so."""


def known_spaces(connection: Connection) -> list[KeptSpace]:
    """List the spaces of the store, those too of which only the row is left, oldest first."""
    rows = connection.execute(select(spaces).order_by(spaces.c.id)).mappings()
    return [KeptSpace(**row) for row in rows]


def known_space(connection: Connection, space: Space) -> int | None:
    """Give the id of a space that the store can be opened in, None when it has none yet.

    Raises:
        SpaceMismatch: the store's vectors live in another space.

    """
    known = known_spaces(connection)
    for one in known:
        is_same = (one.name, one.dimensions) == (space.name, space.dimensions)
        if is_same and one.state in _OPENED:
            return one.id
    if not known:
        return None
    serving = [one.name for one in known if one.state is SpaceState.CURRENT]
    raise SpaceMismatch(", ".join(serving), made=space.name)


def serving_space(connection: Connection) -> KeptSpace | None:
    """Give the space that serves; None in a store that has none yet."""
    serves = select(spaces).where(spaces.c.state == SpaceState.CURRENT)
    row = connection.execute(serves).mappings().first()
    return None if row is None else KeptSpace(**row)


def register(connection: Connection, tenant: str, *, space: Space, now: datetime) -> int:
    """Make the tenant's and the space's rows where they are missing; give the space's id."""
    add_tenant(connection, tenant, now=now)
    space_id = known_space(connection, space)
    if space_id is not None:
        return space_id
    row = {"name": space.name, "dimensions": space.dimensions}
    added = connection.execute(insert(spaces).values(row).returning(spaces.c.id))
    return added.scalar_one()


def add_tenant(connection: Connection, tenant: str, *, now: datetime) -> bool:
    """Make a tenant's row, unless it is there; say whether it was made."""
    if connection.execute(select(tenants.c.id).where(tenants.c.id == tenant)).first() is not None:
        return False
    key = secrets.token_bytes(_AUDIT_KEY_BYTES)
    row = {"id": tenant, "created_at": now, "audit_key": key}
    connection.execute(insert(tenants).values(row))
    return True
