"""What a caller says of a text, read into drafts: one, or one for each passage of a raw text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypedDict, Unpack, cast

from commonbrain.model import ids
from commonbrain.model.errors import Invalid, Refused, one_of
from commonbrain.model.kinds import KINDS, Detail
from commonbrain.model.limits import CHUNKS_MAX, RAW_TEXT_BYTES_MAX
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.scope import Scope
from commonbrain.model.timestamps import instant
from commonbrain.model.trust import Trust
from commonbrain.text.chunks import split
from commonbrain.text.injected_context import without_own_evidence
from commonbrain.text.normalisation import normalise


class DraftFields(TypedDict, total=False):
    """What may be said of a text; see `Draft` and the details of the kinds for each."""

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
    finds_tasks: bool
    finds_causes: bool
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
class Offer:
    """The drafts of one call, and how many passages were too short to be one."""

    drafts: Sequence[Draft]
    skipped: int = 0


def draft_of(text: str, **known: Unpack[DraftFields]) -> Draft:
    """Put a text and what is known of it into a draft.

    Raises:
        Invalid: a name, scope, trust, id or time is none, or of a wrong type.

    """
    told: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
    columns = {name: told.pop(name) for name in sorted(_COLUMNS & told.keys())}
    unknown = sorted(set(told) - _FIELDS - {"source_message"})
    if unknown:
        raise Invalid(f"There is no {', '.join(unknown)} to remember.", hint="See Draft.")
    try:
        read = {name: _READERS[name](value) for name, value in told.items() if name in _READERS}
    except (TypeError, AttributeError):
        wrong = ", ".join(name for name in told if name in _READERS)
        raise Invalid(f"One of {wrong} is of a wrong type.", hint="See Draft.") from None
    if "source_message" in told:
        read["source_message_id"] = ids.parse(ids.MEMORY, str(told.pop("source_message")))
    return replace(Draft(body=text), columns=columns, **told | read)


def drafts_of(text: str, *, cuts: bool | None, **known: Unpack[DraftFields]) -> Offer:
    """Read a text as one statement, or as the passages of a raw text.

    A text is raw when nobody said its kind or headline and it has several passages; `cuts` decides
    when it is given.

    Raises:
        Invalid: as `draft_of`.
        Refused: `limit_exceeded`, the text has too many passages.

    """
    whole = draft_of(text, **known)
    is_one = whole.kind is not None or whole.headline is not None
    if cuts is False or (is_one and not cuts) or len(text) > RAW_TEXT_BYTES_MAX:
        return Offer(drafts=[whole])
    passages = split(normalise(without_own_evidence(normalise(text))))
    kept = [one.text for one in passages if not one.is_slight]
    if len(kept) < 2:  # noqa: PLR2004 a single passage is the statement, with its heading
        return Offer(drafts=[whole])
    if len(kept) > CHUNKS_MAX:
        raise Refused(
            f"The text has {len(kept):,} passages; {CHUNKS_MAX:,} are allowed.",
            code="limit_exceeded",
            hint="Import it, or send it in parts.",
        )
    drafts = [replace(whole, body=one) for one in kept]
    return Offer(drafts=drafts, skipped=len(passages) - len(kept))


def listed(drafts: Draft | Sequence[Draft]) -> list[Draft]:
    """Take one draft for a list of it.

    Raises:
        Invalid: it is neither.

    """
    # No annotation keeps a program from giving a number.
    given = cast("object", [drafts] if isinstance(drafts, Draft) else drafts)
    listed = list(cast("Sequence[object]", given)) if isinstance(given, Sequence) else [given]
    known = [one for one in listed if isinstance(one, Draft)]
    if len(known) < len(listed):
        raise Invalid(
            "What is to be remembered is neither a text nor drafts.",
            hint="Give a text, a Draft, or a list of them.",
        )
    return known


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _ids(given: Sequence[str]) -> tuple[int, ...]:
    return tuple(ids.parse(ids.MEMORY, one) for one in _names(given))


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "scope": partial(one_of, Scope),
    "trust": partial(one_of, Trust),
    "tags": _names,
    "people": _names,
    "derived_from": _ids,
    "depends_on": _ids,
    "occurred_at": instant,
    "expires_at": instant,
}
# Whom a memory is shared with is settled by messages alone; parts are cut by importers, and
# what is only proposed is made by reflection.
_INNER: Final = {"body", "audience", "part", "is_candidate"}
_FIELDS: Final = {field.name for field in fields(Draft)} - _INNER
# Severity stands in the draft itself, for the gate has a step of its own for it; a lease is
# claimed, not given.
_COLUMNS: Final = frozenset(column for policy in KINDS.values() for column in policy.columns) - {
    "severity",
    "lease_holder",
    "lease_until",
}
