"""Draft and Memory: a text before and after validation."""

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, cast

from commonbrain.model.atoms import Atom
from commonbrain.model.attachments import (
    TextTransform,
    attachment_in,
    changed_attachment,
    named_texts,
    texts_in_attachment,
)
from commonbrain.model.citations import read_citations
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import KINDS, Detail, Kind, MessageDetail
from commonbrain.model.limits import SALIENCE_MIN
from commonbrain.model.parameters import DEFAULTS, Parameters
from commonbrain.model.reading import Reading
from commonbrain.model.scope import Authority, Scope, Trust
from commonbrain.model.timestamps import instant
from commonbrain.model.values import dataclass, field, fields, replace


class State(StrEnum):
    """The stored state of a memory; dormancy is computed."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"
    EXPIRED = "expired"
    QUARANTINED = "quarantined"
    CANDIDATE = "candidate"


AWAITING_STATES = frozenset({State.QUARANTINED, State.CANDIDATE})
"""States that approve and reject resolve."""
CURRENT_STATES = frozenset({State.ACTIVE, State.ARCHIVED})
"""States that recall returns, unless the query is about the past."""
FINDABLE_STATES = CURRENT_STATES | {State.SUPERSEDED}
"""States in the index: queries about the past find what was believed then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRef:
    """The thread of a message: `key` identifies it, `subject` is its headline."""

    key: str
    subject: str


class Sharing(StrEnum):
    """What the sender of a direct message shares of it with the team."""

    MARKED = "marked"
    """The parts tagged as a decision or convention."""
    DECISION = "decision"
    """The whole text, as a decision."""
    CONVENTION = "convention"
    """The whole text, as a convention."""
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A text offered to the memory, with the attributes given by its author.

    `kind` may be a kind or an alias; without it the words decide. `severity` is for rules; `detail`
    has the other columns of the kind.
    """

    body: str
    kind: str | None = None
    headline: str | None = None
    label: str | None = None
    project: str | None = None
    scope: Scope | None = None
    trust: Trust | None = None
    confidence: float | None = None
    tags: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    source_ref: str | None = None
    cites: tuple[str, ...] = ()
    """Code that it is about: `path:line`, `path:line-line` or `path#symbol`."""
    occurred_at: datetime | None = None
    expires_at: datetime | None = None
    auto_captured: bool = False
    section: str | None = None
    """The titles above it, if it is a passage of a longer text: "Postmortem 12 > Cause"."""
    distinct_because: str | None = None
    severity: str | None = None
    thread: ThreadRef | None = None
    detail: Detail | None = None
    columns: Mapping[str, object] = field(default_factory=dict[str, object])
    """Columns of the kind by name, as an alternative to `detail`."""
    attachment: Mapping[str, object] | None = None
    """A JSON object that a program stores with the text; it comes back exactly, unsearched."""
    derived_from: tuple[int, ...] = ()
    depends_on: tuple[int, ...] = ()
    """Memories that must be valid for this one to be.

    Unlike sources, they need not contain its text.
    """
    source_message_id: int | None = None
    audience: tuple[str, ...] = ()
    """Further readers of a private memory; a message names its recipients instead."""
    extract_tasks: bool = False
    """Whether sentences that state tasks become tasks."""
    extract_causes: bool | None = None
    """Whether stated causes become atoms; None: only for messages."""
    part: int | None = None
    """The number, from 1, of a part of a text too long for one memory; None for a whole text."""
    own_lines: frozenset[str] | None = None
    """Of a part of a longer text, the lines that are not quoted there; others have no tags."""
    is_candidate: bool = False
    """Whether it is only proposed and becomes active on approval."""
    author: str | None = None
    """Who wrote it, as an imported source says."""
    original_ref: str | None = None
    """Where an imported source has it from."""
    believed_since: datetime | None = None
    """When an imported source recorded it."""
    access_count: int = 0
    """How often an imported source returned it."""
    last_access_at: datetime | None = None
    """When an imported source returned it last."""
    salience: float | None = None
    """How much it matters as an imported source says, 0..1."""
    imported_from: str | None = None
    """The format from which it was imported."""
    pinned: bool = False
    """Whether an imported source has it pinned."""
    rating: int = 0
    """Votes for it in an imported source, less those against it."""
    sharing: Sharing = Sharing.NONE
    """What the team sees of a direct message; of a derived part, whether its sender shares it."""


def unread(_memory: "Memory") -> Reading:
    """Return the reading of a memory that does not come from a store."""
    return Reading()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One stored memory; headline, body and detail never change."""

    id: int
    kind: Kind
    headline: str
    body: str
    detail: Detail
    label: str | None = None
    state: State = State.ACTIVE
    scope: Scope = Scope.TEAM
    project: str | None = None
    agent: str
    session: str | None = None
    trust: Trust
    authority: Authority = Authority.MODEL
    """Who wrote it, or the least authoritative of its sources."""
    confidence: float
    salience: float
    rating: int = 0
    pinned: bool = False
    tags: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    """People that it mentions, case-folded, without its speaker."""
    topics: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    """Files, tickets and other references in it."""
    source_ref: str | None = None
    source_message_id: int | None = None
    auto_captured: bool = False
    semantic_hash: str
    recorded_at: datetime
    occurred_at: datetime
    expires_at: datetime | None = None
    access_count: int = 0
    last_access_at: datetime | None = None
    believed_since: datetime | None = None
    """When its source recorded it, or it was restored; None if current since it was recorded."""
    superseded_at: datetime | None = None
    superseded_by: int | None = None
    superseded_count: int = 0
    """The number of earlier revisions in its chain."""
    payload: Mapping[str, object] = field(default_factory=dict[str, object])
    read: Callable[["Memory"], Reading] = field(default=unread, compare=False, repr=False)
    """Returns `reading`: few recalls ask what more than a few of their candidates say."""

    @property
    def reading(self) -> Reading:
        """What its text says, as its store has it; a copy with other names keeps the row's."""
        return self.read(self)

    @property
    def attachment(self) -> Mapping[str, object] | None:
        """The JSON object that its author stored with the text."""
        return attachment_in(self.payload)

    @property
    def section(self) -> str | None:
        """The titles above it, if it is a passage of a text: "Postmortem 12 > Cause"."""
        return cast("str | None", self.payload.get(SECTION))

    @property
    def given_time(self) -> datetime:
        """When it occurs as its author said, which may be later than `occurred_at`."""
        given = self.payload.get(GIVEN_TIME)
        return self.occurred_at if given is None else instant(cast("str", given))

    @property
    def text(self) -> str:
        """The full text: the body, preceded by the headline unless the body contains it."""
        return full_text(self.headline, self.body)

    @property
    def speaker(self) -> str | None:
        """The speaker of a message."""
        return self.detail.sender if isinstance(self.detail, MessageDetail) else None

    @property
    def thread_id(self) -> int | None:
        """The thread of a message."""
        return self.detail.thread_id if isinstance(self.detail, MessageDetail) else None

    @property
    def audience(self) -> tuple[str, ...]:
        """Further readers of a private memory: recipients of it or its source."""
        if isinstance(self.detail, MessageDetail):
            return self.detail.recipients
        return tuple(cast("Sequence[str]", self.payload.get(AUDIENCE, ())))

    def is_over(self, now: datetime) -> bool:
        """Return whether it has expired."""
        return self.expires_at is not None and self.expires_at <= now

    @property
    def keywords(self) -> str:
        """Searchable names and column values that the text does not contain."""
        named = (self.speaker, self.project, self.label, self.section, *self.tags, *self.people)
        cited = (str(one.place) for one in read_citations(self.payload))
        columns = (getattr(self.detail, name) for name in KINDS[self.kind].searchable)
        extra = (text for text in (*columns, *cited) if text and text not in self.text)
        return " ".join(name for name in (*named, *extra) if name)


IMPORTED: Final = "imported"
"""Payload key of the origin of an imported memory: format, importer; author, source if known."""
SECTION: Final = "section"
"""Payload key of the titles above a passage."""
AUDIENCE: Final = "audience"
"""Payload key of the readers of a private memory that is not a message."""
GIVEN_TIME: Final = "given_time"
"""Payload key of the time that the author gave, if it was in the future."""
CLOCK_TOLERANCE: Final = timedelta(minutes=5)
"""How far the clocks of machines that share a store may differ."""


def effective_time(given: datetime, *, now: datetime) -> datetime:
    """Return when a memory counts as having occurred: a future one, when it is recorded.

    Otherwise no later correction would ever count as newer.
    """
    return now if given > now + CLOCK_TOLERANCE else given


ERASED: Final = "(erased)"
"""Replaces the headline of an erased memory."""


def full_text(headline: str, body: str) -> str:
    """Join headline and body, unless the body says the headline."""
    stem = headline.removesuffix("…")
    is_said = body.startswith(stem) or f" {stem}" in body or _says(body, stem)
    return body if is_said else f"{headline}\n{body}"


_SIGNS: Final = re.compile(r"[\s|*#/,;:.!?\"'`()\[\]{}<>=…–—。！？-]+")  # noqa: RUF001 full-width marks meant
_GAPS: Final = re.compile(r"[:…]")
"""A derived headline may leave out words after a label and within a long sentence."""


def _says(body: str, stem: str) -> bool:
    """Return whether the parts of a headline occur in the body in order, whatever the signs."""
    parts = [words for part in _GAPS.split(stem) if (words := _without_signs(part))]
    if not parts:
        return _folded(stem) in _folded(body)
    text, place = f" {_without_signs(body)}", 0
    for words in parts:
        place = text.find(f" {words}", place)
        if place < 0:
            return False
        place += len(words)
    return True


def _without_signs(text: str) -> str:
    return _SIGNS.sub(" ", text.casefold()).strip()


def is_erased(memory: Memory) -> bool:
    """Return whether only the id of a memory is left."""
    return not memory.semantic_hash and not memory.body


def semantic_hash(kind: Kind, text: str, *, distinct_because: str | None = None) -> str:
    """Return a 128-bit hash that ignores case and spacing; `is_same_text` decides about those.

    A text that its author calls distinct shares its hash only with itself, for the same reason.
    """
    reason = f"\0{distinct_because}" if distinct_because else ""
    return hashlib.sha256(f"{kind}\n{_folded(text)}{reason}".encode()).hexdigest()[:32]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("kind", "headline", "label", "project", "scope", "trust"), (str,)),
    **dict.fromkeys(("source_ref", "distinct_because", "severity", "body"), (str,)),
    **dict.fromkeys(("author", "original_ref", "imported_from", "section"), (str,)),
    **dict.fromkeys(("occurred_at", "expires_at", "believed_since", "last_access_at"), (datetime,)),
    **dict.fromkeys(("auto_captured", "extract_tasks", "extract_causes", "pinned"), (bool,)),
    **dict.fromkeys(("tags", "people", "cites", "derived_from", "depends_on"), (tuple, list)),
    **dict.fromkeys(("confidence", "salience"), (int, float)),
    **dict.fromkeys(("source_message_id", "rating", "access_count"), (int,)),
    "thread": (ThreadRef,),
    **dict.fromkeys(("columns", "attachment"), (Mapping,)),
}
_MEMBERS: Final = {"tags": str, "people": str, "cites": str, "derived_from": int, "depends_on": int}


def check_types(draft: Draft) -> None:
    """Check the types of a draft built by a program.

    Raises:
        InvalidInputError: a field has a value of the wrong type; the value is not repeated.

    """
    for name, types in _TYPES.items():
        value: Any = getattr(draft, name)
        if value is None and name != "body":
            continue
        if not isinstance(value, types):
            raise _wrong(name, cast("type", type(value)))
        member = _MEMBERS.get(name)
        members = cast("list[object]", value) if member else []
        odd = [one for one in members if member and not isinstance(one, member)]
        if odd:
            raise _wrong(name, type(odd[0]))


def texts_of(draft: Draft) -> Iterator[tuple[str, str]]:
    """Return every free text that would be stored, with the name of its field.

    The same texts in the same order as in `with_texts`, without a copy of the draft.
    """
    yield "body", draft.body
    yield from named_texts(draft.columns)
    if draft.thread is not None:
        yield "thread key", draft.thread.key
        yield "thread subject", draft.thread.subject
    if draft.detail is not None:
        yield from named_texts(_free(draft.detail))
    if draft.attachment is not None:
        yield from texts_in_attachment(draft.attachment)
    for name in _PLAIN:
        yield from named_texts(getattr(draft, name), name)


def with_texts(draft: Draft, change: TextTransform) -> Draft:
    """Return a copy of a draft with every free text changed.

    Names that become empty are dropped.
    """
    return replace(
        draft,
        body=change("body", draft.body),
        columns=_mapped(draft.columns, change),
        thread=_thread(draft.thread, change),
        detail=draft.detail and replace(draft.detail, **_mapped(_free(draft.detail), change)),
        attachment=changed_attachment(draft.attachment, change),
        **{name: _changed(name, getattr(draft, name), change=change) for name in _PLAIN},
    )


_PLAIN: Final = (
    *("headline", "label", "project", "source_ref", "distinct_because", "tags", "people"),
    *("author", "original_ref", "section", "cites"),
)


def _changed(name: str, value: Any, *, change: TextTransform) -> Any:  # noqa: ANN401 fields hold anything
    match value:
        case str():
            return change(name, value) or None
        case tuple() | list():
            members = cast("list[object]", value)
            changed = (_changed(name, one, change=change) for one in members)
            return tuple(one for one in changed if one is not None)
        case Mapping():
            return _mapped(cast("Mapping[str, object]", value), change)
        case _:
            return value


def _mapped(given: Mapping[str, object], change: TextTransform) -> dict[str, object]:
    return {name: _changed(name, value, change=change) for name, value in given.items()}


def _thread(thread: ThreadRef | None, change: TextTransform) -> ThreadRef | None:
    if thread is None:
        return None
    return ThreadRef(
        key=change("thread key", thread.key), subject=change("thread subject", thread.subject)
    )


def _free(detail: Any) -> dict[str, object]:  # noqa: ANN401 one of eight, of any columns
    own = {one.name: getattr(detail, one.name) for one in fields(detail)}
    # Enumerations are strings too, but not free texts.
    return {name: value for name, value in own.items() if type(value) in {str, tuple, dict}}


def _wrong(name: str, given: type) -> InvalidInputError:
    return InvalidInputError(f"The {name} is a {given.__name__}.", hint="See Draft for the types.")


_CONFIDENCE: Final = {
    Trust.TRUSTED_TOOL: 0.82,
    Trust.USER_CLAIM: 0.66,
    Trust.UNTRUSTED_WEB: 0.38,
}
_PER_HEDGE: Final = 0.05
_PENALTY: Final = 1 / 3
_PENALTIES: Final = ("contradicted", "needs_review", "stale")
_FLOOR: Final = 0.1
_USED_MAX: Final = 5.0
"""Reached at 15 accesses: the half-life of such a fact is 35 days."""
_VOTES_TO_DOUBLE: Final = 3
_CACHED_HALF_LIVES: Final = 1024
"""Most memories share theirs, and each recall needs those of forty."""
ACCESSES_PER_RECALL: Final = 3
"""How many of the best items of a recall count as accessed.

If all did, often shown memories would outrank answers: see docs/explanation/decisions.md.
"""
_HEDGE: Final = re.compile(
    r"\b(?:maybe|perhaps|possibly|probably|might|could be|i think|i guess|seems?|apparently"
    r"|not sure|unclear|roughly|likely)\b",
    re.IGNORECASE,
)


def confidence(
    kind: Kind, text: str, *, trust: Trust, is_sourced: bool, parameters: Parameters = DEFAULTS
) -> float:
    """Return the probability that a text is true, 0..1.

    By trust, less per hedge, capped if unsourced.
    """
    hedged = _CONFIDENCE[trust] - _PER_HEDGE * len(_HEDGE.findall(text))
    ceiling = 1.0 if is_sourced else parameters.unsourced_confidence(kind)
    return round(max(_FLOOR, min(hedged, ceiling)), 4)


def doubted(confidence: float, features: Mapping[str, float]) -> float:
    """Return the confidence as read: a third less for each of three penalties; nothing is stored.

    The penalties are: a preferred memory contradicts it (in proportion to the link), it depends on
    an invalid memory, or it is stale, a claim that was not used for so long that it is dormant.
    Each ends with its cause.
    """
    share = 1.0
    for name in _PENALTIES:
        if penalty := features.get(name):
            share *= 1 - _PENALTY * penalty
    return round(confidence * share, 4)


def confidence_of(atom: Atom, *, of: Kind, trust: Trust) -> float:
    """Return the probability that an atom extracted from a text is true, 0..1.

    At most 0.6 in a message and 0.7 elsewhere, since extraction may err, and at most the confidence
    of its source.
    """
    own = confidence(Kind.ATOM, atom.body, trust=trust, is_sourced=True)
    return min(KINDS[of].atom_confidence_max, own)


def strength(memory: Memory, now: datetime, *, parameters: Parameters = DEFAULTS) -> float:
    """Return the strength of a memory, 0..1: 2^(-age / half-life), by the time of last access.

    `half_life` depends on kind, use, votes and importance; pinned memories never decay.
    """
    lasting = half_life(memory, parameters)
    if lasting is None or memory.pinned:
        return 1.0
    return 2.0 ** -(max((now - last_touched(memory)) / lasting, 0.0))


def half_life(memory: Memory, parameters: Parameters = DEFAULTS) -> timedelta | None:
    """Return the time in which a memory loses half its strength; None if it never decays.

    The half-life of the kind times 1 + log2(1 + accesses), at most 5; times 2^(rating / 3), between
    1/2 and 2; times 2^(salience - the kind's default), between 1/2 and 2. Each factor is 1 for a
    new memory and never decreases with accesses, votes or salience. The logarithm gives the first
    accesses most weight, as in the power law of practice; the limits keep any one signal from
    dominating.
    """
    lasting = parameters.half_life(memory.kind)
    if lasting is None:
        return None
    salient = memory.salience - KINDS[memory.kind].salience
    return _prolonged(lasting, memory.access_count, rating=memory.rating, salient=salient)


@lru_cache(_CACHED_HALF_LIVES)
def _prolonged(lasting: timedelta, accesses: int, *, rating: int, salient: float) -> timedelta:
    used = min(1 + math.log2(1 + accesses), _USED_MAX)
    liked = 2.0 ** max(-1.0, min(rating / _VOTES_TO_DOUBLE, 1.0))
    return lasting * (used * liked * 2.0 ** max(-1.0, min(salient, 1.0)))


def last_touched(memory: Memory) -> datetime:
    """Return the later of recording and last access, so that imported history is not weak."""
    return max(memory.recorded_at, memory.last_access_at or memory.recorded_at)


def is_archived(memory: Memory, now: datetime, *, parameters: Parameters = DEFAULTS) -> bool:
    """Return whether a memory is archived: by state, or unread for as long as its kind allows."""
    after = parameters.archived_after(memory.kind)
    is_unread = after is not None and now - last_touched(memory) >= after and not memory.pinned
    return memory.state is State.ARCHIVED or (memory.state is State.ACTIVE and is_unread)


def says_too_little(memory: Memory, parameters: Parameters = DEFAULTS) -> bool:
    """Return whether a memory was archived as it was written, for its low salience."""
    return memory.state is State.ARCHIVED and memory.salience < low_salience(parameters)


def low_salience(parameters: Parameters) -> float:
    """Return the salience below which what is archived was archived as it was written.

    Where a tenant raised the limit since, what age archived is not taken for it.
    """
    return min(parameters.salience_min, SALIENCE_MIN)


def is_dormant(memory: Memory, now: datetime, *, parameters: Parameters = DEFAULTS) -> bool:
    """Return whether a current memory is dormant: archived, or too weak; access restores strength.

    Superseded, forgotten, expired and pending memories are not dormant.
    """
    is_current = memory.state in CURRENT_STATES and not memory.is_over(now)
    return is_current and effective_strength(memory, now, parameters=parameters) == 0.0


def effective_strength(
    memory: Memory, now: datetime, *, parameters: Parameters = DEFAULTS
) -> float:
    """Return the strength of a memory; 0 if it is dormant."""
    left = strength(memory, now, parameters=parameters)
    if memory.state not in CURRENT_STATES or memory.is_over(now):
        return left
    is_asleep = left < parameters.dormant_below or is_archived(memory, now, parameters=parameters)
    return 0.0 if is_asleep else left
