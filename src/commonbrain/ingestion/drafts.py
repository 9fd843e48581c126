"""Parse the arguments of remember into drafts: one, or one for each chunk of a raw text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypedDict, Unpack, cast

from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError, parse_choice
from commonbrain.model.kinds import KINDS, Detail
from commonbrain.model.limits import CHUNKS_MAX, RAW_TEXT_BYTES_MAX
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.scope import Scope
from commonbrain.model.timestamps import instant
from commonbrain.model.trust import Trust
from commonbrain.text.normalisation import normalise, without_injected_context
from commonbrain.text.segmentation import split


class DraftFields(TypedDict, total=False):
    """The keyword arguments of remember.

    `Draft` and the detail classes of the kinds explain them.
    """

    kind: str
    headline: str
    label: str
    project: str
    scope: Scope | str
    trust: Trust | str
    confidence: float
    tags: Sequence[str]
    people: Sequence[str]
    source_ref: str
    source_message: str
    derived_from: Sequence[str]
    depends_on: Sequence[str]
    occurred_at: datetime | str
    expires_at: datetime | str
    auto_captured: bool
    extract_tasks: bool
    extract_causes: bool
    distinct_because: str
    severity: str
    thread: ThreadRef
    detail: Detail
    subject: str
    ttl_s: int
    due_at: datetime | str
    priority: str
    assignee: str
    must_ack: bool
    root_cause: str
    resolution: str
    actor: str
    importance: float
    skill: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftBatch:
    """The drafts of one call, and the number of chunks that were too short."""

    drafts: Sequence[Draft]
    skipped: int = 0


def draft_of(text: str, **known: Unpack[DraftFields]) -> Draft:
    """Build a draft from a text and its attributes.

    Raises:
        InvalidInputError: a name, scope, trust, id or time is invalid or of the wrong type.

    """
    given: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
    columns = {name: given.pop(name) for name in sorted(_COLUMNS & given.keys())}
    unknown = sorted(set(given) - _FIELDS - {"source_message"})
    if unknown:
        raise InvalidInputError(f"There is no {', '.join(unknown)} to remember.", hint="See Draft.")
    try:
        read = {name: _PARSERS[name](value) for name, value in given.items() if name in _PARSERS}
    except (TypeError, AttributeError):
        wrong = ", ".join(name for name in given if name in _PARSERS)
        raise InvalidInputError(f"One of {wrong} is of a wrong type.", hint="See Draft.") from None
    if "source_message" in given:
        read["source_message_id"] = ids.parse(ids.MEMORY, str(given.pop("source_message")))
    return replace(Draft(body=text), columns=columns, **given | read)


def parse_drafts(text: str, *, is_chunked: bool | None, **known: Unpack[DraftFields]) -> DraftBatch:
    """Parse a text as one statement, or as the chunks of a raw text.

    A text is raw if it has several chunks and no kind or headline was given; `is_chunked` overrides
    that.

    Raises:
        InvalidInputError: as for `draft_of`.
        RejectedError: `limit_exceeded`, the text has too many chunks.

    """
    whole = draft_of(text, **known)
    is_one = whole.kind is not None or whole.headline is not None
    if is_chunked is False or (is_one and not is_chunked) or len(text) > RAW_TEXT_BYTES_MAX:
        return DraftBatch(drafts=[whole])
    passages = split(normalise(without_injected_context(normalise(text))))
    chunk_texts = [one.text for one in passages if not one.is_slight]
    if len(chunk_texts) < 2:  # noqa: PLR2004 a single passage is the statement, with its heading
        return DraftBatch(drafts=[whole])
    if len(chunk_texts) > CHUNKS_MAX:
        raise RejectedError(
            f"The text has {len(chunk_texts):,} passages; {CHUNKS_MAX:,} are allowed.",
            code="limit_exceeded",
            hint="Import it, or send it in parts.",
        )
    drafts = [replace(whole, body=one) for one in chunk_texts]
    return DraftBatch(drafts=drafts, skipped=len(passages) - len(chunk_texts))


def listed(drafts: Draft | Sequence[Draft]) -> list[Draft]:
    """Return the drafts as a list; a single draft becomes a list of one.

    Raises:
        InvalidInputError: it is neither a draft nor a list of drafts.

    """
    # Annotations do not stop a program from passing a number.
    given = cast("object", [drafts] if isinstance(drafts, Draft) else drafts)
    listed = list(cast("Sequence[object]", given)) if isinstance(given, Sequence) else [given]
    known = [one for one in listed if isinstance(one, Draft)]
    if len(known) < len(listed):
        raise InvalidInputError(
            "What is to be remembered is neither a text nor drafts.",
            hint="Give a text, a Draft, or a list of them.",
        )
    return known


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _ids(given: Sequence[str]) -> tuple[int, ...]:
    return tuple(ids.parse(ids.MEMORY, one) for one in _names(given))


_PARSERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "scope": partial(parse_choice, Scope),
    "trust": partial(parse_choice, Trust),
    "tags": _names,
    "people": _names,
    "derived_from": _ids,
    "depends_on": _ids,
    "occurred_at": instant,
    "expires_at": instant,
}
# Readers are set by messages alone, chunks by importers, and proposals by reflection.
_INTERNAL_FIELDS: Final = {"body", "audience", "part", "is_candidate"}
_FIELDS: Final = {field.name for field in fields(Draft)} - _INTERNAL_FIELDS
# Severity is a field of the draft because validation checks it separately; a lease is claimed.
_COLUMNS: Final = frozenset(column for policy in KINDS.values() for column in policy.columns) - {
    "severity",
    "lease_holder",
    "lease_until",
}
