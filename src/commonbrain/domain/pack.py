"""Packing: the best evidence that fits a budget of items and tokens, quoted for an agent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from commonbrain.domain import ids, limits
from commonbrain.domain.kinds import Kind
from commonbrain.domain.query import Budget, Candidate
from commonbrain.domain.recollection import (
    ENVELOPE_TOKENS,
    HEADING,
    Item,
    Omitted,
    evidence_of,
    omission,
    render_item,
)
from commonbrain.domain.tokens import estimate
from commonbrain.domain.trust import Trust

_BINDING_KINDS: Final = frozenset({Kind.RULE, Kind.FACT})
_REASON_AT: Final = 0.5
"""A feature this strong, 0..1, is named as a reason."""
_REASONS: Final = {
    "lexical": "words",
    "vector": "meaning",
    "recent": "newest",
    "same_project": "same project",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What fits: the items, the most tokens they take as text or JSON, and what was left out."""

    items: tuple[Item, ...]
    tokens: int
    omitted: Omitted


def pack(ranked: Sequence[Candidate], budget: Budget) -> Packed:
    """Fill the budget best first: whole bodies, then headlines, then bare ids."""
    items: list[Item] = []
    kept: set[int] = set()
    # What stands around the items is paid for in advance.
    spent = max(estimate(HEADING) + estimate(omission(len(ranked))) + 2, ENVELOPE_TOKENS)
    chosen = _choose(ranked, budget.max_items)
    binding = next(filter(_is_binding, chosen), None)
    kept_free = _seat(binding, len(chosen), room=budget.max_tokens - spent) if binding else 0
    for candidate in chosen:
        if candidate is binding:
            kept_free = 0
        for form in _forms(candidate):
            cost = _cost(form, len(items) + 1)
            if spent + cost + kept_free <= budget.max_tokens:
                spent += cost
                items.append(form)
                kept.add(candidate.memory.id)
                break
    left_out = [candidate.memory.id for candidate in ranked if candidate.memory.id not in kept]
    shown = tuple(ids.show(ids.MEMORY, id_) for id_ in left_out[: limits.OMITTED_IDS_MAX])
    omitted = Omitted(count=len(left_out), ids=shown)
    return Packed(items=tuple(items), tokens=spent if items else 0, omitted=omitted)


def _cost(item: Item, number: int) -> int:
    """Count what an item takes, whichever way it is read; each part is joined to the next."""
    as_text, as_json = render_item(item, number), evidence_of(item).to_json()
    return max(estimate(as_text), estimate(as_json)) + 1


def to_item(candidate: Candidate) -> Item:
    """Present a candidate whole, with the reasons that brought it."""
    memory = candidate.memory
    return Item(
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        headline=memory.headline,
        body=memory.body,
        score=round(candidate.score, 4),
        why=tuple(
            reason
            for name, reason in _REASONS.items()
            if candidate.features.get(name, 0.0) >= _REASON_AT
        ),
        label=memory.label,
        project=memory.project,
        scope=memory.scope,
        agent=memory.speaker or memory.agent,
        trust=memory.trust,
        confidence=memory.confidence,
        source_ref=memory.source_ref,
        occurred_at=memory.occurred_at,
        recorded_at=memory.recorded_at,
        superseded_count=memory.superseded_count,
    )


def _forms(candidate: Candidate) -> Iterator[Item]:
    """Give its forms from the fullest to the barest: body, headline, id; most fit as a whole."""
    whole = to_item(candidate)
    yield whole
    headline = replace(whole, body=None)
    yield headline
    yield replace(headline, headline=None)


def _seat(candidate: Candidate, last_number: int, *, room: int) -> int:
    """Say how many tokens to keep free for a memory further down: its headline, else its id."""
    _, *short = _forms(candidate)
    costs = (estimate(render_item(form, last_number)) + 1 for form in short)
    return next((cost for cost in costs if cost <= room), 0)


def _choose(ranked: Sequence[Candidate], max_items: int) -> Sequence[Candidate]:
    """Take the best, but keep a seat for the best trusted rule or fact close behind them."""
    best, behind = ranked[:max_items], ranked[max_items : 2 * max_items]
    if max_items == 1 or any(_is_binding(candidate) for candidate in best):
        return best
    binding = next((candidate for candidate in behind if _is_binding(candidate)), None)
    return best if binding is None else [*best[:-1], binding]


def _is_binding(candidate: Candidate) -> bool:
    memory = candidate.memory
    return memory.kind in _BINDING_KINDS and memory.trust is not Trust.UNTRUSTED_WEB
