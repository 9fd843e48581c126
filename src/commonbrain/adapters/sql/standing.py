"""What stands before anything is stored: the tenant's row, and that of the store's space."""

import secrets
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, insert, select

from commonbrain.adapters.sql.tables import spaces, tenants
from commonbrain.domain.space import Space
from commonbrain.ports.index import SpaceMismatch

_AUDIT_KEY_BYTES: Final = 32
"""As long as the digest it keys (RFC 2104)."""


def known_space(connection: Connection, space: Space) -> int | None:
    """Give the id of the store's space, None when it has none yet.

    Raises:
        SpaceMismatch: the store's vectors live in another space.

    """
    known = connection.execute(select(spaces)).mappings().all()
    for row in known:
        if row["name"] == space.name and row["dimensions"] == space.dimensions:
            return row["id"]
    if not known:
        return None
    raise SpaceMismatch(", ".join(row["name"] for row in known), made=space.name)


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
