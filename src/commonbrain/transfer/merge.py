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
from commonbrain.history.metadata import find_link
from commonbrain.ingestion.batch import WriteContext
from commonbrain.ingestion.embedding import vectors_for
from commonbrain.ingestion.pending_acks import check_pending_acks
from commonbrain.invalidation.propagation import continue_propagation
from commonbrain.model.errors import UnavailableError
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.limits import IMPORT_BATCH
from commonbrain.model.links import Link, link_image
from commonbrain.model.memory import FINDABLE_STATES, Memory, State, is_erased
from commonbrain.model.messages import Receipt, Thread
from commonbrain.model.revision import Revision
from commonbrain.model.scope import lowest
from commonbrain.model.support import Review
from commonbrain.model.tasks import TaskDecision
from commonbrain.security.authority import check_is_person
from commonbrain.security.guard import UNCOUNTED_STATES
from commonbrain.services import Capability
from commonbrain.storage.change_log import follow_changes, touch_linked
from commonbrain.storage.interface import Annotation, AuditEntry, IdTaken
from commonbrain.storage.job_queue import enqueue_embedding
from commonbrain.transfer.archive import (
    ArchivedRecord,
    ArchiveLine,
    Record,
    check_may_move,
    read_archive,
)
from commonbrain.transfer.importer import Unreadable, check_is_path
from commonbrain.transfer.imports import (
    FROM_START,
    ImportReport,
    Refusal,
    ResumeOptions,
    check_ended,
)
from commonbrain.transfer.relations import last_change_of

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


def _find(tx: Transaction, record: Record) -> Record | Memory | None:  # noqa: PLR0911 one for each
    """Return what is stored in the place of a record, in any state."""
    match record:
        case ArchivedRecord(memory=memory):
            return tx.memories.get([memory.id]).get(memory.id)
        case Thread(id=id_):
            page = tx.threads.page(after=id_ - 1, limit=1)
            return next((thread for thread in page if thread.id == id_), None)
        case Link():
            return find_link(tx, record.from_id, to_id=record.to_id, type_=record.type)
        case Annotation(memory_id=owner):
            notes = tx.annotations.of([owner]).get(owner, ())
            return next((note for note in notes if note.id == record.id), None)
        case Receipt(message_id=owner):
            receipts = tx.messages.of([owner]).get(owner, ())
            return next((known for known in receipts if known.agent == record.agent), None)
        case Revision(memory_id=owner):
            return next((known for known in tx.changes.of([owner]) if known.id == record.id), None)
        case Review(memory_id=owner):
            reviews = tx.reviews.of([owner]).get(owner, ())
            return next((known for known in reviews if known.cause_id == record.cause_id), None)
        case TaskDecision(memory_id=owner):
            acks = tx.acks.of([owner]).get(owner, ())
            return next((known for known in acks if known.whose == record.whose), None)


def _preview(tx: Transaction, record: Record) -> str:
    """Return whether a record is known, whatever the records before it would change."""
    known = _find(tx, record)
    match record:
        case Review():
            is_known = known == record
        case Link():
            is_known = known is not None or _was_dropped(tx, record)
        case _:
            is_known = known is not None
    return "exists" if is_known else "stored"


def _was_dropped(tx: Transaction, link: Link) -> bool:
    """Return whether the last change of a link here removed it, after it was observed."""
    last = last_change_of(tx, link)
    return last is not None and "link" not in last.after and last.at >= link.observed_at


OWN_FORMAT: Final = "commonbrain"
"""The name of the archive format in lists of formats."""


class Merge(Capability):
    """Merges an archive for one caller."""

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
            RejectedError: `insufficient_role`, the caller is not an admin; `person_required`; or
                `action_items_pending`, in a project of the file.
            InvalidInputError: the file has another format, was truncated, or has more lines than
                allowed: earlier lines are merged.
            UnavailableError: the store failed; repeating the call continues.

        """
        check_may_move(self.caller)
        if not dry_run:
            check_is_person(self.caller, "Merging an export, which may end what people wrote,")
        check_is_path(source)
        report = resume.since or ImportReport(format=OWN_FORMAT, source=str(source))
        lines = read_archive(Path(source))
        merge_state = self._known(islice(lines, report.read), is_begun=report.read > 0)
        if not (dry_run or merge_state.is_begun):
            merge_state.projects = self._projects(Path(source))
        most = resume.limits.pieces_max
        left = None if most is None else max(most - report.read, 0)
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
        check_ended(lines, report, pieces_max=most)
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
        outcomes: list[str] = []
        refusals = list(report.refusals)
        opened = self.services.store.snapshot if dry_run else self.services.store.begin
        with opened(self.caller.tenant) as tx:
            context = WriteContext(
                tx=tx, services=self.services, caller=self.caller, now=self.services.clock.now()
            )
            if not (dry_run or merge_state.is_begun):
                # Action items in the file bind others, but not the rest of the file.
                check_pending_acks(context, merge_state.projects)
                merge_state.is_begun = True
            writer = _RecordWriter(context, merge_state, embedded or {})
            for line in batch:
                match line.content:
                    case Unreadable(where=where, reason=reason):
                        refusals.append(Refusal(where=where, reason=reason))
                        outcomes.append("unreadable")
                    case record if dry_run:
                        outcomes.append(_preview(tx, record))
                    case record:
                        try:
                            outcomes.append(writer.take(record))
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
        findable = {id_ for id_, memory in known.items() if memory.state in FINDABLE_STATES}
        to_embed = [
            memory
            for memory in offered
            if memory.state in FINDABLE_STATES and memory.id not in findable
        ]
        try:
            return vectors_for(to_embed, self.services.embedder)
        except UnavailableError:
            return None

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


def _accessed(memory: Memory, *, other: Memory) -> Memory:
    """Return a memory with the accesses of the copy that was read more, and later."""
    times = [one.last_access_at for one in (memory, other) if one.last_access_at is not None]
    return replace(
        memory,
        access_count=max(memory.access_count, other.access_count),
        last_access_at=max(times, default=None),
    )


def _link_successor(tx: Transaction, old: Memory) -> None:
    here = tx.memories.get([old.id, old.superseded_by or 0])
    known = here.get(old.id)
    if known is None or old.superseded_by not in here:
        return
    if tx.memories.predecessor(old.superseded_by) in {None, old.id}:
        after = replace(known, superseded_by=old.superseded_by, superseded_at=old.superseded_at)
        tx.memories.update(known, after)


def _review_order(review: Review) -> tuple[bool, datetime]:
    """Sort key for two copies of a review: confirmed first, then older."""
    return review.is_open, review.settled_at or review.at


def _link_order(link: Link) -> tuple[int, datetime, float]:
    """Sort key for two observations of a link: the more frequent, then the later one wins."""
    return link.observations, link.observed_at, link.strength


@dataclass(frozen=True, slots=True)
class _RecordWriter:
    """Merges records in one transaction.

    Each method returns whether a record is new, known, or a later state of a known one.
    """

    context: WriteContext
    merge_state: _MergeState
    vectors: Mapping[int, Vectors]

    def take(self, record: Record) -> str:
        """Merge one record."""
        tx = self.context.tx
        match record:
            case Thread():
                is_new = _find(tx, record) is None
                self.merge_state.threads[record.id] = tx.threads.merge(record)
            case ArchivedRecord():
                return self._take_memory(record)
            case Link():
                outcome = self._take_link(record)
                touch_linked(tx, link_image(record), at=self.context.now)
                return outcome
            case Annotation():
                is_new = self._has_text(record.memory_id) and tx.annotations.merge(record)
            case Revision():
                is_new = self._take_change(record)
            case Review():
                return self._take_review(record)
            case Receipt():
                is_new = self._has_text(record.message_id) and tx.messages.merge(record)
            case TaskDecision():
                known = _find(tx, record)
                is_later = isinstance(known, TaskDecision) and known.at >= record.at
                is_new = self._has_text(record.memory_id) and not is_later
                if is_new:
                    tx.acks.put(record)
        return "stored" if is_new else "exists"

    def _has_text(self, id_: int) -> bool:
        """Return whether a memory is here, and not erased."""
        memory = self.context.tx.memories.get([id_]).get(id_)
        return memory is not None and not is_erased(memory)

    def _take_memory(self, record: ArchivedRecord) -> str:
        tx, offered = self.context.tx, self._localized(record.memory)
        known = tx.memories.get([offered.id]).get(offered.id)
        if known is None:
            if offered.state not in UNCOUNTED_STATES and self.context.services.guard is not None:
                self.context.services.guard.reserve(self.context.caller, tx)
            tx.memories.add(offered)
            if offered.state in FINDABLE_STATES:
                tx.index.put(offered, self.vectors.get(offered.id))
        elif is_erased(known) or record.changed <= tx.changes.latest([known.id]).get(known.id, 0):
            tx.memories.update(known, _accessed(known, other=offered))
            return "exists"
        elif is_erased(offered):
            tx.scrub(known.id)
        else:
            moved = _accessed(offered, other=known)
            # The text is the same.
            after = replace(moved, headline=known.headline, body=known.body)
            tx.memories.update(known, after)
            follow_changes(tx, known, after=after, vectors=self.vectors.get(offered.id))
        self._record(offered)
        tx.reviews.touch([offered.id], at=self.context.now)
        self.merge_state.follow(record.memory)
        return "changed" if known else "stored"

    def _localized(self, memory: Memory) -> Memory:
        """Return a memory ready to add: without a successor yet, with ids of this store."""
        detail = memory.detail
        if isinstance(detail, MessageDetail):
            thread_id = detail.thread_id
            detail = replace(
                detail,
                thread_id=None if thread_id is None else self.merge_state.threads.get(thread_id),
                parent_id=self._if_here(detail.parent_id),
            )
        return replace(
            memory,
            # A file claims its authority, which is limited to that of the caller.
            authority=lowest([memory.authority, self.context.caller.authority]),
            superseded_by=None,
            superseded_at=None,
            source_message_id=self._if_here(memory.source_message_id),
            detail=detail,
        )

    def _if_here(self, id_: int | None) -> int | None:
        return id_ if id_ is not None and self.context.tx.memories.get([id_]) else None

    def _record(self, memory: Memory) -> None:
        entry = AuditEntry(
            action="import",
            memory_id=memory.id,
            agent=self.context.caller.agent,
            session=self.context.caller.session,
            reason=None,
            content=memory.text,
            at=self.context.now,
            request_id=self.context.caller.request_id,
        )
        self.context.tx.records.audit(entry)
        self.context.tx.records.publish("memory.imported", memory.id, at=self.context.now)

    def _take_change(self, change: Revision) -> bool:
        """Merge a change; without text if the memory is erased here."""
        changed = self.context.tx.memories.get([change.memory_id]).get(change.memory_id)
        if changed is None:
            return False
        if is_erased(changed):
            change = replace(change, before={}, after={}, reason=None)
        return self.context.tx.changes.merge(change)

    def _take_review(self, review: Review) -> str:
        """Merge a confirmation; everything else follows from states and links."""
        ends = self.context.tx.memories.get([review.memory_id, review.cause_id])
        if {review.memory_id, review.cause_id} > ends.keys():
            return "rejected"
        known = _find(self.context.tx, review)
        is_worse = isinstance(known, Review) and _review_order(review) >= _review_order(known)
        if is_worse or is_erased(ends[review.memory_id]):
            return "exists"
        self.context.tx.reviews.put([review])
        self.context.tx.reviews.touch([review.memory_id], at=review.at)
        return "changed" if known else "stored"

    def _take_link(self, link: Link) -> str:
        """Merge a link: of two observations the more frequent wins, then the later."""
        ends = self.context.tx.memories.get([link.from_id, link.to_id]).values()
        if len(ends) < len((link.from_id, link.to_id)):
            return "rejected"
        if any(is_erased(end) for end in ends):
            return "exists"
        known = find_link(self.context.tx, link.from_id, to_id=link.to_id, type_=link.type)
        if known is None:
            if _was_dropped(self.context.tx, link):
                return "exists"
        elif _link_order(known) >= _link_order(link):
            return "exists"
        self.context.tx.links.replace(link)
        return "changed" if known else "stored"
