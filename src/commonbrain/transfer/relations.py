"""Relations of imported memories: links, and which memory superseded which.

They are applied once. Importing the source again does not bring back a link that was removed or a
replacement that was undone since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.history.metadata import find_link
from commonbrain.ingestion.batch import WriteContext
from commonbrain.ingestion.result import ItemResult
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import REASON_CHARS_MAX
from commonbrain.model.links import STRENGTH_DEFAULT, Link, LinkType, link_image, link_of
from commonbrain.model.memory import (
    CURRENT_STATES,
    FINDABLE_STATES,
    IMPORTED,
    Draft,
    Memory,
    State,
)
from commonbrain.model.revision import Action, Revision, superseded
from commonbrain.model.scope import OnSecret, Role, Scope, is_visible, lowest
from commonbrain.model.timestamps import instant
from commonbrain.security.authority import is_authorized
from commonbrain.storage.change_log import record_related_change, record_update
from commonbrain.text.normalisation import normalise_line
from commonbrain.transfer.importer import SourceRelation

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_LINKS: Final = "links"
_REASONS: Final = "reasons"
_SUPERSESSIONS: Final = "supersessions"
_UNSTORED_ENDS: Final = "relations of memories that are not in the store"
_CHAIN_MAX: Final = 100
"""Revisions that are followed from one memory."""
_REFUSED: Final = "supersessions of memories that may not be changed"
CARRIED_RELATIONS: Final = frozenset({_LINKS, _REASONS, _SUPERSESSIONS})
"""Outcomes of relations that were carried over; the others were not."""


@dataclass(slots=True, kw_only=True)
class SourceMap:
    """The memories of a source, by `source_ref`; those of a dry run have no id."""

    format: str
    is_needed: bool
    """Whether the source has relations; otherwise it stays empty, however long the source is."""
    ids: dict[str, int | None] = field(default_factory=dict[str, int | None])

    def add(self, drafts: Sequence[Draft], outcomes: Sequence[ItemResult]) -> None:
        """Add drafts that are stored, or would be."""
        if not self.is_needed:
            return
        for draft, outcome in zip(drafts, outcomes, strict=True):
            if draft.source_ref is not None and not outcome.status.is_refused:
                id_ = None if outcome.id is None else ids.parse(ids.MEMORY, outcome.id)
                # Of a text in several parts, the first one represents it.
                self.ids.setdefault(draft.source_ref, id_)

    def preview(self, context: WriteContext, relations: Iterable[SourceRelation]) -> Counter[str]:
        """Count the relations whose ends are known."""
        counts: Counter[str] = Counter()
        for one in relations:
            if one.first not in self.ids or one.second not in self.ids:
                counts[_UNSTORED_ENDS] += 1
                continue
            counts[_LINKS if one.type else _SUPERSESSIONS] += 1
            counts[_REASONS] += _origin(context, one, format_=self.format).has_reason
        return +counts

    def relate(self, context: WriteContext, relations: Iterable[SourceRelation]) -> Counter[str]:
        """Apply relations, and count the outcomes of those that are new."""
        counts: Counter[str] = Counter()
        for one in relations:
            ends = self._ends(context, one)
            if ends is None:
                counts[_UNSTORED_ENDS] += 1
            elif ends[0].id != ends[1].id:
                origin = _origin(context, one, format_=self.format)
                outcome = (
                    _supersede(context, ends, origin=origin)
                    if one.type is None
                    else _link(context, ends, type_=one.type, strength=one.strength, origin=origin)
                )
                if outcome is not None:
                    counts[outcome] += 1
                    counts[_REASONS] += origin.has_reason and outcome != _REFUSED
        return +counts

    def _ends(
        self, context: WriteContext, relation: SourceRelation
    ) -> tuple[Memory, Memory] | None:
        first, second = self.ids.get(relation.first), self.ids.get(relation.second)
        if first is None or second is None:
            return None
        memories = context.tx.memories.get([first, second])
        ends = [memories[one] for one in (first, second) if one in memories]
        visible = [one for one in ends if one.state in FINDABLE_STATES and _is_open(context, one)]
        return (visible[0], visible[1]) if len(visible) == len(ends) == 2 else None  # noqa: PLR2004 a relation has two ends


def _is_open(context: WriteContext, memory: Memory) -> bool:
    """Return whether the caller sees a memory, or imported it for its author."""
    is_own = _imported(memory).get("importer") == context.caller.agent
    return is_own or is_visible(context.caller, memory)


def _imported(memory: Memory) -> Mapping[str, str]:
    return cast("Mapping[str, str]", memory.payload.get(IMPORTED, {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """What the audit says of a relation, and when it was made."""

    format: str
    reason: str
    has_reason: bool
    """Whether the source gives one."""
    at: datetime


def _origin(context: WriteContext, relation: SourceRelation, *, format_: str) -> _Origin:
    given = clean_source_text(context, relation.reason or "", what="reason")
    # Marks of what was inherited or detected begin a reason, so that no source can set them.
    reason = f"imported from {format_}" + (f": {given}" if given else "")
    return _Origin(
        format=format_,
        reason=reason[:REASON_CHARS_MAX],
        has_reason=bool(given),
        at=context.now if relation.at is None else min(instant(relation.at), context.now),
    )


def clean_source_text(context: WriteContext, text: str, *, what: str) -> str:
    """Return a line of a source without secrets; empty if it cannot be stored."""
    try:
        return context.services.secret_scanner.clean(
            normalise_line(text) or "", what=what, on_secret=OnSecret.REDACT
        )
    except (InvalidInputError, RejectedError):
        return ""


def last_change_of(tx: Transaction, link: Link) -> Revision | None:
    """Return the last change of the link with the same ends and type."""
    key = link.from_id, link.to_id, link.type
    last: Revision | None = None
    for change in tx.changes.of([link.from_id, link.to_id]):
        image = change.after.get("link") or change.before.get("link")
        if isinstance(image, Mapping):
            changed = link_of(cast("Mapping[str, Any]", image))
            is_same = (changed.from_id, changed.to_id, changed.type) == key
            last = change if is_same and (last is None or change.id > last.id) else last
    return last


def _link(
    context: WriteContext,
    ends: tuple[Memory, Memory],
    *,
    type_: LinkType,
    strength: float | None,
    origin: _Origin,
) -> str | None:
    """Link two memories; None if that was done before."""
    (first, second), tx = ends, context.tx
    link = Link(
        from_id=first.id,
        to_id=second.id,
        type=type_,
        strength=STRENGTH_DEFAULT if strength is None else min(max(strength, 0.0), 1.0),
        basis=origin.reason,
        agent=context.caller.agent,
        trust=min(first.trust, second.trust, key=lambda trust: trust.weight),
        authority=lowest([first.authority, context.caller.authority]),
        created_at=origin.at,
        observed_at=origin.at,
    )
    is_stored = find_link(tx, first.id, to_id=second.id, type_=type_) is not None
    if is_stored or last_change_of(tx, link) is not None:
        return None
    tx.links.put(link)
    change_context = context.change_context(Action.LINK, origin.reason)
    image = {"link": link_image(link)}
    record_related_change(tx, first, change_context=change_context, before={}, after=image)
    return _LINKS


def _supersede(
    context: WriteContext, ends: tuple[Memory, Memory], *, origin: _Origin
) -> str | None:
    """Retire the second memory; None if that was done before."""
    (new, old), tx = ends, context.tx
    was_superseded = old.superseded_by == new.id or any(
        change.after.get("superseded_by") == new.id for change in tx.changes.of([old.id])
    )
    if was_superseded:
        return None
    returns = new.state is State.SUPERSEDED and _leads_to(tx, new, id_=old.id)
    is_free = returns or (new.state in CURRENT_STATES and tx.memories.predecessor(new.id) is None)
    may_retire = _may_retire(context, old, new=new, format_=origin.format)
    if not (is_free and old.state in CURRENT_STATES and may_retire):
        return _REFUSED
    if returns:
        # The source has its earlier value again, in the same words: one memory, current once more.
        current = replace(
            new,
            state=State.ACTIVE,
            superseded_by=None,
            superseded_at=None,
            believed_since=origin.at,
        )
        change_context = context.change_context(Action.RESTORE, origin.reason)
        record_update(tx, new, after=current, change_context=change_context)
        new = current
    change_context = context.change_context(Action.SUPERSEDE, origin.reason)
    since = old.believed_since or old.recorded_at
    retired = superseded(old, by=new.id, at=max(origin.at, since))
    record_update(tx, old, after=retired, change_context=change_context)
    tx.memories.update(new, replace(new, superseded_count=old.superseded_count + 1))
    return _SUPERSESSIONS


def _leads_to(tx: Transaction, memory: Memory, *, id_: int) -> bool:
    """Return whether a memory was superseded by another, directly or through others."""
    following: Memory | None = memory
    for _ in range(_CHAIN_MAX):
        if following is None or following.superseded_by is None:
            return False
        if following.superseded_by == id_:
            return True
        following = tx.memories.get([following.superseded_by]).get(following.superseded_by)
    return False


def _may_retire(context: WriteContext, old: Memory, *, new: Memory, format_: str) -> bool:
    """Return whether an import may supersede a memory that has the text of its own.

    What others remembered in the same words yields only to what is newer.
    """
    is_own = _imported(old).get("format") == format_
    return (
        (is_own or old.occurred_at <= new.occurred_at)
        and is_authorized(context.caller, old)
        and (old.scope is not Scope.GLOBAL or context.caller.role is Role.ADMIN)
        and new.trust.weight >= old.trust.weight
        and (is_own or new.authority.covers(old.authority))
    )
