"""Merge an archive of another store, so that both stores end alike in either order.

A new memory is added under its own id. Of a known one the later state wins: the one with the later
last change. Links, annotations, changes, receipts and acknowledgements are united.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commonbrain.embeddings.interface import Vectors
from commonbrain.ingestion.embedding import vectors_for
from commonbrain.ingestion.pending_acks import check_pending_acks
from commonbrain.invalidation.propagation import continue_propagation
from commonbrain.model.errors import UnavailableError
from commonbrain.model.kinds import Detail, MessageDetail
from commonbrain.model.limits import IMPORT_BATCH
from commonbrain.model.links import Link, link_image
from commonbrain.model.memory import FINDABLE_STATES, Memory, State, Thread, is_erased
from commonbrain.model.messages import Receipt
from commonbrain.model.revision import Revision
from commonbrain.model.scope import Caller
from commonbrain.model.support import Review
from commonbrain.model.tasks import TaskDecision
from commonbrain.security.guard import UNCOUNTED_STATES
from commonbrain.services import Services
from commonbrain.storage.change_log import follow_changes, touch_linked
from commonbrain.storage.interface import Annotation, AuditEntry, IdTaken
from commonbrain.storage.job_queue import enqueue_embedding
from commonbrain.transfer.archive import ArchivedRecord, ArchiveLine, Record, read_archive
from commonbrain.transfer.export import check_may_move
from commonbrain.transfer.importer import Unreadable, check_is_path
from commonbrain.transfer.imports import (
    FROM_START,
    ImportReport,
    Refusal,
    ResumeOptions,
    check_ended,
)
from commonbrain.transfer.relations import last_change_of, same_link

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


def exists_in_store(tx: Transaction, record: Record) -> bool:
    """Return whether a record exists, in any state."""
    match record:
        case ArchivedRecord(memory=memory):
            return bool(tx.memories.get([memory.id]))
        case Thread(id=id_):
            return any(thread.id == id_ for thread in tx.threads.page(after=id_ - 1, limit=1))
        case _:
            return _is_related_known(tx, record)


def _is_related_known(
    tx: Transaction, record: Link | Annotation | Receipt | Revision | Review | TaskDecision
) -> bool:
    match record:
        case Annotation(memory_id=memory_id, id=id_):
            return any(note.id == id_ for note in tx.annotations.of([memory_id]).get(memory_id, ()))
        case Receipt(message_id=message_id, agent=agent):
            delivered = tx.messages.of([message_id]).get(message_id, ())
            return any(one.agent == agent for one in delivered)
        case Link() | TaskDecision():
            there = same_link(tx, record) if isinstance(record, Link) else same_ack(tx, record)
            return there is not None or (isinstance(record, Link) and was_dropped(tx, record))
        case Revision(memory_id=memory_id, id=id_):
            return any(change.id == id_ for change in tx.changes.of([memory_id]))
        case Review(memory_id=memory_id):
            return record in tx.reviews.of([memory_id]).get(memory_id, ())


def same_ack(tx: Transaction, ack: TaskDecision) -> TaskDecision | None:
    """Return the acknowledgement by the same session."""
    there = tx.acks.of([ack.memory_id]).get(ack.memory_id, ())
    return next((one for one in there if one.whose == ack.whose), None)


def was_dropped(tx: Transaction, link: Link) -> bool:
    """Return whether the last change of a link here removed it, after it was observed."""
    last = last_change_of(tx, link)
    return last is not None and "link" not in last.after and last.at >= link.observed_at


OWN_FORMAT: Final = "commonbrain"
"""The name of the archive format in lists of formats."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Merges an archive for one caller."""

    services: Services
    caller: Caller

    def __call__(
        self,
        source: str | Path,
        *,
        dry_run: bool = False,
        on_progress: Callable[[ImportReport], None] = lambda _: None,
        resume: ResumeOptions = FROM_START,
    ) -> ImportReport:
        """Merge a file that `export` wrote; repeating it changes nothing.

        Args:
            source: the file.
            dry_run: return what would be new; change nothing.
            on_progress: called after every batch of at most 64 lines.
            resume: where an earlier merge stopped.

        Returns:
            The number of lines read, and the outcome of each.

        Raises:
            RejectedError: `insufficient_role`, the caller is not an admin; or
                `action_items_pending`, in a project of the file.
            InvalidInputError: the file has another format, was truncated, or has more lines than
                allowed: earlier lines are merged.
            UnavailableError: the store failed; repeating the call continues.

        """
        check_may_move(self.caller)
        check_is_path(source)
        report = resume.since or ImportReport(format=OWN_FORMAT, source=str(source))
        lines = read_archive(Path(source))
        merge_state = self._known(islice(lines, report.read), is_begun=report.read > 0)
        if not (dry_run or merge_state.is_begun):
            merge_state.projects = self._projects(Path(source))
        left = None if resume.pieces_max is None else max(resume.pieces_max - report.read, 0)
        bounded = islice(lines, left)
        while batch := list(islice(bounded, IMPORT_BATCH)):
            with resume.batch_context():
                report = self._batch(
                    batch, merge_state, report=report, dry_run=dry_run, on_commit=resume.on_commit
                )
            on_progress(report)
        if not dry_run:
            self._chain(merge_state.successors)
            continue_propagation(self.services, self.caller)
        check_ended(lines, report, pieces_max=resume.pieces_max)
        return replace(report, progress=1.0)

    def _projects(self, source: Path) -> frozenset[str | None]:
        """Return the projects of an archive, which is read for this if action items are pending."""
        now = self.services.clock.now()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            if not tx.acks.pending(self.caller, projects=None, now=now):
                return frozenset()
        return frozenset(
            line.content.memory.project
            for line in read_archive(source)
            if isinstance(line.content, ArchivedRecord)
        )

    def _known(self, lines: Iterable[ArchiveLine], *, is_begun: bool) -> _MergeState:
        """Collect what later lines need from lines that were merged before."""
        merge_state = _MergeState(is_begun=is_begun)
        if not is_begun:
            return merge_state
        with self.services.store.begin(self.caller.tenant) as tx:
            for line in lines:
                match line.content:
                    case Thread() as thread:
                        merge_state.threads[thread.id] = tx.threads.merge(thread)
                    case ArchivedRecord(memory=Memory(state=State.SUPERSEDED) as memory):
                        here = tx.memories.get([memory.id]).get(memory.id)
                        if here is not None and here.superseded_by is None:
                            merge_state.follow(memory)
                    case _:
                        pass
        return merge_state

    def _batch(
        self,
        batch: Sequence[ArchiveLine],
        merge_state: _MergeState,
        *,
        report: ImportReport,
        dry_run: bool,
        on_commit: Callable[[Transaction, ImportReport], None],
    ) -> ImportReport:
        embedded = self._embed([] if dry_run else batch)
        vectors = embedded or {}
        outcomes: list[str] = []
        refusals = list(report.refusals)
        opened = self.services.store.snapshot if dry_run else self.services.store.begin
        with opened(self.caller.tenant) as tx:
            if not (dry_run or merge_state.is_begun):
                # Action items in the file bind others, but not the rest of the file.
                projects, now = merge_state.projects, self.services.clock.now()
                check_pending_acks(tx, self.caller, projects=projects, now=now)
                merge_state.is_begun = True
            for line in batch:
                match line.content:
                    case Unreadable(where=where, reason=reason):
                        refusals.append(Refusal(where=where, reason=reason))
                        outcomes.append("unreadable")
                    case record if dry_run:
                        outcomes.append("exists" if exists_in_store(tx, record) else "stored")
                    case record:
                        try:
                            outcomes.append(
                                self._take(tx, record, merge_state=merge_state, vectors=vectors)
                            )
                        except IdTaken:
                            refusals.append(_not_free(line))
                            outcomes.append("rejected")
            if not dry_run and (embedded is None or self.services.store.moved_to):
                enqueue_embedding(tx, self.services, caller=self.caller)
            done = report.counting(outcomes, refusals=refusals, progress=batch[-1].progress)
            on_commit(tx, done)
        return done

    def _embed(self, batch: Sequence[ArchiveLine]) -> Mapping[int, Vectors] | None:
        """Embed new searchable memories; None if the embedder is unavailable."""
        offered = [
            line.content.memory for line in batch if isinstance(line.content, ArchivedRecord)
        ]
        with self.services.store.snapshot(self.caller.tenant) as tx:
            known = tx.memories.get([memory.id for memory in offered])
        to_embed = [one for one in offered if _becomes_findable(one, known.get(one.id))]
        try:
            return vectors_for(to_embed, self.services.embedder)
        except UnavailableError:
            return None

    def _take(
        self,
        tx: Transaction,
        record: Record,
        *,
        merge_state: _MergeState,
        vectors: Mapping[int, Vectors],
    ) -> str:
        """Merge one record; return whether it is new, known, or a later state of a known one."""
        match record:
            case Thread():
                is_new = not exists_in_store(tx, record)
                merge_state.threads[record.id] = tx.threads.merge(record)
            case ArchivedRecord():
                return self._take_memory(tx, record, merge_state=merge_state, vectors=vectors)
            case Link():
                taken_in = _take_link(tx, record)
                touch_linked(tx, link_image(record), at=self.services.clock.now())
                return taken_in
            case Annotation():
                memory = tx.memories.get([record.memory_id]).get(record.memory_id)
                is_present = memory is not None and not is_erased(memory)
                is_new = is_present and tx.annotations.merge(record)
            case Revision():
                is_new = _take_change(tx, record)
            case Review():
                return _take_review(tx, record)
            case Receipt():
                memory = tx.memories.get([record.message_id]).get(record.message_id)
                is_new = memory is not None and not is_erased(memory) and tx.messages.merge(record)
            case TaskDecision():
                is_new = _take_ack(tx, record)
        return "stored" if is_new else "exists"

    def _take_memory(
        self,
        tx: Transaction,
        record: ArchivedRecord,
        *,
        merge_state: _MergeState,
        vectors: Mapping[int, Vectors],
    ) -> str:
        offered = _localized(tx, record.memory, threads=merge_state.threads)
        known = tx.memories.get([offered.id]).get(offered.id)
        own = vectors.get(offered.id)
        if known is None:
            if offered.state not in UNCOUNTED_STATES and self.services.guard is not None:
                self.services.guard.reserve(self.caller, tx)
            tx.memories.add(offered)
            if offered.state in FINDABLE_STATES:
                tx.index.put(offered, own)
            self._record(tx, offered)
            tx.reviews.touch([offered.id], at=self.services.clock.now())
            merge_state.follow(record.memory)
            return "stored"
        accessed = _accessed(known, other=offered)
        if is_erased(known) or record.changed <= tx.changes.latest([known.id]).get(known.id, 0):
            tx.memories.update(known, accessed)
            return "exists"
        if is_erased(offered):
            tx.scrub(known.id)
        else:
            _move(tx, known, to=_accessed(offered, other=known), vectors=own)
        self._record(tx, offered)
        tx.reviews.touch([offered.id], at=self.services.clock.now())
        merge_state.follow(record.memory)
        return "changed"

    def _record(self, tx: Transaction, memory: Memory) -> None:
        now = self.services.clock.now()
        entry = AuditEntry(
            action="import",
            memory_id=memory.id,
            agent=self.caller.agent,
            session=self.caller.session,
            reason=None,
            content=memory.text,
            at=now,
            request_id=self.caller.request_id,
        )
        tx.records.audit(entry)
        tx.records.publish("memory.imported", memory.id, at=now)

    def _chain(self, successors: Sequence[Memory]) -> None:
        """Link superseded memories to their successors, now that all of them exist."""
        rest = iter(successors)
        while batch := list(islice(rest, IMPORT_BATCH)):
            with self.services.store.begin(self.caller.tenant) as tx:
                for old in batch:
                    _link_successor(tx, old)


def _not_free(line: ArchiveLine) -> Refusal:
    """Reject a record whose id is taken, but not by this tenant."""
    return Refusal(
        where=f"{line.progress:.1%} into the file",
        reason="Its id is taken in this store; remember it again.",
    )


@dataclass(slots=True)
class _MergeState:
    """What later lines need from earlier ones."""

    is_begun: bool = False
    """Whether anything was merged."""
    projects: frozenset[str | None] = frozenset()
    """Those of the file, as far as action items may bind there."""
    threads: dict[int, int] = field(default_factory=dict[int, int])
    """Ids in this store of the file's threads."""
    successors: list[Memory] = field(default_factory=list[Memory])
    """Superseded memories, whose successors may come later in the file."""

    def follow(self, memory: Memory) -> None:
        if memory.superseded_by is not None:
            self.successors.append(replace(memory, body=""))


def _take_ack(tx: Transaction, ack: TaskDecision) -> bool:
    """Store an acknowledgement, unless the same session gave a later one here."""
    item = tx.memories.get([ack.memory_id]).get(ack.memory_id)
    known = same_ack(tx, ack)
    if item is None or is_erased(item) or (known is not None and known.at >= ack.at):
        return False
    tx.acks.put(ack)
    return True


def _becomes_findable(offered: Memory, known: Memory | None) -> bool:
    was_findable = known is not None and known.state in FINDABLE_STATES
    return offered.state in FINDABLE_STATES and not was_findable


def _localized(tx: Transaction, memory: Memory, *, threads: Mapping[int, int]) -> Memory:
    """Return a memory ready to add: without a successor yet, with ids of this store."""
    source = memory.source_message_id
    is_sourced = source is not None and bool(tx.memories.get([source]))
    return replace(
        memory,
        superseded_by=None,
        superseded_at=None,
        source_message_id=source if is_sourced else None,
        detail=_localized_detail(tx, memory.detail, threads=threads),
    )


def _localized_detail(tx: Transaction, detail: Detail, *, threads: Mapping[int, int]) -> Detail:
    if not isinstance(detail, MessageDetail):
        return detail
    parent = detail.parent_id
    is_answer = parent is not None and bool(tx.memories.get([parent]))
    thread_id = None if detail.thread_id is None else threads.get(detail.thread_id)
    return replace(detail, thread_id=thread_id, parent_id=parent if is_answer else None)


def _accessed(memory: Memory, *, other: Memory) -> Memory:
    """Return a memory with the accesses of the copy that was read more, and later."""
    times = [one.last_access_at for one in (memory, other) if one.last_access_at is not None]
    return replace(
        memory,
        access_count=max(memory.access_count, other.access_count),
        last_access_at=max(times, default=None),
    )


def _move(tx: Transaction, known: Memory, *, to: Memory, vectors: Vectors | None) -> None:
    """Update a known memory to its state in the archive; the text is the same."""
    after = replace(to, headline=known.headline, body=known.body)
    tx.memories.update(known, after)
    follow_changes(tx, known, after=after, vectors=vectors)


def _link_successor(tx: Transaction, old: Memory) -> None:
    here = tx.memories.get([old.id, old.superseded_by or 0])
    known = here.get(old.id)
    if known is None or old.superseded_by not in here:
        return
    if tx.memories.predecessor(old.superseded_by) in {None, old.id}:
        after = replace(known, superseded_by=old.superseded_by, superseded_at=old.superseded_at)
        tx.memories.update(known, after)


def _take_review(tx: Transaction, review: Review) -> str:
    """Merge a confirmation; everything else follows from states and links."""
    ends = tx.memories.get([review.memory_id, review.cause_id])
    if {review.memory_id, review.cause_id} > ends.keys():
        return "rejected"
    there = tx.reviews.of([review.memory_id]).get(review.memory_id, ())
    known = next((one for one in there if one.cause_id == review.cause_id), None)
    is_worse = known is not None and _review_order(review) >= _review_order(known)
    if is_worse or is_erased(ends[review.memory_id]):
        return "exists"
    tx.reviews.put([review])
    tx.reviews.touch([review.memory_id], at=review.at)
    return "changed" if known else "stored"


def _review_order(review: Review) -> tuple[bool, datetime]:
    """Sort key for two copies of a review: confirmed first, then older."""
    return review.is_open, review.settled_at or review.at


def _take_change(tx: Transaction, change: Revision) -> bool:
    """Merge a change; without text if the memory is erased here."""
    changed = tx.memories.get([change.memory_id]).get(change.memory_id)
    if changed is None:
        return False
    if is_erased(changed):
        change = replace(change, before={}, after={}, reason=None)
    return tx.changes.merge(change)


def _take_link(tx: Transaction, link: Link) -> str:
    """Merge a link: of two observations the more frequent wins, then the later."""
    ends = tx.memories.get([link.from_id, link.to_id]).values()
    if len(ends) < len((link.from_id, link.to_id)):
        return "rejected"
    if any(is_erased(one) for one in ends):
        return "exists"
    known = same_link(tx, link)
    if known is None and was_dropped(tx, link):
        return "exists"
    if known is None:
        tx.links.replace(link)
        return "stored"
    order = (known.observations, known.observed_at, known.strength)
    if (link.observations, link.observed_at, link.strength) > order:
        tx.links.replace(link)
        return "changed"
    return "exists"
