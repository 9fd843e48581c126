"""Rows that many tenants lack: one query finds out instead of several that return nothing."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

from sqlalchemy import String, bindparam, literal, null, select, union_all

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

    from sqlalchemy import ColumnElement, CompoundSelect, Table


class OptionalRows(StrEnum):
    """Rows that a recall asks for and that a tenant may have none of."""

    ANNOTATIONS = "annotations"
    ENTITIES = "entities"
    EXPIRIES = "expiries"
    LINKS = "links"
    MESSAGES = "messages"
    PEOPLE = "people"
    REVIEWS = "reviews"
    SKILLS = "skills"
    TOPICS = "topics"


_RULES: Final = DETAILS[Kind.RULE]
_WHERE: Final[Mapping[OptionalRows, tuple[Table, tuple[ColumnElement[bool], ...]]]] = {
    OptionalRows.ANNOTATIONS: (annotations, ()),
    OptionalRows.ENTITIES: (entities, ()),
    OptionalRows.EXPIRIES: (falls, ()),
    OptionalRows.LINKS: (links, ()),
    OptionalRows.MESSAGES: (DETAILS[Kind.MESSAGE], ()),
    OptionalRows.PEOPLE: (entities, (entities.c.type == EntityType.PERSON,)),
    OptionalRows.REVIEWS: (reviews, ()),
    # The same condition as in the index of triggers.
    OptionalRows.SKILLS: (_RULES, (_RULES.c.skill.is_not(null()),)),
    OptionalRows.TOPICS: (entities, (entities.c.type == EntityType.TOPIC,)),
}


@cache
def present_rows() -> CompoundSelect[str]:
    """Build the query for the names of those that a tenant has; each costs an index lookup."""
    return union_all(
        *(
            select(literal(str(rows), String()))
            .select_from(table)
            .where(table.c.tenant_id == bindparam("tenant"), *conditions)
            .limit(1)
            for rows, (table, conditions) in _WHERE.items()
        )
    )
