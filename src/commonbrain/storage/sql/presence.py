"""Rows that many tenants lack: one query finds out instead of several that return nothing."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Integer, String, bindparam, literal_column, null, select, union_all

from commonbrain.model.kinds import Kind
from commonbrain.storage.schema.memories import (
    DETAILS,
    EntityType,
    annotations,
    entities,
    falls,
    links,
    reviews,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Column, ColumnElement, CompoundSelect


class OptionalRows(StrEnum):
    """Rows that a recall asks for and that a tenant may have none of."""

    ANNOTATIONS = "annotations"
    ENTITIES = "entities"
    EXPIRIES = "expiries"
    LINKS = "links"
    MESSAGES = "messages"
    REVIEWS = "reviews"
    SKILLS = "skills"
    TOPICS = "topics"


_RULES: Final = DETAILS[Kind.RULE]
# A column of the index that finds such rows, the one after the columns that the conditions fix, and
# the conditions. In order of that column, the first row comes from the index: without an order,
# Postgres scans the table, with the rows of every tenant, if it expects to find one early.
_FOUND_BY: Final[Mapping[OptionalRows, tuple[Column[Any], tuple[ColumnElement[bool], ...]]]] = {
    OptionalRows.ANNOTATIONS: (annotations.c.id, ()),
    OptionalRows.ENTITIES: (entities.c.memory_id, ()),
    OptionalRows.EXPIRIES: (falls.c.memory_id, ()),
    OptionalRows.LINKS: (links.c.from_id, ()),
    OptionalRows.MESSAGES: (DETAILS[Kind.MESSAGE].c.memory_id, ()),
    OptionalRows.REVIEWS: (reviews.c.memory_id, ()),
    # The same condition as in the index of triggers.
    OptionalRows.SKILLS: (_RULES.c.memory_id, (_RULES.c.skill.is_not(null()),)),
    OptionalRows.TOPICS: (entities.c.name, (entities.c.type == EntityType.TOPIC,)),
}


@cache
def present_rows() -> CompoundSelect[str]:
    """Build the query for the names of those that a tenant has; each costs an index lookup."""
    firsts = (
        select(literal_column(f"'{rows}'", String()).label("name"))
        .where(column.table.c.tenant_id == bindparam("tenant"), *conditions)
        .order_by(column)
        # As a parameter, SQLite would plan anew each time.
        .limit(literal_column("1", Integer()))
        .subquery()
        for rows, (column, conditions) in _FOUND_BY.items()
    )
    # SQLite allows an order and a limit in a subquery alone.
    return union_all(*(select(first.c.name) for first in firsts))
