"""What a source keeps with its memories: links, what superseded what, notes and receipts.

Each is applied once. Importing the source again does not bring back a link that was removed or a
replacement that was undone since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.history.metadata import find_link
from commonbrain.ingestion.batch import WriteContext
from commonbrain.ingestion.result import REPEATED, ItemResult, ItemStatus
from commonbrain.model import ids
from commonbrain.model.limits import REASON_CHARS_MAX
from commonbrain.model.links import STRENGTH_DEFAULT, Link, LinkType, link_image, link_of
from commonbrain.model.memory import (
    CURRENT_STATES,
    FINDABLE_STATES,
    Draft,
    Memory,
    State,
)
from commonbrain.model.revision import Action, Revision, superseded
from commonbrain.model.scope import Role, Scope, is_visible, lowest
from commonbrain.security.authority import is_authorized
from commonbrain.storage.change_log import record_related_change, record_update
from commonbrain.text.normalisation import normalise_line
from commonbrain.transfer.importer import (
    SourceAnnotation,
    SourceReceipt,
    SourceRelation,
    SourceThread,
)
from commonbrain.transfer.source_records import (
    ANNOTATIONS,
    RECEIPTS,
    THREADS,
    UNSTORED,
    annotate,
    imported_from,
    is_importer,
    may_import,
    put_receipt,
    read_source_text,
    set_thread,
    source_time,
    tags_beyond,
)

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_LINKS: Final = "links"
_REASONS: Final = "reasons"
_SUPERSESSIONS: Final = "supersessions"
_UNSTORED_ENDS: Final = "relations of memories that are not in the store"
_KNOWN_WORDS: Final = "ids of rows whose text was stored before: recall finds it"
_CHAIN_MAX: Final = 100
"""Revisions that are followed from one memory."""
_REFUSED: Final = "supersessions of memories that may not be changed"
CARRIED_RECORDS: Final = frozenset(
    {_LINKS, _REASONS, _SUPERSESSIONS, ANNOTATIONS, RECEIPTS, THREADS}
)
"""Outcomes of records that were carried over; the others were not."""
SourceRecord = SourceRelation | SourceAnnotation | SourceReceipt | SourceThread
"""What a source keeps with its memories."""


@dataclass(slots=True, kw_only=True)
class SourceMap:
    """The memories of a source, by `source_ref`; those of a dry run have no id."""

    format: str
    is_needed: bool
    """Whether the source has records; otherwise it stays empty, however long the source is."""
    writes: bool = True
    """Whether records are stored, not only counted as in a dry run."""
    ids: dict[str, int | None] = field(default_factory=dict[str, int | None])
    threads: set[str] = field(default_factory=set[str])
    """The keys of its threads."""

    def add(self, drafts: Sequence[Draft], outcomes: Sequence[ItemResult]) -> None:
        """Add drafts that are stored, or would be."""
        if not self.is_needed:
            return
        for draft, outcome in zip(drafts, outcomes, strict=True):
            if draft.thread is not None and not outcome.status.is_refused:
                self.threads.add(draft.thread.key)
            if draft.source_ref is not None and not outcome.status.is_refused:
                id_ = None if outcome.id is None else ids.parse(ids.MEMORY, outcome.id)
                # Of a text in several parts, the first one represents it.
                self.ids.setdefault(draft.source_ref, id_)

    def apply(self, context: WriteContext, records: Iterable[SourceRecord]) -> Counter[str]:
        """Apply records, and count the outcomes of those that are new.

        In a dry run, only count them; those of memories that it would store are new.
        """
        return Counter(name for one in records for name in self._applied(context, one))

    def _applied(self, context: WriteContext, record: SourceRecord) -> Iterator[str]:
        match record:
            case SourceThread():
                outcome = UNSTORED
                if record.key in self.threads:
                    outcome = set_thread(context, record, writes=self.writes)
                yield from _with_more(outcome, tags_beyond(context, record).elements())
            case SourceAnnotation(about=ref) | SourceReceipt(message=ref):
                memories = self._fetched(context, ref)
                outcome, *more = (UNSTORED,) if memories is None else may_import(context, record)
                if memories and outcome in CARRIED_RECORDS:
                    outcome = _noted(context, *memories, record=record, writes=self.writes)
                yield from _with_more(outcome, more)
            case SourceRelation():
                ends = self._fetched(context, record.first, record.second)
                origin = _origin(context, record, format_=self.format)
                outcome = _UNSTORED_ENDS
                if ends is not None:
                    outcome = self._relate(context, ends, origin=origin)
                yield from _with_more(outcome, origin.outcomes)

    def _relate(
        self, context: WriteContext, ends: tuple[Memory, ...], *, origin: _Origin
    ) -> str | None:
        if not ends:
            return _LINKS if origin.relation.type else _SUPERSESSIONS
        first, second = ends
        relate = _link if origin.relation.type else _supersede
        if first.id == second.id:
            return None
        return relate(context, (first, second), origin=origin, writes=self.writes)

    def _fetched(self, context: WriteContext, *refs: str) -> tuple[Memory, ...] | None:
        """Return memories of the source that the caller may add to; None if one is not stored.

        None of them are returned where a dry run would store one.
        """
        if not self.ids.keys() >= set(refs):
            return None
        known = [id_ for id_ in map(self.ids.get, refs) if id_ is not None]
        if len(known) < len(refs):
            return ()
        stored = context.tx.memories.get(known)
        memories = tuple(stored[id_] for id_ in known if id_ in stored)
        is_whole = len(memories) == len(refs) and all(_is_open(context, one) for one in memories)
        return memories if is_whole else None


def _with_more(outcome: str | None, more: Iterable[str]) -> Iterator[str]:
    """Yield an outcome, and what else is counted of a record that was carried over."""
    if outcome is not None:
        yield outcome
    if outcome in CARRIED_RECORDS:
        yield from more


def _noted(
    context: WriteContext,
    memory: Memory,
    *,
    record: SourceAnnotation | SourceReceipt,
    writes: bool,
) -> str | None:
    if isinstance(record, SourceAnnotation):
        return annotate(context, memory, given=record, writes=writes)
    return put_receipt(context, memory, given=record, writes=writes)


def unresolved_refs(
    tx: Transaction, drafts: Sequence[Draft], *, outcomes: Sequence[ItemResult]
) -> Counter[str]:
    """Count the drafts whose words are stored already with another `source_ref`, or none."""
    known = [
        (draft.source_ref, None if outcome.id is None else ids.parse(ids.MEMORY, outcome.id))
        for draft, outcome in zip(drafts, outcomes, strict=True)
        if outcome.status is ItemStatus.EXISTS and draft.source_ref is not None
        if outcome.code != REPEATED
    ]
    stored = tx.memories.get([id_ for _, id_ in known if id_ is not None])
    # Without an id, it is the repetition of another row's text in a dry run.
    refs = {None: None} | {id_: one.source_ref for id_, one in stored.items()}
    return Counter(_KNOWN_WORDS for ref, id_ in known if refs.get(id_) != ref)


def _is_open(context: WriteContext, memory: Memory) -> bool:
    """Return whether the caller may add to a memory: it sees it, or imported it for its author."""
    is_seen = is_visible(context.caller, memory) or is_importer(context, memory)
    return is_seen and memory.state in FINDABLE_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """What the audit says of a relation, and when it was made."""

    relation: SourceRelation
    format: str
    reason: str
    outcomes: tuple[str, ...]
    """Under what names the reason is counted, if the source gives one."""
    at: datetime


def _origin(context: WriteContext, relation: SourceRelation, *, format_: str) -> _Origin:
    # Marks of what was inherited or detected begin a reason, so that no source can set them.
    origin = f"imported from {format_}"
    reason = read_source_text(
        context,
        normalise_line(relation.reason) or "",
        what="reason",
        chars_max=REASON_CHARS_MAX,
        prefix=f"{origin}: ",
    )
    return _Origin(
        relation=relation,
        format=format_,
        reason=reason.text or origin,
        outcomes=(_REASONS, *reason.losses) if reason.text else (),
        at=source_time(context, relation.at),
    )


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
    context: WriteContext, ends: tuple[Memory, Memory], *, origin: _Origin, writes: bool
) -> str | None:
    """Link two memories; None if that was done before."""
    (first, second), tx, strength = ends, context.tx, origin.relation.strength
    type_ = origin.relation.type or LinkType.RELATES_TO
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
    if not writes:
        return _LINKS
    tx.links.put(link)
    change_context = context.change_context(Action.LINK, origin.reason)
    image = {"link": link_image(link)}
    record_related_change(tx, first, change_context=change_context, before={}, after=image)
    return _LINKS


def _supersede(
    context: WriteContext, ends: tuple[Memory, Memory], *, origin: _Origin, writes: bool
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
    if not writes:
        return _SUPERSESSIONS
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
    is_own = imported_from(old).get("format") == format_
    return (
        (is_own or old.occurred_at <= new.occurred_at)
        and is_authorized(context.caller, old)
        and (old.scope is not Scope.GLOBAL or context.caller.role is Role.ADMIN)
        and new.trust.weight >= old.trust.weight
        and (is_own or new.authority.covers(old.authority))
    )
