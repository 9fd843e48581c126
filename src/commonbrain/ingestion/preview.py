"""Outcomes that drafts would have, without storing them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from commonbrain.ingestion.deduplication import find_exact
from commonbrain.ingestion.result import ItemResult, ItemStatus, exists, rejected
from commonbrain.ingestion.validation import Rejection
from commonbrain.model.kinds import KINDS, DuplicateScope
from commonbrain.model.scope import Scope
from commonbrain.model.timestamps import instant
from commonbrain.text.normalisation import is_same_text

if TYPE_CHECKING:
    from commonbrain.ingestion.batch import WriteOptions
    from commonbrain.ingestion.preparation import PreparedDraft
    from commonbrain.storage.interface import QueryScope
    from commonbrain.storage.store import Transaction


class _DuplicateFields(NamedTuple):
    """What else of two drafts with one hash decides whether they are one memory."""

    text: str
    scope: Scope
    project: str | None
    occurred_at: datetime | None


@dataclass(slots=True)
class PreviewedDrafts:
    """Drafts that would be stored, so that a later draft with the same text counts as known."""

    places: dict[tuple[str, str | None], tuple[_DuplicateFields, ...]] = field(
        default_factory=dict[tuple[str, "str | None"], tuple[_DuplicateFields, ...]]
    )
    """By the hash of the text, and the source where texts alone need not mean the same."""

    def has(self, prepared: PreparedDraft, *, now: datetime) -> bool:
        """Return whether an earlier draft is the same memory; otherwise note this one."""
        kind, draft = KINDS[prepared.admitted.kind], prepared.draft
        source = None if kind.identity is DuplicateScope.TEXT else draft.source_ref
        if source is None and kind.identity is DuplicateScope.NAMED_SOURCE:
            return False
        is_over = draft.expires_at is not None and draft.expires_at <= now
        if is_over:
            # What has expired is known only to an import of its source.
            source = draft.source_ref
        key = (prepared.semantic_hash, source)
        at = draft.occurred_at if kind.is_distinct_by_time else None
        place = _DuplicateFields(
            prepared.text, prepared.scope, prepared.project, instant(at) if at else None
        )
        known = self.places.get(key, ())
        if any(_is_same(one, place) for one in known):
            return True
        self.places[key] = (*known, place)
        return False


def _is_same(known: _DuplicateFields, new: _DuplicateFields) -> bool:
    is_shared = known.scope is not Scope.PRIVATE or new.scope is Scope.PRIVATE
    is_then = new.occurred_at in {None, known.occurred_at}
    is_there = known.project in {None, new.project}
    return is_shared and is_then and is_there and is_same_text(known.text, new.text)


def preview_one(
    tx: Transaction,
    one: PreparedDraft | Rejection,
    *,
    query_scope: QueryScope,
    options: WriteOptions,
    previewed: PreviewedDrafts,
) -> ItemResult:
    """Return the outcome of a draft, as far as exact comparison can tell."""
    if isinstance(one, Rejection):
        return rejected(one)
    known = find_exact(tx, one, query_scope=query_scope, options=options)
    if known is not None:
        return exists(known)
    status = ItemStatus.EXISTS if previewed.has(one, now=query_scope.now) else ItemStatus.STORED
    return ItemResult(status=status, kind=one.admitted.kind, warnings=one.warnings)
