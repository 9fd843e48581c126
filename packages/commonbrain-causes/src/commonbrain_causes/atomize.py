"""Extract causes from stored memories into atoms that are derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.embeddings.interface import Extractor
from commonbrain.ingestion.batch import WriteOptions
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.ingestion.service import Remember
from commonbrain.model import ids as keys
from commonbrain.model.atoms import Atom
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    NotFoundError,
    RejectedError,
    UnavailableError,
)
from commonbrain.model.kinds import KINDS, Kind, kinds_where
from commonbrain.model.limits import ITEMS_PER_CALL_MAX
from commonbrain.model.memory import CURRENT_STATES, Draft, Memory, confidence_of
from commonbrain.model.query import Filter, KindFilter
from commonbrain.model.scope import Caller, Role, Scope, is_visible
from commonbrain.security.guard import note_shown
from commonbrain.services import Services
from commonbrain.storage.interface import QueryScope
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.quotations import without_quotations

if TYPE_CHECKING:
    from commonbrain.client import Brain
    from commonbrain.storage.job_queue import JobContext
    from commonbrain.storage.store import Transaction

_DOWN: Final = "extractor_down"
_DOWN_MAX: Final = 3
"""Consecutive failures after which the extractor is not asked again in this call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Atomized:
    """The memories read, and the outcomes of their atoms."""

    extractor: str
    read: int
    stored: int
    known: int
    """Atoms that existed already."""
    rejected: int
    """Atoms that were not stored, and memories that could not be read."""
    items: tuple[ItemResult, ...] = ()
    next: str | None = None
    """Where the next call continues; None at the end."""


@dataclass(slots=True, kw_only=True)
class _AtomizeProgress:
    """Progress of one call."""

    extractor: Extractor
    items: list[ItemResult] = field(default_factory=list[ItemResult])
    read: int = 0
    last: int | None = None
    error: CommonbrainError | None = None
    down: int = 0
    """Consecutive failures of the extractor."""


@dataclass(frozen=True, slots=True)
class Atomize:
    """Extracts atoms for one caller."""

    services: Services
    caller: Caller

    def __call__(
        self,
        ids: Sequence[str] | str = (),
        *,
        kinds: Sequence[Kind | str] = (),
        project: str | None = None,
        limit: int = ITEMS_PER_CALL_MAX,
        before: str | None = None,
    ) -> Atomized:
        """Extract causes from memories with the configured extractor; repeating it adds nothing.

        Atoms are derived from their source: no more trusted, no wider, with its project and time of
        occurrence. Each memory is processed in its own transaction.

        Args:
            ids: the memories; by default the newest that the caller may see.
            kinds: only these kinds.
            project: only this project and global memories.
            limit: at most this many, 1 to 100.
            before: continue with memories that occurred before this one, the `next` of the last
                call.

        Returns:
            The number of memories read and atoms stored, and the reasons for the others.

        Raises:
            NotFoundError: an id does not exist or is not visible; nothing was stored.
            RejectedError: the limit or the number of ids is out of range, or the caller may not
                write; nothing was stored.
            InvalidInputError: a kind is unknown or contains no causes.
            UnavailableError: `extractor_down` for every memory, nothing was stored; or the store
                cannot be written, and earlier atoms stay.

        """
        requested_ids = (ids,) if isinstance(ids, str) else tuple(ids)
        if not 1 <= limit <= ITEMS_PER_CALL_MAX or len(requested_ids) > ITEMS_PER_CALL_MAX:
            raise RejectedError(
                f"1 to {ITEMS_PER_CALL_MAX} memories per call are allowed.",
                code="limit_exceeded",
                hint="Call again for more: each answer says where to continue.",
            )
        readable = _readable_kinds(kinds)._asdict()
        criteria = Filter(**readable, project=normalise_line(project), trust_min=0.0)
        query_scope = QueryScope(caller=self.caller, filter=criteria, now=self.services.clock.now())
        with self.services.store.snapshot(self.caller.tenant) as tx:
            if requested_ids:
                sources, is_more = self._named(tx, requested_ids), False
            else:
                listed = self._listed(tx, query_scope, limit=limit + 1, before=before)
                known = tx.memories.get(listed[:limit])
                sources = [known[id_] for id_ in listed[:limit] if id_ in known]
                is_more = len(listed) > limit
        return self._read(sources, is_more=is_more)

    def _named(self, tx: Transaction, requested_ids: Sequence[str]) -> list[Memory]:
        parsed = [keys.parse(keys.MEMORY, id_) for id_ in requested_ids]
        known = tx.memories.get(parsed)
        for id_ in parsed:
            memory = known.get(id_)
            is_current = memory is not None and memory.state in CURRENT_STATES
            if memory is None or not is_current or not is_visible(self.caller, memory):
                raise NotFoundError(
                    f"There is no memory {keys.show(keys.MEMORY, id_)} to find causes in.",
                    hint="Check the id.",
                )
        return [known[id_] for id_ in dict.fromkeys(parsed)]

    def _listed(
        self, tx: Transaction, query_scope: QueryScope, *, limit: int, before: str | None
    ) -> Sequence[int]:
        """List the newest memories, or those that follow one of them."""
        if before is None:
            return [hit.id for hit in tx.memories.newest(query_scope, limit=limit)]
        id_ = keys.parse(keys.MEMORY, before)
        place = tx.memories.get([id_]).get(id_)
        if place is None or not is_visible(self.caller, place):
            raise NotFoundError(
                f"There is no memory {before} to continue before.", hint="Check the id."
            )
        end = place.occurred_at.timestamp(), place.id
        until = replace(query_scope, filter=replace(query_scope.filter, until=place.occurred_at))
        size = limit
        while True:
            hits = tx.memories.newest(until, limit=size)
            older = [hit.id for hit in hits if (hit.score, hit.id) < end]
            if len(older) >= limit or len(hits) < size:
                return older[:limit]
            # Many can have the same time of occurrence, as imported memories do.
            size *= 2

    def _read(self, sources: Sequence[Memory], *, is_more: bool) -> Atomized:
        done = _AtomizeProgress(extractor=self.services.extractor())
        for source in sources:
            if done.down < _DOWN_MAX:
                self._read_source(source, done)
        if done.error is not None and not done.read:
            raise done.error
        statuses = [item.status for item in done.items]
        is_more = is_more or done.down >= _DOWN_MAX
        return Atomized(
            extractor=done.extractor.name,
            read=done.read,
            stored=statuses.count(ItemStatus.STORED) + statuses.count(ItemStatus.QUARANTINED),
            known=statuses.count(ItemStatus.EXISTS),
            rejected=statuses.count(ItemStatus.REJECTED) + statuses.count(ItemStatus.DUPLICATE),
            items=tuple(done.items),
            next=keys.show(keys.MEMORY, done.last) if is_more and done.last is not None else None,
        )

    def _read_source(self, source: Memory, done: _AtomizeProgress) -> None:
        """Process one memory; a failure does not affect the others."""
        if KINDS[source.kind].not_atomized_because:
            done.items.append(_unsupported_source(source))
            return
        try:
            # A language model may take long, so no transaction is open meanwhile.
            own = without_quotations(source.body)
            drafts = [self._draft(atom, source) for atom in done.extractor.atoms(own)]
            done.items += self._write(drafts)
            # An atom says what its source says.
            note_shown([source.id] if drafts else ())
        except (InvalidInputError, NotFoundError, RejectedError, UnavailableError) as error:
            if isinstance(error, UnavailableError) and error.code != _DOWN:
                raise
            done.error = error
            done.items.append(_rejected_source(source, error))
            if error.code == _DOWN:
                done.down += 1
                return
        else:
            done.read += 1
        done.last, done.down = source.id, 0

    def _write(self, drafts: Sequence[Draft]) -> Iterable[ItemResult]:
        options = WriteOptions(checks_similarity=False)
        return Remember(self.services, self.caller).write(drafts, options).items if drafts else ()

    def _draft(self, atom: Atom, source: Memory) -> Draft:
        """Return the draft of an atom derived from its source, which limits trust and scope."""
        # Global memories were written by an admin; a reader may share them with the team.
        is_beyond = source.scope is Scope.GLOBAL and self.caller.role is not Role.ADMIN
        return Draft(
            body=atom.body,
            kind=Kind.ATOM,
            columns=atom.columns,
            confidence=min(
                source.confidence, confidence_of(atom, of=source.kind, trust=source.trust)
            ),
            project=source.project,
            scope=Scope.TEAM if is_beyond else source.scope,
            source_ref=source.source_ref,
            occurred_at=source.occurred_at,
            audience=source.audience,
            auto_captured=True,
            derived_from=(source.id,),
            source_message_id=source.id if source.kind is Kind.MESSAGE else None,
        )


def _readable_kinds(kinds: Sequence[Kind | str]) -> KindFilter:
    requested = KindFilter.parse(kinds)
    for kind in requested.touched:
        if reason := KINDS[kind].not_atomized_because:
            raise InvalidInputError(reason, hint="Leave the kind out.")
    if requested.touched:
        return requested
    return KindFilter(kinds_where(lambda policy: not policy.not_atomized_because), ())


def _unsupported_source(source: Memory) -> ItemResult:
    return ItemResult(
        status=ItemStatus.REJECTED,
        kind=source.kind,
        code="no_text",
        reason=f"{keys.show(keys.MEMORY, source.id)}: {KINDS[source.kind].not_atomized_because}",
    )


def _rejected_source(source: Memory, error: CommonbrainError) -> ItemResult:
    return ItemResult(
        status=ItemStatus.REJECTED,
        kind=source.kind,
        code=error.code,
        reason=f"{keys.show(keys.MEMORY, source.id)}: {error.message}",
        hint=error.hint,
    )


def atomizer_of(brain: Brain) -> Atomize:
    """Return what extracts causes from the stored memories of a caller.

    Example: `atomizer_of(brain)(kinds=["incident"]).stored`.
    """
    return Atomize(brain.services, brain.caller)


def run_job(task: JobContext) -> None:
    """Extract causes from memories, page by page from the newest."""
    counts = {name: cast("int", task.job.reached.get(name, 0)) for name in _COUNTS}
    before = cast("str | None", task.job.reached.get("before"))
    atomize = Atomize(task.services, task.caller)
    options: dict[str, Any] = {
        name: task.job.given[name] for name in ("kinds", "project") if name in task.job.given
    }
    with task.services.store.snapshot(task.caller.tenant) as tx:
        total = sum(tx.memories.counts().values())
    while task.is_live:
        task.pause()
        page = atomize(**options, before=before)
        counts["read"] += page.read
        # Already present if an earlier attempt stored it but did not record its progress.
        counts["atoms"] += page.stored + page.known
        counts["rejected"] += page.rejected
        before = page.next
        with task.step() as tx:
            if before is None:
                task.finish(tx, counts)
            else:
                share = counts["read"] / max(total, counts["read"], 1)
                task.save_progress(tx, share, reached={**counts, "before": before})


_COUNTS: Final = ("read", "atoms", "rejected")
"""The counters of a job."""
