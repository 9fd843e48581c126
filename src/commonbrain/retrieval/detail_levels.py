"""The ways to show one memory to an agent, each with its cost in tokens."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from commonbrain.model.escaping import inert
from commonbrain.model.memory import full_text
from commonbrain.model.query import Candidate
from commonbrain.model.recall_result import (
    EvidenceRenderer,
    FullEvidence,
    Item,
    instruction_text,
    metadata_of,
    provenance,
    quoted,
    to_compact_evidence,
)
from commonbrain.text.segmentation import Sought, excerpt
from commonbrain.text.tokens import SAMPLE_CHARS, estimate

_CHARS_A_TOKEN_MAX: Final = 8
"""A longer text per token of budget does not fit and is not counted."""
_SHARES_OF_CHARS: Final = (0.92, 0.7)
"""Shares of the budget, in characters, to try for an excerpt."""
_EXCERPT_MIN: Final = 30
"""Tokens below which a headline is more useful than an excerpt."""
as_json: Final = json.JSONEncoder(ensure_ascii=False).encode
"""Encode a text. Cached: `json.dumps` would create an encoder for every text."""


@dataclass(frozen=True, slots=True)
class DetailCosts:
    """Tokens as text and as JSON."""

    text: int = 0
    json: int = 0

    def __add__(self, other: "DetailCosts") -> "DetailCosts":
        """Return the cost of both."""
        return DetailCosts(self.text + other.text, self.json + other.json)

    def __sub__(self, other: "DetailCosts") -> "DetailCosts":
        """Return the cost without the other."""
        return DetailCosts(self.text - other.text, self.json - other.json)

    @property
    def most(self) -> int:
        """The larger of the two."""
        return max(self.text, self.json)


@dataclass(frozen=True, slots=True)
class DetailLevel:
    """One way to show a memory, and the cost of its text."""

    item: Item
    text_cost: DetailCosts


@dataclass(slots=True, kw_only=True)
class Text:
    """A candidate with its detail levels, each counted once."""

    id: int
    """Its memory."""
    candidate: Candidate
    whole: Item
    _whole: FullEvidence
    _body: DetailLevel | None = None
    _headline: DetailLevel | None = None
    _brief: DetailLevel | None = None
    _bare: DetailLevel | None = None
    _counted: dict[tuple[object, ...], DetailCosts] = field(
        default_factory=dict[tuple[object, ...], DetailCosts]
    )

    @classmethod
    def of(cls, candidate: Candidate, whole: Item) -> "Text":
        """Return a candidate with the item that shows it in full."""
        return cls(
            id=candidate.memory.id,
            candidate=candidate,
            whole=whole,
            _whole=FullEvidence.of(whole),
        )

    def body(self, *, within: int) -> DetailLevel | None:
        """Return the full text if it fits."""
        if len(self.whole.body or "") > _CHARS_A_TOKEN_MAX * within:
            return None
        if self._body is None:
            self._body = _form(self.whole)
        return self._body if self._body.text_cost.most <= within else None

    def part(self, sought: Sought, *, within: int) -> DetailLevel | None:
        """Return the best matching sentences that fit."""
        text = self.whole.body or ""
        if within < _EXCERPT_MIN:
            return None
        sample = text[:SAMPLE_CHARS]
        chars = within * len(sample) // max(1, estimate(sample))
        for share in _SHARES_OF_CHARS:
            sentences = excerpt(text, sought, chars=int(chars * share))
            if not sentences:
                return None
            form = _form(replace(self.whole, body=None, excerpt=self._headed(sentences)))
            if form.text_cost.most <= within:
                return form
        return None

    def _headed(self, sentences: str) -> str:
        """Prepend the headline unless the body contains it."""
        headline, body = self.whole.headline or "", self.whole.body or ""
        return sentences if full_text(headline, body) == body else f"{headline}\n{sentences}"

    def headline(self) -> DetailLevel:
        """Return the headline."""
        if self._headline is None:
            self._headline = _form(replace(self.whole, body=None))
        return self._headline

    def bare(self) -> DetailLevel:
        """Return the id alone."""
        if self._bare is None:
            bare = replace(self.whole, body=None, headline=None, notes=())
            self._bare = DetailLevel(bare, DetailCosts())
        return self._bare

    def brief(self) -> DetailLevel:
        """Return the headline with its kind, trust and notes alone."""
        if self._brief is None:
            self._brief = _form(replace(self.whole, body=None, is_brief=True))
        return self._brief

    def brief_body(self, renderer: EvidenceRenderer, *, within: int) -> DetailLevel | None:
        """Return the full text with its kind, trust and notes alone, if they fit."""
        form = self.body(within=within)
        if form is None:
            return None
        brief = DetailLevel(replace(form.item, is_brief=True), form.text_cost)
        return brief if self.cost(brief, renderer).most <= within else None

    def barer(self, form: DetailLevel) -> Iterator[DetailLevel]:
        """Return a level and those with less detail."""
        yield form
        yield self.headline()
        yield self.brief()
        yield self.bare()

    def cost(self, form: DetailLevel, renderer: EvidenceRenderer) -> DetailCosts:
        """Count the item at a level if it comes next, with its separator."""
        return self.around(form.item, renderer) + form.text_cost

    def around(self, item: Item, renderer: EvidenceRenderer) -> DetailCosts:
        """Count the metadata of an item if it comes next."""
        is_alone = item.headline is None or item.is_brief
        first = None if is_alone else renderer.first(self._whole)
        rest_as = first and first[0]
        level = (item.headline is None, item.is_brief, item.body is None, item.excerpt is None)
        key = (renderer.number, rest_as, level)
        if key not in self._counted:
            metadata = metadata_of(item) if is_alone else instruction_text(self._whole, first)
            line = provenance(item, metadata, number=renderer.number + 1)
            rest = to_compact_evidence(item, metadata)
            self._counted[key] = DetailCosts(estimate(line) + 1, estimate(rest) + 1)
        return self._counted[key]

    def add_to(self, form: DetailLevel, renderer: EvidenceRenderer) -> None:
        """Record that it is rendered at a level."""
        renderer.add(form.item, self._whole)


def _form(item: Item) -> DetailLevel:
    """Count the text of an item, quoted and as JSON, with its separator."""
    as_text = "\n".join(["", *quoted(item)])
    name, text = _named(item)
    in_json = f',"{name}":{as_json(inert(text))}'
    return DetailLevel(item, DetailCosts(estimate(as_text), estimate(in_json)))


def _named(item: Item) -> tuple[str, str]:
    if item.body is not None:
        return "body", item.body
    if item.excerpt is not None:
        return "excerpt", item.excerpt
    return "headline", item.headline or ""
