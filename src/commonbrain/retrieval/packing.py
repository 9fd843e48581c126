"""Packing: the best evidence that fits a budget of items and tokens, quoted for an agent."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from commonbrain.model import ids, limits
from commonbrain.model.kinds import KINDS
from commonbrain.model.links import CONFLICTS_MAX, Conflict, conflicts_naming
from commonbrain.model.query import FIELD, Budget, Candidate
from commonbrain.model.recall_result import (
    ENVELOPE_TOKENS,
    HEADING,
    UNSURE,
    EvidenceRenderer,
    Item,
    Omitted,
    Order,
    omission_line,
)
from commonbrain.model.scoring import doubted
from commonbrain.model.skills import skill_of
from commonbrain.model.trust import Trust
from commonbrain.retrieval.detail_levels import DetailCosts, DetailLevel, Text
from commonbrain.retrieval.retrievers import RETRIEVERS
from commonbrain.text.segmentation import Sought
from commonbrain.text.tokens import estimate

_WORD: Final = re.compile(r"\w+")
_CLOSE_AT: Final = 0.9
"""A rule or fact with less than this of the last one's score would cost evidence."""
_NEAR_AT: Final = 0.8
"""Two texts that share this much of their words say nearly the same."""
_COMPARED_CHARS: Final = 1000
"""How far into a text its words are compared."""


def select(ranked: Sequence[Candidate], max_items: int) -> Sequence[Candidate]:
    """Take the best, but keep a seat for the best trusted rule or fact close behind them."""
    best, behind = ranked[:max_items], ranked[max_items : 2 * max_items]
    if max_items == 1 or any(is_binding(candidate) for candidate in best):
        return best
    binding = next((candidate for candidate in behind if is_binding(candidate)), None)
    if binding is None or is_matching_skill(best[-1]) or not is_close(binding, best[-1]):
        return best
    return [*best[:-1], binding]


def is_close(binding: Candidate, last: Candidate) -> bool:
    """Say whether a rule or fact answers nearly as well as the last that has a seat."""
    return binding.score >= _CLOSE_AT * last.score


def is_matching_skill(candidate: Candidate) -> bool:
    """Say whether it is a skill that the query names."""
    return bool(candidate.features.get("skill"))


def is_binding(candidate: Candidate) -> bool:
    """Say whether it is a rule or a fact that may be relied on."""
    memory = candidate.memory
    return KINDS[memory.kind].has_reserved_item and memory.trust is not Trust.UNTRUSTED_WEB


def drop_near_duplicates(
    ranked: Sequence[Candidate], *, enough: int
) -> tuple[list[Candidate], list[Candidate]]:
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
        alike = _alike(words, said)
        if alike >= limits.NEAR_DUPLICATES_MAX and not is_matching_skill(candidate):
            near.append(candidate)
        else:
            kept.append(candidate)
            said.append(words)
    return kept, near


def _words(candidate: Candidate) -> frozenset[str]:
    return frozenset(_WORD.findall(candidate.memory.body[:_COMPARED_CHARS].casefold()))


def _alike(words: frozenset[str], said: Sequence[frozenset[str]]) -> int:
    """Count the texts that say nearly the same; most differ too much in size to be read."""
    size = len(words)
    least = _NEAR_AT * size
    sized = [one for one in said if len(one) >= least and size >= _NEAR_AT * len(one)]
    return sum([_is_near(words, one) for one in sized])


def _is_near(one: frozenset[str], other: frozenset[str]) -> bool:
    shared = len(one & other)
    return bool(shared) and shared >= _NEAR_AT * (len(one) + len(other) - shared)


_REASON_AT: Final = 0.5
"""A feature from which on it is named as a reason, 0..1."""
_CONTEXT_GAIN_MIN: Final = 0.1
"""How much better its passage must match than the message itself to be named as a reason."""
_REASONS: Final = {
    **{name: one.reason for name, one in RETRIEVERS.items() if one.reason is not None},
    "date": "time",
    "speaker": "speaker",
    "same_project": "same project",
}
# Shares of the room that is left, found on three public data sets: smaller ones show more memories
# in part, larger ones fewer in full. docs/explanation/decisions.md tells what each way gives.
_OF_A_BODY: Final = 0.4
"""What a body may take; that of the best match, whatever fits."""
_OF_A_PART: Final = 0.1
"""What an excerpt of one of the foremost may take before the bodies behind it."""
_OF_A_LATE_PART: Final = 0.15
"""Of the whole room, what an excerpt may take once the bodies are in."""
_FOREMOST: Final = 3
"""So many of the best are shown in part before bodies behind them are shown whole."""
_TEXT_MIN: Final = 60
"""Tokens that a text may take however small its share."""
_BARE_MIN: Final = 12
"""Tokens below which not even an id fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What fits: the items, the most tokens they take as text or JSON, and what was left out."""

    items: tuple[Item, ...]
    ids: tuple[int, ...]
    """Those of the items, in the same order."""
    tokens: int
    omitted: Omitted
    conflicts: tuple[Conflict, ...] = ()
    near: tuple[int, ...] = ()
    """Ids left out because enough of the answer says nearly the same."""


def pack(
    ranked: Sequence[Candidate],
    budget: Budget,
    *,
    conflicts: Sequence[Conflict] = (),
    terms: Sequence[str] = (),
    is_unsure: bool = False,
) -> Packed:
    """Fill the budget best first, in whichever order: bodies, excerpts, headlines, bare ids.

    A body that would take more than its share is shortened to what tells most of the `terms` of
    the question. Skills that were fired are never displaced: where not all fits, each of them has
    a seat kept, for its headline if it can be, and so has the best trusted rule or fact that is
    nearly as good as the last that fits. A conflict that an item is part of is told with it where
    there is room for both.
    """
    distinct, near = drop_near_duplicates(ranked, enough=2 * budget.max_items)
    # What stands around the items is paid for in advance.
    lines = (HEADING, *([UNSURE] if is_unsure else ()), omission_line(len(ranked)))
    around = max(sum(map(estimate, lines)) + len(lines), ENVELOPE_TOKENS)
    filling = _Filling(
        texts=[Text.of(one, to_item(one)) for one in select(distinct, budget.max_items)],
        sought=Sought(terms),
        conflicts=conflicts,
    )
    box = filling.fill(room=budget.max_tokens - around, order=budget.order)
    left_out = [one.memory.id for one in ranked if one.memory.id not in box.kept]
    shown = tuple(ids.show(ids.MEMORY, id_) for id_ in left_out[: limits.OMITTED_IDS_MAX])
    told = box.told(budget.order)
    return Packed(
        items=tuple(form.item for _, form in told),
        ids=tuple(text.id for text, _ in told),
        tokens=around + box.cost.most if box.shown else 0,
        omitted=Omitted(count=len(left_out), ids=shown),
        conflicts=tuple(box.conflicts),
        near=tuple(candidate.memory.id for candidate in near),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filling:
    """What is to be shown, best first, and what is known of it."""

    texts: Sequence[Text]
    sought: Sought
    conflicts: Sequence[Conflict]

    def fill(self, *, room: int, order: Order) -> "_OpenBudget":
        """Settle in which form each is shown, and put them in, best first."""
        binding = next((one for one in self.texts if is_binding(one.candidate)), None)
        box = self._fill(None, room=room, order=order)
        if binding is None or box.tells(binding):
            return box
        told = (text for text, form in reversed(box.shown) if form.item.headline is not None)
        last = next(told, self.texts[0])
        if not is_close(binding.candidate, last.candidate):
            return box
        return self._fill(binding, room=room, order=order)

    def _fill(self, binding: Text | None, *, room: int, order: Order) -> "_OpenBudget":
        allowed = room
        while True:
            box = self._filled(binding, room=allowed)
            over = box.cost_in(order).most - room
            if over <= 0:
                return box
            # Told in another order, items may have less to refer to.
            allowed -= over

    def _filled(self, binding: Text | None, *, room: int) -> "_OpenBudget":
        seats = _slots(self.texts, binding, room=room)
        planned = _Plan(room=room, sought=self.sought).settled(self.texts, seats=dict(seats))
        box = _OpenBudget(room=room)
        for place, text in enumerate(self.texts):
            seats.pop(text.id, None)
            if form := planned.get(place):
                box.put(text, form, conflicts=self.conflicts, kept_free=sum(seats.values()))
        return box


@dataclass(slots=True, kw_only=True)
class _Plan:
    """Which form each gets, before the last of them is counted to the token."""

    room: int
    sought: Sought
    spent: DetailCosts = field(default_factory=DetailCosts)
    forms: dict[int, DetailLevel] = field(default_factory=dict[int, DetailLevel])
    telling: EvidenceRenderer = field(default_factory=EvidenceRenderer)

    def settled(self, texts: Sequence[Text], *, seats: dict[int, int]) -> Mapping[int, DetailLevel]:
        """Give bodies and the foremost parts their shares, then whoever is left what is left."""
        for place, text in enumerate(texts):
            has_seat = seats.pop(text.id, None) is not None
            kept_free = sum(seats.values())
            left = self.room - self.spent.most - kept_free
            if left >= _BARE_MIN:
                self._share(place, text, left=left)
            if has_seat and place not in self.forms:
                self._rest(place, text, kept_free=kept_free)
        for place, form in list(self.forms.items()):
            self._widen(place, texts[place], form=form)
        for place, text in enumerate(texts):
            if self.room - self.spent.most < _BARE_MIN:
                break
            if place not in self.forms:
                self._rest(place, text, kept_free=0)
        return self.forms

    def _share(self, place: int, text: Text, *, left: int) -> None:
        """Show a body that is not above its share, and of the best a part of one that is."""
        around = text.around(self.telling)
        left -= around.most
        form = text.body(within=_share_of(left, _OF_A_BODY, most=left) if place else left)
        if form is None and place < _FOREMOST:
            form = text.part(self.sought, within=_share_of(left, _OF_A_PART, most=left))
        if form is not None:
            self._take(place, text, form=form, cost=around + form.said)

    def _widen(self, place: int, text: Text, *, form: DetailLevel) -> None:
        """Show whole what is shown in part, if there is room for it after all."""
        if form.item.body is not None:
            return
        body = text.body(within=self.room - self.spent.most + form.said.most)
        if body is not None:
            self.forms[place] = body
            self.spent += body.said - form.said

    def _rest(self, place: int, text: Text, *, kept_free: int) -> None:
        """Show what fits of one for which there was no share."""
        room = self.room - kept_free
        left = room - self.spent.most - text.around(self.telling).most
        part = text.part(self.sought, within=_share_of(self.room, _OF_A_LATE_PART, most=left))
        for form in text.barer(part or text.headline()):
            cost = text.cost(form, self.telling)
            if (self.spent + cost).most <= room:
                self._take(place, text, form=form, cost=cost)
                return

    def _take(self, place: int, text: Text, *, form: DetailLevel, cost: DetailCosts) -> None:
        self.forms[place] = form
        self.spent += cost
        text.tell(form, self.telling)


def _share_of(room: int, share: float, *, most: int) -> int:
    return min(most, max(_TEXT_MIN, int(share * room)))


@dataclass(slots=True, kw_only=True)
class _OpenBudget:
    """An answer being filled."""

    room: int
    cost: DetailCosts = field(default_factory=DetailCosts)
    shown: list[tuple[Text, DetailLevel]] = field(default_factory=list[tuple[Text, DetailLevel]])
    conflicts: list[Conflict] = field(default_factory=list[Conflict])
    kept: set[int] = field(default_factory=set[int])
    telling: EvidenceRenderer = field(default_factory=EvidenceRenderer)

    def put(
        self, text: Text, planned: DetailLevel, *, conflicts: Sequence[Conflict], kept_free: int
    ) -> None:
        """Put one in, as full as it fits, with its conflicts if they fit with it."""
        told = self._untold(conflicts_naming(conflicts, planned.item.id)) if conflicts else ()
        against = sum(map(_cost_of_conflict, told), DetailCosts())
        for form in text.barer(planned):
            cost = self.cost + text.cost(form, self.telling)
            if cost.most + kept_free > self.room:
                continue
            self.shown.append((text, form))
            self.kept.add(text.id)
            text.tell(form, self.telling)
            self.cost = cost
            if told and (cost + against).most + kept_free <= self.room:
                self.conflicts += told
                self.cost += against
            return

    def tells(self, text: Text) -> bool:
        """Say whether more than the id of one is in it."""
        return any(one is text and form.item.headline is not None for one, form in self.shown)

    def told(self, order: Order) -> Sequence[tuple[Text, DetailLevel]]:
        """Give what is in it, in the order in which it is told."""
        if order is Order.RELEVANCE:
            return self.shown
        return sorted(self.shown, key=lambda one: _when(one[1].item))

    def cost_in(self, order: Order) -> DetailCosts:
        """Count what is in it as it is told."""
        if order is Order.RELEVANCE:
            return self.cost
        telling, cost = (
            EvidenceRenderer(),
            sum(map(_cost_of_conflict, self.conflicts), DetailCosts()),
        )
        for text, form in self.told(order):
            cost += text.cost(form, telling)
            text.tell(form, telling)
        self.cost = cost
        return cost

    def _untold(self, conflicts: Sequence[Conflict]) -> Sequence[Conflict]:
        fresh = [conflict for conflict in conflicts if conflict not in self.conflicts]
        return fresh[: CONFLICTS_MAX - len(self.conflicts)]


def _when(item: Item) -> tuple[datetime, datetime, str]:
    return item.occurred_at, item.recorded_at, item.id


def _cost_of_conflict(conflict: Conflict) -> DetailCosts:
    return DetailCosts(
        estimate(conflict.line()) + 1, estimate(conflict.to_json()) + _CONFLICTS_KEY + 1
    )


_CONFLICTS_KEY: Final = estimate(',"conflicts":[]')


def _slots(texts: Sequence[Text], binding: Text | None, *, room: int) -> dict[int, int]:
    """Say how many tokens to keep free for whom: for an id each, then for headlines, as it goes."""
    seated = [one for one in texts if is_matching_skill(one.candidate) or one is binding]
    seats: dict[int, int] = {}
    # Its number is at most the widest, and there may be nothing that it can refer to.
    telling = EvidenceRenderer(number=len(texts) - 1)
    for show in (Text.bare, Text.headline):
        for text in seated:
            form = show(text)
            cost = text.cost(form, telling).most
            more = cost - seats.get(text.id, 0)
            if more <= room:
                seats[text.id] = cost
                room -= more
    return seats


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
    if skill and is_matching_skill(candidate):
        yield f"skill:{skill.name}"
    yield from (name for name in candidate.features if name.startswith(FIELD))
    for name, reason in _REASONS.items():
        if candidate.features.get(name, 0.0) >= _REASON_AT:
            yield reason
    own, context = (candidate.features.get(name, 0.0) for name in ("self_score", "context_score"))
    if own < _REASON_AT and own + _CONTEXT_GAIN_MIN <= context:
        yield "passage"
    if candidate.features.get("linked"):
        yield "linked"
