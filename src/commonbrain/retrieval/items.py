"""Candidates as items of a result, with the reasons for their rank."""

from __future__ import annotations

from typing import Final

from commonbrain.model import ids
from commonbrain.model.kinds import CausalField
from commonbrain.model.memory import doubted
from commonbrain.model.query import FIELD, Candidate
from commonbrain.model.recall_result import Item
from commonbrain.model.skills import skill_of
from commonbrain.retrieval.retrieve import RETRIEVERS
from commonbrain.retrieval.score import FEATURES
from commonbrain.retrieval.table import SKILL

_REASON_AT: Final = 0.5
"""A feature from this value on is named as a reason, 0..1."""
_CONTEXT_GAIN_MIN: Final = 0.1
"""How much better its passage must match than the message itself to be named as a reason."""
_REASONS: Final = {
    name: one.reason for name, one in {**RETRIEVERS, **FEATURES}.items() if one.reason is not None
}
_FIELD_REASONS: Final = tuple(f"{FIELD}{field}" for field in CausalField)


def is_matching_skill(candidate: Candidate) -> bool:
    """Return whether it is a skill that the query names."""
    return bool(candidate.features.get(SKILL))


def to_item(candidate: Candidate) -> Item:
    """Convert a candidate to a complete item, with the reasons for its rank."""
    memory = candidate.memory
    return Item(
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        headline=memory.headline,
        body=memory.body,
        score=round(min(candidate.score, 1.0), 4),
        why=tuple(_reasons(candidate)),
        label=memory.label,
        project=memory.project,
        scope=memory.scope,
        agent=memory.speaker or memory.agent,
        trust=memory.trust,
        confidence=doubted(memory.confidence, candidate.features),
        source_ref=memory.source_ref,
        occurred_at=memory.occurred_at,
        recorded_at=memory.recorded_at,
        superseded_count=memory.superseded_count,
        salience=memory.salience,
        rating=memory.rating,
        tags=memory.tags,
        context=candidate.context,
        notes=candidate.notes,
    )


def _reasons(candidate: Candidate) -> list[str]:
    features = candidate.features
    skill = skill_of(candidate.memory) if is_matching_skill(candidate) else None
    own, context = features.get("self_score", 0.0), features.get("context_score", 0.0)
    is_by_passage = own < _REASON_AT and own + _CONTEXT_GAIN_MIN <= context
    return [
        *([f"skill:{skill.name}"] if skill else ()),
        *(name for name in _FIELD_REASONS if name in features),
        *[one for name, one in _REASONS.items() if features.get(name, 0.0) >= _REASON_AT],
        *(["passage"] if is_by_passage else ()),
        *(["linked"] if features.get("linked") else ()),
    ]
