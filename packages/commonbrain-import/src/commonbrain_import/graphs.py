"""Graphs of entities: what an edge or an observation says, as a text that stands alone."""

from __future__ import annotations

import re
from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import source_reference
from commonbrain_import.rows import about_entity, names_in

_TYPES: Final = {
    "depends_on": LinkType.DEPENDS_ON,
    "requires": LinkType.DEPENDS_ON,
    "needs": LinkType.DEPENDS_ON,
    "derived_from": LinkType.DERIVED_FROM,
    "based_on": LinkType.DERIVED_FROM,
    "supports": LinkType.SUPPORTS,
    "confirms": LinkType.SUPPORTS,
    "contradicts": LinkType.CONFLICTS_WITH,
    "conflicts_with": LinkType.CONFLICTS_WITH,
    "causes": LinkType.CAUSES,
    "caused": LinkType.CAUSES,
    "leads_to": LinkType.CAUSES,
    "enables": LinkType.ENABLES,
    "precedes": LinkType.PRECEDES,
    "about": LinkType.ABOUT,
    "describes": LinkType.ABOUT,
    "documents": LinkType.ABOUT,
}
"""Relation types of other systems that mean one of ours."""
_BETWEEN_WORDS: Final = re.compile(r"[\s_\-]+")


def link_type(relation: str) -> LinkType:
    """Return the link type that a relation's name means; `relates_to` if none does."""
    key = _BETWEEN_WORDS.sub("_", relation.strip().lower())
    return _TYPES.get(key, LinkType.RELATES_TO)


def edge_text(first: str, relation: str, *, second: str) -> str:
    """State an edge as a sentence: `Ann works at Harbour`."""
    verb = _BETWEEN_WORDS.sub(" ", relation).strip()
    spoken = verb.lower() if verb.isupper() else verb
    return f"{first} {spoken or 'relates to'} {second}"


def edge_draft(first: str, relation: str, *, second: str, of: str) -> Draft:
    """Return a fact that states an edge in a graph of a system."""
    return Draft(
        body=edge_text(first, relation, second=second),
        kind=Kind.FACT,
        tags=names_in([relation]),
        source_ref=source_reference(of, f"{first} > {relation} > {second}"),
        detail=about_entity(first),
    )


def about(subject: str, text: str) -> str:
    """Return a text that names its subject, which is put before it unless it is there."""
    return text if subject.casefold() in text.casefold() else f"{subject}: {text}"
