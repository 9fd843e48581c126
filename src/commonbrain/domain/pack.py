"""Packing: the best evidence that fits a budget of items and tokens, quoted for an agent."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from commonbrain.domain import ids, limits
from commonbrain.domain.disputes import CONFLICTS_MAX, Conflict, naming
from commonbrain.domain.kinds import Kind
from commonbrain.domain.query import FIELD, Budget, Candidate
from commonbrain.domain.recollection import (
    ENVELOPE_TOKENS,
    HEADING,
    UNSURE,
    Item,
    Omitted,
    Order,
    evidence_of,
    omission,
    render_item,
)
from commonbrain.domain.scoring import doubted
from commonbrain.domain.skill import skill_of
from commonbrain.domain.tokens import estimate
from commonbrain.domain.trust import Trust

_BINDING_KINDS: Final = frozenset({Kind.RULE, Kind.FACT})
_REASON_AT: Final = 0.5
"""A feature this strong, 0..1, is named as a reason."""
_REASONS: Final = {
    "lexical": "words",
    "vector": "meaning",
    "recent": "newest",
    "date": "time",
    "speaker": "speaker",
    "same_project": "same project",
}
_WORD: Final = re.compile(r"\w+")
_NEAR_AT: Final = 0.8
"""Two texts that share this much of their words say nearly the same."""
_COMPARED_CHARS: Final = 1000
"""How far into a text its words are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What fits: the items, the most tokens they take as text or JSON, and what was left out."""

    items: tuple[Item, ...]
    tokens: int
    omitted: Omitted
    conflicts: tuple[Conflict, ...] = ()
    near: tuple[int, ...] = ()
    """Ids left out because enough of the answer says nearly the same."""


def pack(
    ranked: Sequence[Candidate], budget: Budget, *, conflicts: Sequence[Conflict] = ()
) -> Packed:
    """Fill the budget best first, in whichever order: whole bodies, then headlines, then bare ids.

    Skills that were fired are never displaced: where not all fits whole, each of them and the best
    trusted rule or fact has a seat kept, for its headline if it can be. A conflict that an item is
    part of is told with it where there is room for both.
    """
    distinct, near = _thin(ranked, enough=2 * budget.max_items)
    around = (HEADING, UNSURE, omission(len(ranked)))
    box = _Box(
        room=budget.max_tokens,
        # What stands around the items is paid for in advance.
        spent=max(sum(map(estimate, around)) + len(around), ENVELOPE_TOKENS),
        # Put in order of time, any item may get any number: each is paid for the widest.
        number=budget.max_items if budget.order is Order.TIMELINE else None,
    )
    chosen = _choose(distinct, budget.max_items)
    seats = _seats(chosen, room=box.room - box.spent)
    for candidate in chosen:
        seats.pop(candidate.memory.id, None)
        box.put(candidate, conflicts=conflicts, kept_free=sum(seats.values()))
    left_out = [one.memory.id for one in ranked if one.memory.id not in box.kept]
    shown = tuple(ids.show(ids.MEMORY, id_) for id_ in left_out[: limits.OMITTED_IDS_MAX])
    return Packed(
        items=_in_order(box.items, budget.order),
        tokens=box.spent if box.items else 0,
        omitted=Omitted(count=len(left_out), ids=shown),
        conflicts=tuple(box.conflicts),
        near=tuple(candidate.memory.id for candidate in near),
    )


@dataclass(slots=True, kw_only=True)
class _Box:
    """An answer being filled."""

    room: int
    spent: int
    number: int | None = None
    """The number that every item is paid for; None when each gets the next."""
    items: list[Item] = field(default_factory=list[Item])
    conflicts: list[Conflict] = field(default_factory=list[Conflict])
    kept: set[int] = field(default_factory=set[int])

    def put(self, candidate: Candidate, *, conflicts: Sequence[Conflict], kept_free: int) -> None:
        """Put one in, as full as it fits, with its conflicts if they fit with it."""
        number = self.number or len(self.items) + 1
        shown = ids.show(ids.MEMORY, candidate.memory.id)
        told = self._untold(naming(conflicts, shown)) if conflicts else ()
        beside = sum(_cost_of_conflict(conflict) for conflict in told)
        for form in _forms(candidate):
            cost = _cost(form, number)
            if self.spent + cost + kept_free > self.room:
                continue
            self.items.append(form)
            self.kept.add(candidate.memory.id)
            self.spent += cost
            if told and self.spent + beside + kept_free <= self.room:
                self.conflicts += told
                self.spent += beside
            return

    def _untold(self, conflicts: Sequence[Conflict]) -> Sequence[Conflict]:
        fresh = [conflict for conflict in conflicts if conflict not in self.conflicts]
        return fresh[: CONFLICTS_MAX - len(self.conflicts)]


def _in_order(items: Sequence[Item], order: Order) -> tuple[Item, ...]:
    if order is Order.BEST:
        return tuple(items)
    return tuple(sorted(items, key=lambda one: (one.occurred_at, one.recorded_at, one.id)))


def _cost(item: Item, number: int) -> int:
    """Count what an item takes, whichever way it is read; each part is joined to the next."""
    as_text, as_json = render_item(item, number), evidence_of(item).to_json()
    return max(estimate(as_text), estimate(as_json)) + 1


def _cost_of_conflict(conflict: Conflict) -> int:
    return max(estimate(conflict.line()), estimate(conflict.to_json()) + _CONFLICTS_KEY) + 1


_CONFLICTS_KEY: Final = estimate(',"conflicts":[]')


def to_item(candidate: Candidate) -> Item:
    """Present a candidate whole, with the reasons that brought it."""
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


def _reasons(candidate: Candidate) -> Iterator[str]:
    skill = skill_of(candidate.memory)
    if skill and _is_fired(candidate):
        yield f"skill:{skill.name}"
    yield from (name for name in candidate.features if name.startswith(FIELD))
    for name, reason in _REASONS.items():
        if candidate.features.get(name, 0.0) >= _REASON_AT:
            yield reason
    if candidate.features.get("linked"):
        yield "linked"


def _forms(candidate: Candidate) -> Iterator[Item]:
    """Give its forms from the fullest to the barest: body, headline, id."""
    whole = to_item(candidate)
    yield whole
    headline = replace(whole, body=None)
    yield headline
    yield replace(headline, headline=None)


def _seats(chosen: Sequence[Candidate], *, room: int) -> dict[int, int]:
    """Say how many tokens to keep free for whom: for an id each, then for headlines, as it goes."""
    binding = next(filter(_is_binding, chosen), None)
    seated = [one for one in chosen if _is_fired(one) or one is binding]
    seats: dict[int, int] = {}
    for fullness in (_ID, _HEADLINE):
        for candidate in seated:
            form = list(_forms(candidate))[fullness]
            cost = _cost(form, len(chosen))
            more = cost - seats.get(candidate.memory.id, 0)
            if more <= room:
                seats[candidate.memory.id] = cost
                room -= more
    return seats


_ID, _HEADLINE = -1, -2
"""Places among the forms of a candidate."""


def _choose(ranked: Sequence[Candidate], max_items: int) -> Sequence[Candidate]:
    """Take the best, but keep a seat for the best trusted rule or fact close behind them."""
    best, behind = ranked[:max_items], ranked[max_items : 2 * max_items]
    if max_items == 1 or any(_is_binding(candidate) for candidate in best):
        return best
    binding = next((candidate for candidate in behind if _is_binding(candidate)), None)
    return best if binding is None or _is_fired(best[-1]) else [*best[:-1], binding]


def _is_fired(candidate: Candidate) -> bool:
    """Say whether it is a skill that the query names."""
    return bool(candidate.features.get("skill"))


def _is_binding(candidate: Candidate) -> bool:
    memory = candidate.memory
    return memory.kind in _BINDING_KINDS and memory.trust is not Trust.UNTRUSTED_WEB


def _thin(ranked: Sequence[Candidate], *, enough: int) -> tuple[list[Candidate], list[Candidate]]:
    """Part the first `enough` that are worth a seat from what says nearly the same as two do.

    Skills that were fired are worth one whatever they say.
    """
    kept: list[Candidate] = []
    near: list[Candidate] = []
    said: list[frozenset[str]] = []
    for candidate in ranked:
        if len(kept) == enough:
            break
        words = _words(candidate)
        alike = sum(_is_near(words, other) for other in said)
        if alike >= limits.NEAR_DUPLICATES_MAX and not _is_fired(candidate):
            near.append(candidate)
        else:
            kept.append(candidate)
            said.append(words)
    return kept, near


def _words(candidate: Candidate) -> frozenset[str]:
    return frozenset(_WORD.findall(candidate.memory.body[:_COMPARED_CHARS].casefold()))


def _is_near(one: frozenset[str], other: frozenset[str]) -> bool:
    fewer, more = len(one), len(other)
    if fewer > more:
        fewer, more = more, fewer
    if fewer < _NEAR_AT * more or not more:
        return False
    shared = len(one & other)
    return shared >= _NEAR_AT * (fewer + more - shared)
