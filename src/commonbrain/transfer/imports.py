"""Import: read foreign formats in batches, each durable when it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commonbrain.ingestion.batch import PreparedBatch, WriteOptions
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.ingestion.service import Remember
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import IMPORT_BATCH
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Caller
from commonbrain.security.read_audit import audited
from commonbrain.services import Services
from commonbrain.transfer.importer import Importer, Piece, Unreadable

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_REFUSALS_SHOWN_MAX = 100
_OPTIONS: Final = WriteOptions(checks_similarity=False, exempt_reports=False)


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
    refusals: tuple[Refusal, ...] = ()
    """The first hundred rejected or unreadable pieces."""
    progress: float = 0.0
    """Progress in the source, 0..1."""

    def counting(
        self,
        outcomes: Iterable[str],
        *,
        refusals: Sequence[Refusal],
        progress: float,
        parts: int = 0,
    ) -> ImportReport:
        """Add a batch, with one outcome per piece."""
        counts = Counter(outcomes)
        return replace(
            self,
            read=self.read + counts.total(),
            parts=self.parts + parts,
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
    on_commit: Callable[[Transaction, ImportReport], None] = lambda _tx, _report: None
    """Called in the transaction of each batch."""


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


@dataclass(frozen=True, slots=True)
class Import:
    """Imports for one caller."""

    services: Services
    caller: Caller

    @audited("shown by import")
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
            format: a name in `importers.IMPORTERS`.
            source: a file or folder, depending on the format.
            project: overrides the project that the source suggests.
            dry_run: read and validate everything, store nothing.
            extract_causes: store stated causes as atoms, also from messages; takes time, and
                `atomize` can do it later.
            on_progress: called after every batch of at most 64.

        Returns:
            The number of pieces read, and the outcome of each.

        Raises:
            InvalidInputError: the format is unknown, or the source does not have it; nothing was
                stored.
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
        begun = ImportReport(format=format, source=str(source))
        return self.go_on(import_source, since=begun, key=None, on_progress=on_progress)

    def go_on(
        self,
        source: ImportSource,
        *,
        since: ImportReport,
        key: str | None,
        on_progress: Callable[[ImportReport], None],
    ) -> ImportReport:
        """Import the pieces after those of a report; see `__call__`.

        With a key, a batch that was stored although its report was lost gives the same report
        again.

        Raises:
            InvalidInputError: the format is unknown, or the source does not have it.

        """
        report = since
        pieces = self._importer(source.format).read(source.path, source.project)
        batches = self._prepared(islice(pieces, since.read, None), source, since=since, key=key)
        with closing(batches):
            for batch, prepared in batches:
                outcomes = self._outcomes(prepared)
                report = _add(report, batch, outcomes=outcomes)
                on_progress(report)
        return replace(report, progress=1.0)

    def _prepared(
        self,
        pieces: Iterator[Piece],
        source: ImportSource,
        *,
        since: ImportReport,
        key: str | None,
    ) -> Generator[tuple[list[Piece], PreparedBatch | Sequence[ItemResult]]]:
        """Yield each batch with what is to be stored of it, or with its preview in a dry run.

        One thread reads and prepares the next batch while the last one is stored: the model uses
        the processor while the store waits for the disk, and the other way round. After an error or
        an interrupt, the batch that is being embedded is finished first, and not stored.
        """
        remember = Remember(self.services, self.caller)
        batches = _batches(pieces)
        place = since.read

        def prepare() -> tuple[list[Piece], PreparedBatch | Sequence[ItemResult]] | None:
            nonlocal place
            batch = next(batches, None)
            if batch is None:
                return None
            drafts = [
                replace(piece.content, extract_causes=source.extract_causes)
                for piece in batch
                if isinstance(piece.content, Draft)
            ]
            batch_key = None if key is None else f"{key}:{place}"
            place += len(batch)
            if source.is_dry_run:
                return batch, remember.preview_drafts(drafts)
            return batch, remember.prepare(drafts, _OPTIONS, idempotency_key=batch_key)

        with ThreadPoolExecutor(1, "import") as ahead:
            following = ahead.submit(prepare)
            while (one := following.result()) is not None:
                following = ahead.submit(prepare)
                yield one

    def _outcomes(self, prepared: PreparedBatch | Sequence[ItemResult]) -> Sequence[ItemResult]:
        if not isinstance(prepared, PreparedBatch):
            return prepared
        return Remember(self.services, self.caller).store(prepared).items

    def _importer(self, format_: str) -> Importer:
        known = self.services.importers()
        importer = known.get(format_)
        if importer is None:
            raise InvalidInputError(
                f"There is no importer for {format_[:40]!r}.",
                hint=f"Choose one of {', '.join(known)}.",
            )
        return importer


def _batches(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    while batch := list(islice(pieces, IMPORT_BATCH)):
        yield batch


def _add(
    report: ImportReport, batch: Sequence[Piece], *, outcomes: Sequence[ItemResult]
) -> ImportReport:
    """Count a batch; drafts and outcomes are in the same order."""
    counted: list[str] = []
    refusals = list(report.refusals)
    results = iter(outcomes)
    for piece in batch:
        if isinstance(piece.content, Unreadable):
            refusals.append(Refusal(where=piece.content.where, reason=piece.content.reason))
            counted.append("unreadable")
            continue
        outcome = next(results)
        counted.append(_COUNTED[outcome.status])
        if outcome.status.is_refused:
            where = piece.content.source_ref or piece.content.body[:60]
            reason = outcome.reason or outcome.status
            refusals.append(Refusal(where=where, reason=reason, hint=outcome.hint))
    parts = sum(isinstance(one.content, Draft) and one.content.part is not None for one in batch)
    return report.counting(counted, refusals=refusals, progress=batch[-1].progress, parts=parts)
