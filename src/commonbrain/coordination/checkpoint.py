"""Checkpoint: which rules bind a risky action, asked before it; not twice within five minutes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from commonbrain.coordination.scratchpad import RESERVED
from commonbrain.coordination.session_views import Binding, Checked
from commonbrain.embeddings.interface import Matrix
from commonbrain.history.unit_of_work import Act
from commonbrain.model import ids
from commonbrain.model.errors import Invalid, Unavailable
from commonbrain.model.kinds import Kind, RuleDetail, Severity
from commonbrain.model.limits import QUERY_CHARS_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter
from commonbrain.model.sessions import Note
from commonbrain.model.skills import read_skill
from commonbrain.retrieval.query_plan import search_terms
from commonbrain.services import House
from commonbrain.text.normalisation import normalise_line

COOL_DOWN: Final = timedelta(minutes=5)
_SHOWN_MAX: Final = 5
"""Of each sort: what binds is read, a long list is not."""
_NEAR: Final = 50
"""Rules looked through for those near an action."""


def checked_action(action: str) -> str:
    """Give the action that is asked about on one line.

    Raises:
        Invalid: it is empty or too long.

    """
    line = normalise_line(action) or ""
    if not 0 < len(line) <= QUERY_CHARS_MAX:
        raise Invalid(
            f"The action has {len(line)} characters; 1 to {QUERY_CHARS_MAX} are allowed.",
            hint="Say in a sentence what you are about to do.",
        )
    return line


def vector_of(house: House, action: str) -> Matrix | None:
    """Embed an action, before a transaction opens; None while the embedder is down."""
    try:
        return house.embedder.query(action)
    except Unavailable:
        return None


def binding(act: Act, action: str, *, vector: Matrix | None) -> Checked:
    """Find what binds an action: the blockers, the rules near it, the skills it names."""
    look = act.look(Filter(kinds=(Kind.RULE,), project=act.caller.project))
    triggers = {
        id_: skill
        for id_, given in act.tx.memories.skills(look).items()
        if (skill := read_skill(given)) and skill.fires(action, act.caller.project)
    }
    blocking = act.tx.board.blockers(look, limit=_SHOWN_MAX)
    near = (
        act.tx.index.lexical(search_terms(action), look, limit=_NEAR)
        if vector is None
        else act.tx.index.nearest(
            vector, look, limit=_NEAR, at_least=act.house.store.space.relevant_at
        )
    )
    found = act.tx.memories.get([*blocking.ids, *(hit.id for hit in near), *triggers])
    near_by = [hit.id for hit in near if hit.id not in triggers and _is_pattern(found[hit.id])]
    return Checked(
        at=act.now,
        blockers=_shown(found, blocking.ids),
        patterns=_shown(found, near_by),
        skills=tuple(
            replace(one, skill=triggers[ids.parse(ids.MEMORY, one.id)].name)
            for one in _shown(found, sorted(triggers))
        ),
        is_more=blocking.total > _SHOWN_MAX,
    )


def cooled_down(act: Act, action: str, *, checked: Checked) -> Checked:
    """Say it once: what was checked in the last minutes and has not changed is not told again."""
    topic = _digest(sorted(search_terms(action)))
    told = _digest(one.id for one in (*checked.blockers, *checked.patterns, *checked.skills))
    key = f"{RESERVED}{topic}"
    known = next((one for one in act.tx.notes.of(act.caller, now=act.now) if one.key == key), None)
    if known is not None and known.value == told:
        return Checked(at=known.at, is_repeated=True)
    act.tx.notes.put(
        Note(
            key=key,
            value=told,
            agent=act.caller.agent,
            session=act.caller.session or "",
            at=act.now,
            expires_at=act.now + COOL_DOWN,
        )
    )
    return checked


def _is_pattern(rule: Memory) -> bool:
    return isinstance(rule.detail, RuleDetail) and rule.detail.severity is Severity.PATTERN


def _shown(found: dict[int, Memory], wanted: Sequence[int]) -> tuple[Binding, ...]:
    known = [found[id_] for id_ in wanted][:_SHOWN_MAX]
    return tuple(Binding(id=ids.show(ids.MEMORY, one.id), headline=one.headline) for one in known)


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]
