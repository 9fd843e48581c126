"""Detail levels of an item and their token costs: body, excerpt, headline, id."""

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
from commonbrain.text.tokens import estimate

_CHARS_A_TOKEN_MAX: Final = 8
"""A longer text per token of budget does not fit and is not counted."""
_SAMPLE_CHARS: Final = 1000
"""Characters of a text from which its density is estimated."""
_SHARES_OF_CHARS: Final = (0.92, 0.7)
"""Shares of the budget, in characters, to try for an excerpt."""
_EXCERPT_MIN: Final = 30
"""Tokens below which a headline is more useful than an excerpt."""
_QUOTED: Final = json.JSONEncoder(ensure_ascii=False).encode
"""Cached: `json.dumps` would create an encoder for every text."""


@dataclass(frozen=True, slots=True)
class DetailCosts:
    """Tokens as text and as JSON."""

    text: int = 0
    json: int = 0

    def __add__(self, other: "DetailCosts") -> "DetailCosts":
        """Add."""
        return DetailCosts(self.text + other.text, self.json + other.json)

    def __sub__(self, other: "DetailCosts") -> "DetailCosts":
        """Subtract."""
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

    candidate: Candidate
    whole: Item
    _whole: FullEvidence
    _body: DetailLevel | None = None
    _headline: DetailLevel | None = None
    _bare: DetailLevel | None = None
    _counted: dict[tuple[object, ...], DetailCosts] = field(
        default_factory=dict[tuple[object, ...], DetailCosts]
    )

    @classmethod
    def of(cls, candidate: Candidate, whole: Item) -> "Text":
        """Prepare a candidate."""
        return cls(candidate=candidate, whole=whole, _whole=FullEvidence.of(whole))

    @property
    def id(self) -> int:
        """Its memory."""
        return self.candidate.memory.id

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
        sample = text[:_SAMPLE_CHARS]
        chars = within * len(sample) // max(1, estimate(sample))
        for share in _SHARES_OF_CHARS:
            sentences = excerpt(text, sought, chars=int(chars * share))
            if not sentences:
                return None
            form = _form(replace(self.whole, body=None, excerpt=self._headed(sentences)))
            if form.text_cost.most <= within:
                return form
        return None

    def _headed(self, metadata: str) -> str:
        """Prepend the headline unless the body contains it."""
        headline, body = self.whole.headline or "", self.whole.body or ""
        return metadata if full_text(headline, body) == body else f"{headline}\n{metadata}"

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

    def barer(self, form: DetailLevel) -> Iterator[DetailLevel]:
        """Return a level and those with less detail."""
        yield form
        yield self.headline()
        yield self.bare()

    def around(self, renderer: EvidenceRenderer) -> DetailCosts:
        """Count the metadata of the item if it comes next."""
        return self._around(self.whole, renderer)

    def cost(self, form: DetailLevel, renderer: EvidenceRenderer) -> DetailCosts:
        """Count the item at a level if it comes next, with its separator."""
        return self._around(form.item, renderer) + form.text_cost

    def _around(self, item: Item, renderer: EvidenceRenderer) -> DetailCosts:
        is_bare = item.headline is None
        first = None if is_bare else renderer.first(self._whole)
        rest_as = first and first[0]
        key = (renderer.number, rest_as, is_bare, item.body is None, item.excerpt is None)
        if key not in self._counted:
            metadata = metadata_of(item) if is_bare else instruction_text(self._whole, first)
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
    name, metadata = _named(item)
    as_json = f',"{name}":{_QUOTED(inert(metadata))}'
    return DetailLevel(item, DetailCosts(estimate(as_text), estimate(as_json)))


def _named(item: Item) -> tuple[str, str]:
    if item.body is not None:
        return "body", item.body
    if item.excerpt is not None:
        return "excerpt", item.excerpt
    return "headline", item.headline or ""
