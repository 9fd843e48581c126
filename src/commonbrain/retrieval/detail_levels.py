"""The ways to show a memory in an answer, and what each takes: body, excerpt, headline, id."""

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
"""A text of more characters than that for each token of room is not counted: it does not fit."""
_SAMPLE_CHARS: Final = 1000
"""How much of a text tells how dense it is."""
_SHARES_OF_CHARS: Final = (0.92, 0.7)
"""How much of the room an excerpt is given, and if that was too much."""
_EXCERPT_MIN: Final = 30
"""Tokens below which a headline tells more than an excerpt."""
_QUOTED: Final = json.JSONEncoder(ensure_ascii=False).encode
"""Kept: `json.dumps` makes an encoder anew for every text."""


@dataclass(frozen=True, slots=True)
class DetailCosts:
    """Tokens that something takes in either way to read an answer."""

    text: int = 0
    json: int = 0

    def __add__(self, other: "DetailCosts") -> "DetailCosts":
        """Add up."""
        return DetailCosts(self.text + other.text, self.json + other.json)

    def __sub__(self, other: "DetailCosts") -> "DetailCosts":
        """Take away."""
        return DetailCosts(self.text - other.text, self.json - other.json)

    @property
    def most(self) -> int:
        """What it takes, whichever way it is read."""
        return max(self.text, self.json)


@dataclass(frozen=True, slots=True)
class DetailLevel:
    """One way to show a memory, and what its text takes."""

    item: Item
    said: DetailCosts


@dataclass(slots=True, kw_only=True)
class Text:
    """A candidate with the ways to show it, each counted once."""

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
        """Make a candidate ready to be shown."""
        return cls(candidate=candidate, whole=whole, _whole=FullEvidence.of(whole))

    @property
    def id(self) -> int:
        """Which memory it is."""
        return self.candidate.memory.id

    def body(self, *, within: int) -> DetailLevel | None:
        """Show all of it, if its text takes no more than so many tokens."""
        if len(self.whole.body or "") > _CHARS_A_TOKEN_MAX * within:
            return None
        if self._body is None:
            self._body = _form(self.whole)
        return self._body if self._body.said.most <= within else None

    def part(self, sought: Sought, *, within: int) -> DetailLevel | None:
        """Show what tells most of what is sought, in no more than so many tokens."""
        text = self.whole.body or ""
        if within < _EXCERPT_MIN:
            return None
        sample = text[:_SAMPLE_CHARS]
        chars = within * len(sample) // max(1, estimate(sample))
        for share in _SHARES_OF_CHARS:
            told = excerpt(text, sought, chars=int(chars * share))
            if not told:
                return None
            form = _form(replace(self.whole, body=None, excerpt=self._headed(told)))
            if form.said.most <= within:
                return form
        return None

    def _headed(self, told: str) -> str:
        """Say the headline too, where the body does not."""
        headline, body = self.whole.headline or "", self.whole.body or ""
        return told if full_text(headline, body) == body else f"{headline}\n{told}"

    def headline(self) -> DetailLevel:
        """Show what it is about."""
        if self._headline is None:
            self._headline = _form(replace(self.whole, body=None))
        return self._headline

    def bare(self) -> DetailLevel:
        """Show that it is there."""
        if self._bare is None:
            bare = replace(self.whole, body=None, headline=None, notes=())
            self._bare = DetailLevel(bare, DetailCosts())
        return self._bare

    def barer(self, form: DetailLevel) -> Iterator[DetailLevel]:
        """Give a form and those that say less."""
        yield form
        yield self.headline()
        yield self.bare()

    def around(self, telling: EvidenceRenderer) -> DetailCosts:
        """Count what is told beside its text if it comes next."""
        return self._around(self.whole, telling)

    def cost(self, form: DetailLevel, telling: EvidenceRenderer) -> DetailCosts:
        """Count what it takes in a form if it comes next, with what joins it to the one after."""
        return self._around(form.item, telling) + form.said

    def _around(self, item: Item, telling: EvidenceRenderer) -> DetailCosts:
        is_bare = item.headline is None
        first = None if is_bare else telling.first(self._whole)
        rest_as = first and first[0]
        key = (telling.number, rest_as, is_bare, item.body is None, item.excerpt is None)
        if key not in self._counted:
            told = metadata_of(item) if is_bare else instruction_text(self._whole, first)
            line = provenance(item, told, number=telling.number + 1)
            rest = to_compact_evidence(item, told)
            self._counted[key] = DetailCosts(estimate(line) + 1, estimate(rest) + 1)
        return self._counted[key]

    def tell(self, form: DetailLevel, telling: EvidenceRenderer) -> None:
        """Note that it is told in a form."""
        telling.add(form.item, self._whole)


def _form(item: Item) -> DetailLevel:
    """Count the text of an item, quoted and as JSON, with what joins it to what stands beside."""
    as_text = "\n".join(["", *quoted(item)])
    name, told = _named(item)
    as_json = f',"{name}":{_QUOTED(inert(told))}'
    return DetailLevel(item, DetailCosts(estimate(as_text), estimate(as_json)))


def _named(item: Item) -> tuple[str, str]:
    if item.body is not None:
        return "body", item.body
    if item.excerpt is not None:
        return "excerpt", item.excerpt
    return "headline", item.headline or ""
