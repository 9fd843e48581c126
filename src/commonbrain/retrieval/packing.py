"""Packing: fit the best evidence into a budget of items and tokens, quoted for an agent."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from datetime import datetime
from typing import Final

from commonbrain.model import ids, limits
from commonbrain.model.escaping import inert
from commonbrain.model.kinds import KINDS
from commonbrain.model.links import CONFLICTS_MAX, Conflict, conflicts_naming
from commonbrain.model.query import Budget, Candidate
from commonbrain.model.recall_result import (
    ENVELOPE_TOKENS,
    EvidenceRenderer,
    Item,
    Omitted,
    Order,
    SourceTurn,
    earlier_part,
    frame_lines,
)
from commonbrain.model.scope import Trust
from commonbrain.retrieval.detail_levels import DetailCosts, DetailLevel, Text, as_json
from commonbrain.retrieval.items import is_matching_skill, to_item
from commonbrain.retrieval.order import EARLIER
from commonbrain.text.segmentation import Sought
from commonbrain.text.tokens import estimate

_CLOSE_AT: Final = 0.9
"""A rule or fact with a lower share of the last item's score would cost evidence."""


def select(ranked: Sequence[Candidate], max_items: int) -> Sequence[Candidate]:
    """Return the best candidates, with a slot for the best trusted rule or fact close behind."""
    best, later = ranked[:max_items], ranked[max_items : 2 * max_items]
    if max_items == 1 or any(is_binding(candidate) for candidate in best):
        return best
    binding = next((candidate for candidate in later if is_binding(candidate)), None)
    if binding is None or is_matching_skill(best[-1]) or not is_close(binding, best[-1]):
        return best
    return [*best[:-1], binding]


def is_close(binding: Candidate, last: Candidate) -> bool:
    """Return whether a rule or fact scores nearly as well as the last candidate with a slot."""
    return binding.score >= _CLOSE_AT * last.score


def is_binding(candidate: Candidate) -> bool:
    """Return whether it is a trusted rule or fact."""
    memory = candidate.memory
    return KINDS[memory.kind].has_reserved_item and memory.trust is not Trust.UNTRUSTED_WEB


# Shares of the remaining budget, chosen on three public data sets: smaller ones show more memories
# in part, larger ones fewer in full. docs/explanation/decisions.md has the figures.
_OF_A_BODY: Final = 0.4
"""Largest share of a body; the best match may use everything."""
_OF_A_PART: Final = 0.1
"""Largest share of an excerpt of one of the first items, before later bodies."""
_OF_A_LATE_PART: Final = 0.15
"""Largest share of the whole budget for an excerpt, after the bodies."""
_EARLIER_TOKENS_MAX: Final = 40
"""Tokens up to which the whole text of an outdated item is shown, instead of its headline."""
_FOREMOST: Final = 3
"""Items that get an excerpt before bodies of later items."""
_TEXT_MIN: Final = 60
"""Tokens that a text may use however small its share."""
_BARE_MIN: Final = 12
"""Tokens below which not even an id fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The packed result: items, their tokens as text or JSON (whichever is more), and omissions."""

    items: tuple[Item, ...]
    ids: tuple[int, ...]
    """Ids of the items, in the same order."""
    tokens: int
    omitted: Omitted
    conflicts: tuple[Conflict, ...] = ()


def pack(
    ranked: Sequence[Candidate],
    budget: Budget,
    *,
    conflicts: Sequence[Conflict] = (),
    terms: Sequence[str] = (),
    is_unsure: bool = False,
) -> Packed:
    """Fill the budget, best first, whatever the order: bodies, excerpts, headlines, ids.

    A body above its share is shortened to the sentences that match the `terms` of the query.
    Triggered skills are never displaced: if not everything fits, each keeps a slot, with its
    headline if possible, and so does the best trusted rule or fact that scores nearly as well as
    the last item. Conflicts of items are included if they fit, and after all items what each said
    before and the turn that it came from, best item first.
    """
    # The text around the items is paid for in advance.
    lines = frame_lines(omitted=len(ranked), tokens=budget.max_tokens, is_unsure=is_unsure)
    around = max(sum(map(estimate, lines)) + len(lines), ENVELOPE_TOKENS)
    filling = _Filling(
        texts=[Text.of(one, to_item(one)) for one in select(ranked, budget.max_items)],
        sought=Sought(terms),
        conflicts=conflicts,
    )
    box = filling.fill(tokens_left=budget.max_tokens - around, order=budget.order)
    box.add_extras(tokens_left=budget.max_tokens - around)
    taken = {id(text.candidate) for text, _ in box.shown}
    left_out = [one.memory.id for one in ranked if id(one) not in taken]
    # Another occurrence of one that is left out may be shown.
    unseen = [id_ for id_ in dict.fromkeys(left_out) if id_ not in box.item_ids]
    omitted_ids = tuple(ids.show(ids.MEMORY, id_) for id_ in unseen[: limits.OMITTED_IDS_MAX])
    shown = box.in_order(budget.order)
    return Packed(
        items=tuple(form.item for _, form in shown),
        ids=tuple(text.id for text, _ in shown),
        tokens=around + box.cost.most if box.shown else 0,
        omitted=Omitted(count=len(left_out), ids=omitted_ids),
        conflicts=tuple(box.conflicts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filling:
    """What to show, best first."""

    texts: Sequence[Text]
    sought: Sought
    conflicts: Sequence[Conflict]

    def fill(self, *, tokens_left: int, order: Order) -> "_OpenBudget":
        """Choose the detail level of each item, and add them best first."""
        binding = next((one for one in self.texts if is_binding(one.candidate)), None)
        box = self._fill(None, tokens_left=tokens_left, order=order)
        if binding is None or box.includes_text_of(binding):
            return box
        with_headline = (
            text for text, form in reversed(box.shown) if form.item.headline is not None
        )
        last = next(with_headline, self.texts[0])
        if not is_close(binding.candidate, last.candidate):
            return box
        return self._fill(binding, tokens_left=tokens_left, order=order)

    def _fill(self, binding: Text | None, *, tokens_left: int, order: Order) -> "_OpenBudget":
        allowed = tokens_left
        while True:
            box = self._filled(binding, tokens_left=allowed)
            over = box.cost_in(order).most - tokens_left
            if over <= 0:
                return box
            # In another order, items may refer to fewer others.
            allowed -= over

    def _filled(self, binding: Text | None, *, tokens_left: int) -> "_OpenBudget":
        reserved = _slots(self.texts, binding, tokens_left=tokens_left)
        planned = _Plan(tokens_left=tokens_left, sought=self.sought).settled(
            self.texts, reserved=dict(reserved)
        )
        box = _OpenBudget(tokens_left=tokens_left)
        for place, text in enumerate(self.texts):
            reserved.pop(text.id, None)
            if form := planned.get(place):
                box.put(
                    text, form, conflicts=self.conflicts, reserved_tokens=sum(reserved.values())
                )
        return box


@dataclass(slots=True, kw_only=True)
class _Plan:
    """The planned detail levels, before the last tokens are counted exactly."""

    tokens_left: int
    sought: Sought
    spent: DetailCosts = field(default_factory=DetailCosts)
    forms: dict[int, DetailLevel] = field(default_factory=dict[int, DetailLevel])
    renderer: EvidenceRenderer = field(default_factory=EvidenceRenderer)

    def settled(
        self, texts: Sequence[Text], *, reserved: dict[int, int]
    ) -> Mapping[int, DetailLevel]:
        """Give bodies and first excerpts their shares, then the rest to the others."""
        for place, text in enumerate(texts):
            is_reserved = reserved.pop(text.id, None) is not None
            reserved_tokens = sum(reserved.values())
            left = self.tokens_left - self.spent.most - reserved_tokens
            if left >= _BARE_MIN:
                self._share(place, text, left=left)
            if is_reserved and place not in self.forms:
                self._rest(place, text, reserved_tokens=reserved_tokens)
        for place, form in list(self.forms.items()):
            self._widen(place, texts[place], form=form)
        for place, text in enumerate(texts):
            if self.tokens_left - self.spent.most < _BARE_MIN:
                break
            if place not in self.forms:
                self._rest(place, text, reserved_tokens=0)
        return self.forms

    def _share(self, place: int, text: Text, *, left: int) -> None:
        """Show a body within its share, or an excerpt of one of the best.

        What a newer memory changed gets one line, after the others have their share.
        """
        if text.candidate.features.get(EARLIER):
            return
        around = text.around(text.whole, self.renderer)
        fitting = left - around.most
        form = text.body(within=_share_of(fitting, _OF_A_BODY, most=fitting) if place else fitting)
        if form is None and not place:
            form = text.brief_body(self.renderer, within=left)
        if form is None and place < _FOREMOST:
            form = text.part(self.sought, within=_share_of(fitting, _OF_A_PART, most=fitting))
        if form is None and not place:
            # Otherwise later items would take its room.
            shorter = (text.headline(), text.brief())
            costs = ((one, text.cost(one, self.renderer).most) for one in shorter)
            form = next((one for one, cost in costs if cost <= left), None)
        if form is not None:
            is_whole = form.item is text.whole
            cost = around + form.text_cost if is_whole else text.cost(form, self.renderer)
            self._take(place, text, form=form, cost=cost)

    def _widen(self, place: int, text: Text, *, form: DetailLevel) -> None:
        """Show in full what is shown in part, if it fits after all."""
        if form.item.body is not None:
            return
        body = text.body(within=self.tokens_left - self.spent.most + form.text_cost.most)
        if body is not None:
            self.forms[place] = body
            self.spent += body.text_cost - form.text_cost

    def _rest(self, place: int, text: Text, *, reserved_tokens: int) -> None:
        """Show as much as fits of an item without a share."""
        tokens_left = self.tokens_left - reserved_tokens
        left = tokens_left - self.spent.most - text.around(text.whole, self.renderer).most
        is_earlier = bool(text.candidate.features.get(EARLIER))
        part = (
            text.body(within=min(left, _EARLIER_TOKENS_MAX))
            if is_earlier
            else text.part(
                self.sought, within=_share_of(self.tokens_left, _OF_A_LATE_PART, most=left)
            )
        )
        for form in text.barer(part or text.headline()):
            cost = text.cost(form, self.renderer)
            if (self.spent + cost).most <= tokens_left:
                self._take(place, text, form=form, cost=cost)
                return

    def _take(self, place: int, text: Text, *, form: DetailLevel, cost: DetailCosts) -> None:
        self.forms[place] = form
        self.spent += cost
        text.add_to(form, self.renderer)


def _share_of(tokens_left: int, share: float, *, most: int) -> int:
    return min(most, max(_TEXT_MIN, int(share * tokens_left)))


@dataclass(slots=True, kw_only=True)
class _OpenBudget:
    """A result being filled."""

    tokens_left: int
    cost: DetailCosts = field(default_factory=DetailCosts)
    shown: list[tuple[Text, DetailLevel]] = field(default_factory=list[tuple[Text, DetailLevel]])
    conflicts: list[Conflict] = field(default_factory=list[Conflict])
    item_ids: set[int] = field(default_factory=set[int])
    renderer: EvidenceRenderer = field(default_factory=EvidenceRenderer)

    def put(
        self,
        text: Text,
        planned: DetailLevel,
        *,
        conflicts: Sequence[Conflict],
        reserved_tokens: int,
    ) -> None:
        """Add an item with as much detail as fits, and its conflicts if they fit."""
        new_conflicts = (
            self._not_shown(conflicts_naming(conflicts, planned.item.id)) if conflicts else ()
        )
        against = sum(map(_cost_of_conflict, new_conflicts), DetailCosts())
        for form in text.barer(planned):
            cost = self.cost + text.cost(form, self.renderer)
            if cost.most + reserved_tokens > self.tokens_left:
                continue
            self.shown.append((text, form))
            self.item_ids.add(text.id)
            text.add_to(form, self.renderer)
            self.cost = cost
            if new_conflicts and (cost + against).most + reserved_tokens <= self.tokens_left:
                self.conflicts += new_conflicts
                self.cost += against
            return

    def add_extras(self, *, tokens_left: int) -> None:
        """Add what items said before and where they came from, as far as it fits.

        The source of two items is described once, and only named if it is an item itself.
        """
        shown_ids = {ids.show(ids.MEMORY, id_) for id_ in self.item_ids}
        for place, (text, form) in enumerate(self.shown):
            if form.item.headline is None:
                continue
            item, earlier, source = form.item, text.candidate.earlier, text.candidate.source
            if earlier and (cost := self.cost + _cost_of_history(earlier)).most <= tokens_left:
                item, self.cost = replace(item, earlier=earlier), cost
            for shorter in source.shorter(is_shown=source.id in shown_ids) if source else ():
                cost = self.cost + _cost_of_source(shorter)
                if cost.most <= tokens_left:
                    item, self.cost = replace(item, source=shorter), cost
                    shown_ids.add(shorter.id)
                    break
            self.shown[place] = text, DetailLevel(item, form.text_cost)

    def includes_text_of(self, text: Text) -> bool:
        """Return whether more than the id of an item is included."""
        return any(one is text and form.item.headline is not None for one, form in self.shown)

    def in_order(self, order: Order) -> Sequence[tuple[Text, DetailLevel]]:
        """Return the items in the requested order."""
        if order is Order.RELEVANCE:
            return self.shown
        return sorted(self.shown, key=lambda one: _when(one[1].item))

    def cost_in(self, order: Order) -> DetailCosts:
        """Count the tokens in the requested order."""
        if order is Order.RELEVANCE:
            return self.cost
        renderer = EvidenceRenderer()
        cost = sum(map(_cost_of_conflict, self.conflicts), DetailCosts())
        for text, form in self.in_order(order):
            cost += text.cost(form, renderer)
            text.add_to(form, renderer)
        self.cost = cost
        return cost

    def _not_shown(self, conflicts: Sequence[Conflict]) -> Sequence[Conflict]:
        fresh = [conflict for conflict in conflicts if conflict not in self.conflicts]
        return fresh[: CONFLICTS_MAX - len(self.conflicts)]


def _when(item: Item) -> tuple[datetime, datetime, str]:
    return item.occurred_at, item.recorded_at, item.id


def _cost_of_conflict(conflict: Conflict) -> DetailCosts:
    return DetailCosts(
        estimate(conflict.line()) + 1, estimate(conflict.to_json()) + _CONFLICTS_KEY + 1
    )


_CONFLICTS_KEY: Final = estimate(',"conflicts":[]')


def _cost_of_history(earlier: str) -> DetailCosts:
    in_json = f',"earlier":{as_json(inert(earlier))}'
    return DetailCosts(estimate(f" | {earlier_part(earlier)}") + 1, estimate(in_json) + 1)


def _cost_of_source(source: SourceTurn) -> DetailCosts:
    known = zip(_SOURCE_NAMES, astuple(source.as_shown()), strict=True)
    names = (f'"{name}":{as_json(value)}' for name, value in known if value is not None)
    in_json = f',"source":{{{",".join(names)}}}'
    return DetailCosts(estimate(f"\n{source.line()}") + 1, estimate(in_json) + 1)


_SOURCE_NAMES: Final = tuple(one.name for one in fields(SourceTurn))


def _slots(texts: Sequence[Text], binding: Text | None, *, tokens_left: int) -> dict[int, int]:
    """Return the tokens to reserve for each item: for ids first, then for headlines."""
    seated = [one for one in texts if is_matching_skill(one.candidate) or one is binding]
    reserved: dict[int, int] = {}
    # Its number is at most the widest, and it may have no item to refer to.
    renderer = EvidenceRenderer(number=len(texts) - 1)
    for show in (Text.bare, Text.headline):
        for text in seated:
            form = show(text)
            cost = text.cost(form, renderer).most
            more = cost - reserved.get(text.id, 0)
            if more <= tokens_left:
                reserved[text.id] = cost
                tokens_left -= more
    return reserved
