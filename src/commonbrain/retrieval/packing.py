"""The last stage of a recall: fit the best evidence into a budget of items and tokens."""

from collections.abc import Container, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Final

from commonbrain.model import ids, limits
from commonbrain.model.kinds import KINDS, CausalField
from commonbrain.model.links import CONFLICTS_MAX, Conflict, conflicts_naming
from commonbrain.model.memory import doubted, full_text
from commonbrain.model.messages import author_of
from commonbrain.model.query import FIELD, Budget, Candidate
from commonbrain.model.recall_result import (
    EARLIER,
    ENVELOPE_TOKENS,
    UNSURE,
    Item,
    Omitted,
    Order,
    compact_json,
    frame_lines,
    render_item,
    shown_fields,
)
from commonbrain.model.scope import Trust
from commonbrain.model.skills import skill_of
from commonbrain.model.values import dataclass, field, replace
from commonbrain.retrieval.order import LINKED, is_persons_skill
from commonbrain.retrieval.retrieve import RETRIEVERS
from commonbrain.retrieval.score import FEATURES
from commonbrain.retrieval.table import GUIDANCE, SKILL
from commonbrain.text.segmentation import Sought, excerpt
from commonbrain.text.tokens import SAMPLE_CHARS, estimate

_REASON_AT: Final = 0.5
"""A feature from this value on is named as a reason, 0..1."""
_CONTEXT_GAIN_MIN: Final = 0.1
"""How much better its passage must match than the message itself to be named as a reason."""
_REASONS: Final = {
    name: one.reason for name, one in {**RETRIEVERS, **FEATURES}.items() if one.reason is not None
}
_FIELD_REASONS: Final = tuple(f"{FIELD}{field}" for field in CausalField)


_CLOSE_AT: Final = 0.9
"""A rule or fact with a lower share of the last item's score would cost evidence."""


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
        agent=author_of(memory),
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
        # A place that the text names is shown once, unless there is something to say of it.
        cites=tuple(
            one
            for one in candidate.cites
            if one.line() != one.place or one.place not in memory.text
        ),
    )


def _reasons(candidate: Candidate) -> list[str]:
    features = candidate.features
    skill = skill_of(candidate.memory) if features.get(SKILL) else None
    own, context = features.get("self_score", 0.0), features.get("context_score", 0.0)
    is_by_passage = own < _REASON_AT and own + _CONTEXT_GAIN_MIN <= context
    return [
        *([f"skill:{skill.name}"] if skill else ()),
        *(name for name in _FIELD_REASONS if name in features),
        *[one for name, one in _REASONS.items() if features.get(name, 0.0) >= _REASON_AT],
        *(["passage"] if is_by_passage else ()),
        *([LINKED] if features.get(LINKED) else ()),
    ]


def select(ranked: Sequence[Candidate], max_items: int) -> Sequence[Candidate]:
    """Return the best candidates, with a slot for the best trusted rule or fact close behind."""
    best, later = ranked[:max_items], ranked[max_items : 2 * max_items]
    if max_items == 1 or any(map(is_binding, best)):
        return best
    binding = next(filter(is_binding, later), None)
    if binding is None or is_persons_skill(best[-1]) or not is_close(binding, best[-1]):
        return best
    return [*best[:-1], binding]


def is_close(binding: Candidate, last: Candidate) -> bool:
    """Return whether a rule or fact scores nearly as well as the last candidate with a slot."""
    return binding.score >= _CLOSE_AT * last.score


def is_binding(candidate: Candidate) -> bool:
    """Return whether it is a trusted rule or fact."""
    return KINDS[candidate.memory.kind].has_reserved_item and is_trusted(candidate)


def is_trusted(candidate: Candidate) -> bool:
    """Return whether a person, a model or a tool wrote it, not the web."""
    return candidate.memory.trust is not Trust.UNTRUSTED_WEB


_WEAK_BELOW: Final = 0.65
"""Share of the best score below which an item is much less sure.

The largest that costs less than half a point of evidence on the half of LoCoMo it was chosen on.
"""
_NEWER_MAX: Final = 2
"""Weak items that stay because they are newer and on the topic: the first may only mention it."""


def without_weak(
    ranked: Sequence[Candidate], terms: Sequence[str], *, conflicts: Sequence[Conflict] = ()
) -> Sequence[Candidate]:
    """Leave out what is much less sure and has no word of the query that the better ones lack.

    The first two that are newer than one that stays, and share a word of the query with it, stay
    too, for one may say what holds now. So does what is there for another reason than its words:
    skills, guidance, linked memories, what is of the time asked for, what a note of an item names,
    and the other side of its conflict. Untrusted text takes the place of nothing: what is trusted
    is compared with what is trusted.
    """
    sought = Sought(terms)
    trusted = [one for one in ranked if is_trusted(one)] or ranked
    best = max(trusted, key=lambda one: one.score, default=None)
    if best is None or all(one.score >= _WEAK_BELOW * best.score for one in ranked):
        return ranked
    words: set[str] = set()
    strong: set[int] = set()
    older: list[tuple[datetime, AbstractSet[str]]] = []
    newer = 0
    for one in ranked:
        own, at = sought.stems_in(one.memory.text), one.memory.occurred_at
        is_newer = any(since < at and own & topic for since, topic in older)
        belongs = any(one.features.get(name, 0.0) >= least for name, least in _BELONGS.items())
        if one.score >= _WEAK_BELOW * best.score or own - words or belongs:
            strong.add(one.memory.id)
            older.append((at, own))
            if is_trusted(one):
                words |= own
        elif is_newer and newer < _NEWER_MAX and (is_trusted(one) or trusted is ranked):
            newer += 1
            strong.add(one.memory.id)
    named = _named_with(ranked, strong, conflicts=conflicts)
    return [one for one in ranked if one.memory.id in strong or one.memory.id in named]


def _named_with(
    ranked: Sequence[Candidate], strong: Container[int], *, conflicts: Sequence[Conflict]
) -> Container[int]:
    """Return the candidates that a note or a conflict of the strong ones names, or of these."""
    shown = {one.memory.id: ids.show(ids.MEMORY, one.memory.id) for one in ranked}
    named: set[int] = set()
    waiting = [one for one in ranked if one.memory.id in strong]
    while waiting:
        one = waiting.pop()
        own = shown[one.memory.id]
        sides = [id_ for conflict in conflicts_naming(conflicts, own) for id_ in conflict.ids]
        for other in ranked:
            id_ = other.memory.id
            is_named = shown[id_] in sides or any(shown[id_] in note for note in one.notes)
            if is_named and id_ not in named and id_ not in strong:
                named.add(id_)
                waiting.append(other)
    return named


_BELONGS: Final = {"skill": 1.0, LINKED: 0.01, "date": 1.0, GUIDANCE: 0.25}
"""Least values of features that are a reason to show an item, whatever its words.

Guidance below is off the topic.
"""


# Shares of the remaining budget, chosen on three public data sets: smaller ones show more memories
# in part, larger ones fewer in full. docs/explanation/decisions.md has the figures.
_OF_A_BODY: Final = 0.4
"""Largest share of an item in full; the best match may use everything."""
_OF_A_PART: Final = 0.1
"""Largest share of an excerpt of one of the first items, before later bodies."""
_OF_A_LATE_PART: Final = 0.15
"""Largest share of the whole budget for an excerpt, after the bodies."""
_EARLIER_TOKENS_MAX: Final = 110
"""Tokens up to which an outdated item is shown in full, instead of with its headline."""
_FOREMOST: Final = 3
"""Items that get an excerpt before bodies of later items."""
_ITEM_MIN: Final = 90
"""Tokens that an item may use however small its share."""
_BARE_MIN: Final = 12
"""Tokens below which not even an id fits."""
_CHARS_A_TOKEN_MAX: Final = 8
"""A longer text per token of budget does not fit and is not counted."""
_SHARES_OF_CHARS: Final = (0.92, 0.7)
"""Shares of the budget, in characters, to try for an excerpt."""
_EXCERPT_MIN: Final = 30
"""Tokens below which a headline is more useful than an excerpt."""


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

    Of a default budget, `without_weak` leaves out what adds little to the answer. A body above its
    share is shortened to the sentences that match the `terms` of the query. Triggered skills are
    never displaced: if not everything fits, each keeps a slot, with its headline if possible, and
    so does the best trusted rule or fact that scores nearly as well as the last item. Conflicts of
    items are included if they fit, and after all items what each said before and the turn that it
    came from, best item first.
    """
    chosen = select(ranked, budget.max_items)
    if budget.is_default and budget.order is Order.RELEVANCE and terms and not is_unsure:
        chosen = without_weak(chosen, terms, conflicts=conflicts)
    # The text around the items is paid for in advance: as text or as JSON, whichever is more.
    lines = frame_lines(omitted=len(ranked), tokens=budget.max_tokens, is_unsure=is_unsure)
    in_json = ENVELOPE_TOKENS + (estimate(UNSURE) + 1 if is_unsure else 0)
    around = max(sum(map(estimate, lines)) + len(lines), in_json)
    filling = _fill(
        [_Text(one, to_item(one)) for one in chosen],
        tokens=budget.max_tokens - around,
        sought=Sought(terms),
        conflicts=conflicts,
    )
    filling.add_extras()
    shown = [(chosen[place], form.item) for place, form in sorted(filling.forms.items())]
    if budget.order is Order.TIMELINE:
        shown.sort(key=lambda one: (one[1].occurred_at, one[1].recorded_at, one[1].id))
    packed_ids = tuple(one.memory.id for one, _ in shown)
    taken = {id(one) for one, _ in shown}
    left_out = [one.memory.id for one in ranked if id(one) not in taken]
    # Another occurrence of one that is left out may be shown.
    unseen = [id_ for id_ in dict.fromkeys(left_out) if id_ not in packed_ids]
    omitted_ids = tuple(ids.show(ids.MEMORY, id_) for id_ in unseen[: limits.OMITTED_IDS_MAX])
    return Packed(
        items=tuple(item for _, item in shown),
        ids=packed_ids,
        tokens=budget.max_tokens - filling.left if shown else 0,
        omitted=Omitted(count=len(left_out), ids=omitted_ids),
        conflicts=tuple(filling.shown_conflicts),
    )


@dataclass(frozen=True, slots=True)
class _Form:
    """One way to show a memory, and its tokens with a separator, as text or JSON."""

    item: Item
    tokens: int

    @classmethod
    def of(cls, item: Item) -> "_Form":
        """Count an item. Its number does not matter: up to 999, each takes one token."""
        fields = shown_fields(item)
        tokens = estimate(compact_json(fields))
        # The names of JSON take more than the signs of the text, unless it has further lines.
        text = item.shown_text
        if "\n" in text or text not in fields.values():
            tokens = max(tokens, estimate(render_item(item, fields)))
        return cls(item, tokens + 1)


@dataclass(slots=True)
class _Text:
    """A candidate with the ways to show it, each counted once."""

    candidate: Candidate
    whole: Item
    _forms: dict[str, _Form] = field(default_factory=dict[str, _Form])

    def body(self, *, within: int) -> _Form | None:
        """Return the full text if it fits."""
        if len(self.whole.body or "") > _CHARS_A_TOKEN_MAX * within:
            return None
        form = self._form("body")
        return form if form.tokens <= within else None

    def brief_body(self, *, within: int) -> _Form | None:
        """Return the full text with its kind, trust and notes alone, if they fit."""
        if len(self.whole.body or "") > _CHARS_A_TOKEN_MAX * within:
            return None
        form = self._form("brief body", is_brief=True)
        return form if form.tokens <= within else None

    def excerpt(self, sought: Sought, *, within: int) -> _Form | None:
        """Return the best matching sentences that fit."""
        text = self.whole.body or ""
        tokens = within - self._form("no text", body=None, headline="").tokens
        if tokens < _EXCERPT_MIN:
            return None
        sample = text[:SAMPLE_CHARS]
        chars = tokens * len(sample) // max(1, estimate(sample))
        headline = self.whole.headline or ""
        # A headline that is the beginning of the text is not repeated.
        heading = "" if full_text(headline, text) == text else f"{headline}\n"
        for share in _SHARES_OF_CHARS:
            sentences = excerpt(text, sought, chars=int(chars * share))
            if not sentences:
                return None
            form = _Form.of(replace(self.whole, body=None, excerpt=heading + sentences))
            if form.tokens <= within:
                return form
        return None

    def headline(self) -> _Form:
        """Return the headline."""
        return self._form("headline", body=None)

    def brief(self) -> _Form:
        """Return the headline with its kind, trust and notes alone."""
        return self._form("brief", body=None, is_brief=True)

    def bare(self) -> _Form:
        """Return the id alone."""
        return self._form("bare", body=None, headline=None, notes=())

    def _form(self, name: str, **changes: Any) -> _Form:  # noqa: ANN401 fields of an item
        if name not in self._forms:
            self._forms[name] = _Form.of(replace(self.whole, **changes) if changes else self.whole)
        return self._forms[name]


def _fill(
    texts: Sequence[_Text], *, tokens: int, sought: Sought, conflicts: Sequence[Conflict]
) -> "_Filling":
    """Choose how to show each item; the best rule or fact displaces others only if it must."""
    skills = [one for one in texts if is_persons_skill(one.candidate)]
    filling = _Filling(texts, conflicts, sought, tokens).fill(reserving=skills)
    binding = [at for at, one in enumerate(texts) if is_binding(one.candidate)]
    place = min(binding, key=lambda at: texts[at].candidate.memory.authority.rank, default=None)
    if place is None or filling.shows_text(place):
        return filling
    one = texts[place].candidate
    seen = [texts[at].candidate for at in sorted(filling.forms) if filling.shows_text(at)]
    seen = seen or [texts[0].candidate]
    rank = one.memory.authority.rank
    if any(other.memory.authority.rank <= rank for other in seen) and not is_close(one, seen[-1]):
        return filling
    seated = [one for one in texts if one in skills or one is texts[place]]
    return _Filling(texts, conflicts, sought, tokens).fill(reserving=seated)


@dataclass(slots=True)
class _Filling:
    """A budget being filled."""

    texts: Sequence[_Text]
    conflicts: Sequence[Conflict]
    sought: Sought
    left: int
    """Tokens that nothing takes yet."""
    total: int = 0
    reserved: dict[int, int] = field(default_factory=dict[int, int])
    """Tokens that are reserved for an item, by its place."""
    forms: dict[int, _Form] = field(default_factory=dict[int, _Form])
    """How items are shown, by their place."""
    shown_conflicts: list[Conflict] = field(default_factory=list[Conflict])

    def fill(self, *, reserving: Sequence[_Text]) -> "_Filling":
        """Give bodies and first excerpts their shares, then the rest to the others."""
        self.total = self.left
        self._reserve(reserving)
        for place, text in enumerate(self.texts):
            is_reserved = self.reserved.pop(place, None) is not None
            if form := self._share(place, text):
                self._take(place, form)
            elif is_reserved:
                self._rest(place, text)
        for place, form in list(self.forms.items()):
            if form.item.body is None and (
                whole := self.texts[place].body(within=self.left + form.tokens)
            ):
                self._take(place, whole)
        for place, text in enumerate(self.texts):
            if self.left < _BARE_MIN:
                break
            if place not in self.forms:
                self._rest(place, text)
        return self

    def _reserve(self, seated: Sequence[_Text]) -> None:
        """Keep tokens for ids first, then for headlines."""
        free = self.left
        for show in (_Text.bare, _Text.headline):
            for place, text in enumerate(self.texts):
                if text not in seated:
                    continue
                more = show(text).tokens - self.reserved.get(place, 0)
                if more <= free:
                    self.reserved[place] = show(text).tokens
                    free -= more

    @property
    def free(self) -> int:
        """Tokens that are neither taken nor reserved."""
        return self.left - sum(self.reserved.values())

    def _share(self, place: int, text: _Text) -> _Form | None:
        """Return a body within its share, or an excerpt of one of the best.

        What a newer memory changed gets one line, after the others have their share.
        """
        free = self.free
        if free < _BARE_MIN or text.candidate.features.get(EARLIER):
            return None
        form = text.body(within=_share_of(free, _OF_A_BODY, most=free) if place else free)
        if form is None and not place:
            form = text.brief_body(within=free)
        if form is None and place < _FOREMOST:
            form = text.excerpt(self.sought, within=_share_of(free, _OF_A_PART, most=free))
        if form is None and not place:
            # Otherwise later items would take its tokens.
            shorter = (text.headline(), text.brief())
            form = next((one for one in shorter if one.tokens <= free), None)
        return form

    def _rest(self, place: int, text: _Text) -> None:
        """Show as much as fits of an item without a share."""
        free = self.free
        most = _share_of(self.total, _OF_A_LATE_PART, most=free)
        if text.candidate.features.get(EARLIER):
            form = text.body(within=min(free, _EARLIER_TOKENS_MAX))
        else:
            form = text.body(within=most) or text.excerpt(self.sought, within=most)
        shorter = (show(text) for show in (_Text.headline, _Text.brief, _Text.bare))
        form = form or next((one for one in shorter if one.tokens <= free), None)
        if form is not None:
            self._take(place, form)

    def _take(self, place: int, form: _Form) -> None:
        """Show an item, and its conflicts if they fit."""
        before = self.forms.get(place)
        self.left -= form.tokens - (before.tokens if before else 0)
        self.forms[place] = form
        if before is not None or not self.conflicts:
            return
        named = conflicts_naming(self.conflicts, form.item.id)
        fresh = [one for one in named if one not in self.shown_conflicts]
        for conflict in fresh[: CONFLICTS_MAX - len(self.shown_conflicts)]:
            tokens = estimate(conflict.line()) + _AROUND_A_CONFLICT
            if tokens <= self.free:
                self.shown_conflicts.append(conflict)
                self.left -= tokens

    def shows_text(self, place: int) -> bool:
        """Return whether more than the id of an item is shown."""
        form = self.forms.get(place)
        return form is not None and form.item.headline is not None

    def add_extras(self) -> None:
        """Add what items said before, where they came from, scores and tags, as far as they fit.

        The source of two items is described once, and only named if it is an item itself.
        """
        shown_ids = {form.item.id for form in self.forms.values()}
        for place, form in sorted(self.forms.items()):
            candidate = self.texts[place].candidate
            if form.item.headline is None:
                continue
            if candidate.earlier:
                self._extend(place, earlier=candidate.earlier)
            source = candidate.source
            for shorter in source.shorter(is_shown=source.id in shown_ids) if source else ():
                if self._extend(place, source=shorter):
                    shown_ids.add(shorter.id)
                    break
        for place, form in sorted(self.forms.items()):
            if form.item.headline is not None and not form.item.is_brief:
                self._extend(place, is_ranked=True)

    def _extend(self, place: int, **more: Any) -> bool:  # noqa: ANN401 fields of an item
        """Add fields to an item if they fit; return whether they do."""
        before = self.forms[place]
        form = _Form.of(replace(before.item, **more))
        if form.tokens - before.tokens > self.left:
            return False
        self._take(place, form)
        return True


_AROUND_A_CONFLICT: Final = 8
"""Tokens around the line of a conflict: a line end, or its quotes and name in JSON."""


def _share_of(tokens: int, share: float, *, most: int) -> int:
    return min(most, max(_ITEM_MIN, int(share * tokens)))
