"""Import: read foreign formats in batches, each durable when it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commonbrain.extras import extra_missing, is_installed
from commonbrain.ingestion.batch import PreparedBatch, WriteContext, WriteOptions
from commonbrain.ingestion.deduplication import PreviewedDrafts
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.ingestion.service import Remember
from commonbrain.ingestion.validation import REDACTED
from commonbrain.invalidation.propagation import continue_propagation
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.limits import (
    IMPORT_BATCH,
    IMPORT_BATCH_BYTES,
    LOCAL_IMPORT,
    TAGS_MAX,
    ImportLimits,
)
from commonbrain.model.memory import Draft, confidence
from commonbrain.model.scope import Authority, Caller, Role, Scope, Trust
from commonbrain.security.authority import author_agent
from commonbrain.services import Capability
from commonbrain.transfer.child_importer import read_in_child
from commonbrain.transfer.importer import (
    Importer,
    ImportItem,
    OmittedContent,
    Unreadable,
    check_is_path,
    find_importer,
    shown_source,
)
from commonbrain.transfer.importers import InstalledImporters
from commonbrain.transfer.relations import CARRIED_RECORDS, SourceMap, SourceRecord, unresolved_refs

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_REFUSALS_SHOWN_MAX = 100
_OPTIONS: Final = WriteOptions(
    checks_similarity=False, exempt_reports=False, includes_past=True, redacts_messages=True
)
_SECRETS: Final = "secrets in messages, redacted"
_NAMED: Final = "authors, kept as names: only an admin imports as others"
_OF_PEOPLE: Final = frozenset(
    {
        *("chatgpt", "claude-ai", "claude-code", "codex", "conversations", "markdown", "obsidian"),
        *("brain-db", "brainstem", "open-brain", "openbrain"),
    }
)
"""Formats of what people wrote, or lived by: the rules of predecessors go on binding those who
bring them. The memories of other systems are written by agents."""

_AGENTS_FOLDERS: Final = (
    (".claude", "memory"),
    (".codex", "memories"),
    (".gemini", "GEMINI.md"),
    (".qwen", "QWEN.md"),
)
"""The folders and files in which agents keep what they note by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A piece that was not stored: its place in the source, and the reason."""

    where: str
    reason: str
    hint: str | None = None
    """The next step, if there is one for this piece alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """The outcome of every piece; the counts add up to `read`."""

    format: str
    source: str
    read: int = 0
    stored: int = 0
    exists: int = 0
    changed: int = 0
    """Known memories that were updated; only an archive can do that."""
    quarantined: int = 0
    rejected: int = 0
    unreadable: int = 0
    parts: int = 0
    """Pieces that are parts of texts too long for one memory."""
    kinds: Mapping[str, int] = field(default_factory=dict[str, int])
    """Stored memories by kind."""
    carried: Mapping[str, int] = field(default_factory=dict[str, int])
    """What was carried over with them, by its name: dates, authors, pins, links, ..."""
    omitted: Mapping[str, int] = field(default_factory=dict[str, int])
    """What the source has and was not carried over, by its name."""
    position: int = 0
    """Pieces that were read, records and omissions included; a continued import skips them."""
    refusals: tuple[Refusal, ...] = ()
    """The first hundred rejected or unreadable pieces."""
    progress: float = 0.0
    """Progress in the source, 0..1."""

    def counting(
        self, outcomes: Iterable[str], *, refusals: Sequence[Refusal], progress: float
    ) -> ImportReport:
        """Add a batch, with one outcome per piece."""
        counts = Counter(outcomes)
        return replace(
            self,
            read=self.read + counts.total(),
            **{name: getattr(self, name) + count for name, count in counts.items()},
            refusals=tuple(refusals[:_REFUSALS_SHOWN_MAX]),
            progress=progress,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions:
    """How an import continues an earlier one and reports its progress."""

    since: ImportReport | None = None
    """The report of the earlier import, whose pieces are skipped."""
    batch_context: Callable[[], AbstractContextManager[None]] = nullcontext
    """Context manager around every batch."""
    check_may_continue: Callable[[], None] = lambda: None
    """Called before a batch is prepared while the last one is stored, and while a child process
    reads, in another thread; may raise to stop."""
    on_commit: Callable[[Transaction, ImportReport], None] = lambda _tx, _report: None
    """Called in the transaction of each batch."""
    limits: ImportLimits = LOCAL_IMPORT
    """Of these, the pieces count earlier ones too."""


def check_ended(rest: Iterator[object], report: ImportReport, *, pieces_max: int | None) -> None:
    """Check that a source ended before the limit of its pieces.

    Raises:
        InvalidInputError: `limit_exceeded`; unless in a dry run, the pieces before are stored.

    """
    if pieces_max is not None and next(rest, None) is not None:
        # A job keeps the message alone, so that it contains the next step.
        raise InvalidInputError(
            f"{report.source} has more pieces than the {pieces_max:,} that one import reads; of "
            f"these {report.stored:,} are new. Send the rest in parts, or run brain import on "
            "the machine of the store.",
            code="limit_exceeded",
        )


FROM_START = ResumeOptions()
"""From beginning to end."""


_COUNTED: Final = {
    ItemStatus.STORED: "stored",
    ItemStatus.EXISTS: "exists",
    ItemStatus.QUARANTINED: "quarantined",
    ItemStatus.REJECTED: "rejected",
    ItemStatus.DUPLICATE: "rejected",
}
"""The counter of each outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSource:
    """What to read, and how."""

    format: str
    path: Path
    project: str | None = None
    is_dry_run: bool = False
    extract_causes: bool = False
    projects: Mapping[str, str] | None = None
    """Projects by folder for a copy, see `Importer`; None if the source is in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSource:
    """A source on this machine, and the importer that reads it."""

    format: str
    purpose: str
    path: Path
    count: int
    """Files, or 1."""
    size_bytes: int


def find_sources(importers: Mapping[str, Importer], home: Path) -> Iterator[FoundSource]:
    """Return the sources at their usual places below a home folder; none is opened."""
    for importer in importers.values():
        for one in importer.find(home):
            yield FoundSource(
                format=importer.name,
                purpose=importer.purpose,
                path=one.path,
                count=one.count,
                size_bytes=one.size_bytes,
            )


class Import(Capability):
    """Imports for one caller."""

    def __call__(
        self,
        format: str,  # noqa: A002 the public name is format
        source: str | Path,
        *,
        project: str | None = None,
        dry_run: bool = False,
        extract_causes: bool = False,
        on_progress: Callable[[ImportReport], None] = lambda _: None,
    ) -> ImportReport:
        """Read a source and store its pieces; known ones stay as they are.

        Args:
            format: the name of an importer of the core, or of an installed package.
            source: a file or folder, depending on the format, or the URL of a database.
            project: overrides the project that the source suggests.
            dry_run: read and validate everything, store nothing.
            extract_causes: store stated causes as atoms, also from messages; takes time.
            on_progress: called after every batch of at most 64.

        Returns:
            The number of pieces read, and the outcome of each.

        Raises:
            InvalidInputError: the format is unknown, or the source does not have it;
                `extra_missing`, its package is not installed. Nothing was stored.
            RejectedError: `action_items_pending`; earlier batches are stored.
            UnavailableError: the store failed; earlier batches are stored, and repeating the import
                continues.

        """
        import_source = ImportSource(
            format=format,
            path=Path(source),
            project=project,
            is_dry_run=dry_run,
            extract_causes=extract_causes,
        )
        begun = ResumeOptions(since=ImportReport(format=format, source=shown_source(source)))
        return self.go_on(import_source, resume=begun, on_progress=on_progress)

    def go_on(
        self,
        source: ImportSource,
        *,
        resume: ResumeOptions,
        on_progress: Callable[[ImportReport], None] = lambda _: None,
    ) -> ImportReport:
        """Import the pieces after those of a report; see `__call__`.

        Raises:
            InvalidInputError: the format is unknown, or the source does not have it;
                `limit_exceeded`, it has more pieces than allowed, and those before are stored;
                `extra_missing`, nothing extracts causes.

        """
        if source.extract_causes and not is_installed("commonbrain_causes"):
            raise extra_missing("commonbrain[causes]", extra="causes")
        report = resume.since or ImportReport(format=source.format, source=source.path.name)
        importer = self._importer(source)
        if not importer.reads_database:
            check_is_path(source.path)
        known = SourceMap(
            format=report.format, is_needed=importer.has_relations, writes=not source.is_dry_run
        )
        most = resume.limits.pieces_max
        left = None if most is None else max(most - report.position, 0)
        reading = self._reading(importer, source, resume=resume)
        # At the end the reading stops first, for which the thread may wait.
        with ThreadPoolExecutor(1, "import") as ahead, reading as read:
            pieces = _placed(read, source.project)
            for batch in _batches(islice(pieces, report.position)):
                if known.is_needed:
                    remember = self._remember(source)
                    drafts = _drafts(batch, source, caller=remember.caller)
                    known.add(drafts, remember.preview_drafts(drafts, _OPTIONS))
            for batch, prepared in self._prepared(
                islice(pieces, left), source, ahead=ahead, check=resume.check_may_continue
            ):
                report = self._store(
                    batch,
                    prepared,
                    remember=self._remember(source),
                    report=report,
                    known=known,
                    resume=resume,
                )
                on_progress(report)
            check_ended(pieces, report, pieces_max=most)
        return replace(report, progress=1.0)

    def _reading(
        self, importer: Importer, source: ImportSource, *, resume: ResumeOptions
    ) -> AbstractContextManager[Iterator[ImportItem]]:
        """Read the source here or in a child process, see `child_importer`."""
        importers = self.services.importers()
        is_copy = source.projects is not None
        is_installed = isinstance(importers, InstalledImporters)
        if not is_installed or not (is_copy or importers.is_packaged(source.format)):
            return nullcontext(importer.read(source.path))
        return read_in_child(
            source.format,
            source.path,
            projects=source.projects,
            limits=resume.limits.child,
            check=resume.check_may_continue,
        )

    def _remember(self, source: ImportSource) -> Remember:
        if self.caller.authority is not Authority.PERSON:
            # Nobody confirmed what the file says.
            authority = Authority.CAPTURED
        else:
            authority = Authority.PERSON if _is_of_people(source) else Authority.MODEL
        return Remember(self.services, replace(self.caller, authority=authority))

    def _prepared(
        self,
        pieces: Iterator[ImportItem],
        source: ImportSource,
        *,
        ahead: ThreadPoolExecutor,
        check: Callable[[], None],
    ) -> Iterator[tuple[list[ImportItem], PreparedBatch | Sequence[ItemResult]]]:
        """Yield each batch with what is to be stored of it, or with its preview in a dry run.

        One thread reads and prepares the next batch while the last one is stored: the model uses
        the processor while the store waits for the disk, and the other way round. After an error or
        an interrupt, the batch that is being embedded is finished first, and not stored.
        """
        remember = self._remember(source)
        batches = _batches(pieces)
        previewed = PreviewedDrafts()

        def prepare() -> tuple[list[ImportItem], PreparedBatch | Sequence[ItemResult]] | None:
            batch = next(batches, None)
            if batch is None:
                return None
            drafts = _drafts(batch, source, caller=remember.caller)
            if source.is_dry_run:
                return batch, remember.preview_drafts(drafts, _OPTIONS, previewed=previewed)
            return batch, remember.prepare(drafts, _OPTIONS)

        following = ahead.submit(prepare)
        while (one := following.result()) is not None:
            # Later, a stop would wait for a batch that is embedded in vain.
            check()
            following = ahead.submit(prepare)
            yield one

    def _store(
        self,
        batch: Sequence[ImportItem],
        prepared: PreparedBatch | Sequence[ItemResult],
        *,
        remember: Remember,
        report: ImportReport,
        known: SourceMap,
        resume: ResumeOptions,
    ) -> ImportReport:
        """Store a batch in one transaction, its records included, and add it to the report."""
        drafts = [one.content for one in batch if isinstance(one.content, Draft)]
        records = [one.content for one in batch if isinstance(one.content, SourceRecord)]
        if not isinstance(prepared, PreparedBatch):
            known.add(drafts, prepared)
            with self.services.store.snapshot(self.caller.tenant) as tx:
                related = known.apply(_context(tx, remember), records)
                related += unresolved_refs(tx, drafts, outcomes=prepared)
            return _add(report, batch, outcomes=prepared, related=related, remember=remember)
        added = report

        def finish(tx: Transaction, stored: Sequence[ItemResult]) -> None:
            nonlocal added
            known.add(drafts, stored)
            related = known.apply(_context(tx, remember), records)
            related += unresolved_refs(tx, drafts, outcomes=stored)
            added = _add(report, batch, outcomes=stored, related=related, remember=remember)
            resume.on_commit(tx, added)

        with resume.batch_context():
            remember.store(replace(prepared, options=replace(prepared.options, on_commit=finish)))
        if records:
            continue_propagation(self.services, self.caller)
        return added

    def _importer(self, source: ImportSource) -> Importer:
        importer = find_importer(self.services.importers(), source.format)
        return importer if source.projects is None else importer.for_copy(source.projects)


def _context(tx: Transaction, remember: Remember) -> WriteContext:
    now = remember.services.clock.now()
    return WriteContext(tx=tx, services=remember.services, caller=remember.caller, now=now)


def _placed(pieces: Iterator[ImportItem], project: str | None) -> Iterator[ImportItem]:
    """Put drafts into the given project."""
    for piece in pieces:
        if project is not None and isinstance(piece.content, Draft):
            yield replace(piece, content=replace(piece.content, project=project))
        else:
            yield piece


def _batches(pieces: Iterator[ImportItem]) -> Iterator[list[ImportItem]]:
    batch, size = list[ImportItem](), 0
    for piece in pieces:
        batch.append(piece)
        size += piece.size
        if len(batch) == IMPORT_BATCH or size >= IMPORT_BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _is_of_people(source: ImportSource) -> bool:
    """Return whether people wrote a source; agents keep notes in places of their own."""
    folders = set(source.path.absolute().parts)
    is_agents = any(folders.issuperset(pair) for pair in _AGENTS_FOLDERS)
    return source.format in _OF_PEOPLE and not is_agents


def _drafts(batch: Sequence[ImportItem], source: ImportSource, *, caller: Caller) -> list[Draft]:
    """Return the drafts of a batch with what only an import sets, and as many tags as fit."""
    return [
        replace(
            _permitted(piece.content, caller),
            tags=piece.content.tags[:TAGS_MAX],
            people=piece.content.people[:TAGS_MAX],
            extract_causes=source.extract_causes,
            imported_from=source.format,
        )
        for piece in batch
        if isinstance(piece.content, Draft)
    ]


def _permitted(draft: Draft, caller: Caller) -> Draft:
    """Return a draft with no more trust, reach and weight than the caller may give it."""
    has_less = caller.trust_ceiling.weight < (draft.trust or caller.trust_ceiling).weight
    trust = caller.trust_ceiling if has_less else draft.trust
    # Others' global memories would wait for a person instead of being recalled.
    is_own = caller.role is Role.ADMIN and caller.authority is Authority.PERSON
    is_shared = is_own and trust is not Trust.UNTRUSTED_WEB
    is_narrowed = draft.scope is Scope.GLOBAL and not is_shared
    return replace(
        draft,
        trust=trust,
        scope=Scope.TEAM if is_narrowed else draft.scope,
        salience=None if trust is Trust.UNTRUSTED_WEB else draft.salience,
    )


def _lowered(draft: Draft, caller: Caller) -> Mapping[str, int]:
    """Count what a draft may not have from the caller, or by its trust."""
    permitted = _permitted(draft, caller)
    web = Trust.UNTRUSTED_WEB
    is_capped = permitted.trust is web and draft.confidence is not None
    return {
        "confidence above what a text from the web has": is_capped
        and (draft.confidence or 0) > confidence(Kind.FACT, draft.body, trust=web, is_sourced=True),
        f"trust above {caller.trust_ceiling}, which this caller may not claim": (
            permitted.trust is not draft.trust
        ),
        "salience of texts from the web, which is computed anew": (
            permitted.salience is not draft.salience
        ),
        "global scopes, now team: from the web, or not imported by a person as admin": (
            permitted.scope is not draft.scope
        ),
    }


def _add(
    report: ImportReport,
    batch: Sequence[ImportItem],
    *,
    outcomes: Sequence[ItemResult],
    related: Mapping[str, int],
    remember: Remember,
) -> ImportReport:
    """Count a batch; drafts and outcomes are in the same order."""
    counted: list[str] = []
    refusals = list(report.refusals)
    kinds, carried, omitted = (
        Counter(given) for given in (report.kinds, report.carried, report.omitted)
    )
    parts = 0
    results = iter(outcomes)
    for piece in batch:
        match piece.content:
            case Unreadable(where=where, reason=reason):
                refusals.append(Refusal(where=where, reason=reason))
                counted.append("unreadable")
            case OmittedContent(what=what, count=count):
                omitted[what] += count
            case Draft() as draft:
                outcome = next(results)
                counted.append(_COUNTED[outcome.status])
                parts += draft.part is not None
                omitted.update(_cut(draft))
                if outcome.status.is_refused:
                    where = draft.source_ref or draft.body[:60]
                    scanner = remember.services.secret_scanner
                    if any(one.is_certain for one in scanner.find(where)):
                        where = f"piece {report.read + len(counted)}, whose name has a secret"
                    reason = outcome.reason or outcome.status
                    refusals.append(Refusal(where=where, reason=reason, hint=outcome.hint))
                elif outcome.status.is_new:
                    kinds[str(outcome.kind)] += 1
                    carried.update(_carried(draft, remember.caller))
                    omitted[_NAMED] += _is_only_named(draft, remember.caller)
                    omitted.update(_lowered(draft, remember.caller))
                    omitted[_SECRETS] += any(one.startswith(REDACTED) for one in outcome.warnings)
            case _:
                pass  # The records of its memories, counted as `related`.
    for name, count in related.items():
        (carried if name in CARRIED_RECORDS else omitted)[name] += count
    added = report.counting(counted, refusals=refusals, progress=batch[-1].progress)
    return replace(
        added,
        parts=report.parts + parts,
        kinds=dict(kinds),
        carried=dict(carried),
        omitted=dict(+omitted),
        position=report.position + len(batch),
    )


def _cut(draft: Draft) -> Mapping[str, int]:
    """Count the names of a draft that exceed the limit; the parts of a text share them."""
    if draft.part not in {None, 1}:
        return {}
    counts = {"tags": len(draft.tags), "people": len(draft.people)}
    limit = f"beyond the {TAGS_MAX} that a memory has"
    return {f"{what} {limit}": max(count - TAGS_MAX, 0) for what, count in counts.items()}


def _is_only_named(draft: Draft, caller: Caller) -> bool:
    """Return whether a draft is stored as the caller's, with the name of its author."""
    return draft.author not in {None, author_agent(draft, caller)}


def _carried(draft: Draft, caller: Caller) -> Iterator[str]:
    """Name what a stored draft took over from its source in addition to the text."""
    speaker = draft.detail.sender if isinstance(draft.detail, MessageDetail) else None
    present = {
        "dates": draft.occurred_at is not None,
        "expiry dates": draft.expires_at is not None,
        "authors": speaker is not None or (draft.author and not _is_only_named(draft, caller)),
        "recorded times": draft.believed_since is not None,
        "accesses": draft.access_count > 0,
        "salience": _permitted(draft, caller).salience is not None,
        "projects": draft.project is not None,
        "tags": bool(draft.tags),
        "threads": draft.thread is not None,
        "pins": draft.pinned,
        "votes": draft.rating != 0,
    }
    return (name for name, is_present in present.items() if is_present)
