"""Checkpoint: the rules that apply to a risky action, reported once in five minutes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from commonbrain.coordination.scratchpad import RESERVED_PREFIX
from commonbrain.coordination.session_views import CheckpointResult, MatchingRule
from commonbrain.embeddings.interface import Matrix
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.kinds import Kind, RuleDetail, Severity
from commonbrain.model.limits import QUERY_CHARS_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter
from commonbrain.model.sessions import Note
from commonbrain.model.skills import read_skill
from commonbrain.retrieval.query_plan import search_terms
from commonbrain.services import Services
from commonbrain.text.normalisation import normalise_line

COOLDOWN: Final = timedelta(minutes=5)
_SHOWN_MAX: Final = 5
"""Rules shown of each type."""
_NEAR: Final = 50
"""Rules searched for those similar to an action."""


def validate_action(action: str) -> str:
    """Return the action on one line.

    Raises:
        InvalidInputError: it is empty or too long.

    """
    line = normalise_line(action) or ""
    if not 0 < len(line) <= QUERY_CHARS_MAX:
        raise InvalidInputError(
            f"The action has {len(line)} characters; 1 to {QUERY_CHARS_MAX} are allowed.",
            hint="Say in a sentence what you are about to do.",
        )
    return line


def vector_of(services: Services, action: str) -> Matrix | None:
    """Embed an action before the transaction; None if the embedder is unavailable."""
    try:
        return services.embedder.query(action)
    except UnavailableError:
        return None


def matching_rules(unit: UnitOfWork, action: str, *, vector: Matrix | None) -> CheckpointResult:
    """Find the rules for an action: blockers, similar rules and skills that it names."""
    query_scope = unit.query_scope(Filter(kinds=(Kind.RULE,), project=unit.caller.project))
    triggers = {
        id_: skill
        for id_, given in unit.tx.memories.skills(query_scope).items()
        if (skill := read_skill(given)) and skill.fires(action, unit.caller.project)
    }
    blocking = unit.tx.briefing.blockers(query_scope, limit=_SHOWN_MAX)
    near = (
        unit.tx.index.lexical(search_terms(action), query_scope, limit=_NEAR)
        if vector is None
        else unit.tx.index.nearest(
            vector, query_scope, limit=_NEAR, at_least=unit.services.store.space.relevance_threshold
        )
    )
    memories = unit.tx.memories.get([*blocking.ids, *(hit.id for hit in near), *triggers])
    near_by = [hit.id for hit in near if hit.id not in triggers and _is_pattern(memories[hit.id])]
    return CheckpointResult(
        at=unit.now,
        blockers=_shown(memories, blocking.ids),
        patterns=_shown(memories, near_by),
        skills=tuple(
            replace(one, skill=triggers[ids.parse(ids.MEMORY, one.id)].name)
            for one in _shown(memories, sorted(triggers))
        ),
        is_more=blocking.total > _SHOWN_MAX,
    )


def suppress_repeat(
    unit: UnitOfWork, action: str, *, checked: CheckpointResult
) -> CheckpointResult:
    """Shorten the result if the same action was checked recently and nothing changed since."""
    topic = _digest(sorted(search_terms(action)))
    digest = _digest(one.id for one in (*checked.blockers, *checked.patterns, *checked.skills))
    key = f"{RESERVED_PREFIX}{topic}"
    known = next(
        (one for one in unit.tx.scratchpad.of(unit.caller, now=unit.now) if one.key == key), None
    )
    if known is not None and known.value == digest:
        return CheckpointResult(at=known.at, is_repeated=True)
    unit.tx.scratchpad.put(
        Note(
            key=key,
            value=digest,
            agent=unit.caller.agent,
            session=unit.caller.session or "",
            at=unit.now,
            expires_at=unit.now + COOLDOWN,
        )
    )
    return checked


def _is_pattern(rule: Memory) -> bool:
    return isinstance(rule.detail, RuleDetail) and rule.detail.severity is Severity.PATTERN


def _shown(memories: dict[int, Memory], memory_ids: Sequence[int]) -> tuple[MatchingRule, ...]:
    known = [memories[id_] for id_ in memory_ids][:_SHOWN_MAX]
    return tuple(
        MatchingRule(id=ids.show(ids.MEMORY, one.id), headline=one.headline) for one in known
    )


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]
