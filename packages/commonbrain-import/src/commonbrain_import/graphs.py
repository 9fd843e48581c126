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
    name: type_
    for type_, names in {
        LinkType.DEPENDS_ON: "depends_on requires needs",
        LinkType.DERIVED_FROM: "derived_from based_on",
        LinkType.SUPPORTS: "supports confirms",
        LinkType.CONFLICTS_WITH: "contradicts conflicts_with",
        LinkType.CAUSES: "causes caused leads_to",
        LinkType.ENABLES: "enables",
        LinkType.PRECEDES: "precedes",
        LinkType.ABOUT: "about describes documents",
    }.items()
    for name in names.split()
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
