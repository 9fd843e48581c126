"""What plain `remember` refuses of public conversations, and what it takes for a change.

Every turn is given three times, to three stores: as "Name: text", bare, and sentence by sentence.
What is refused is listed with the text that it repeats, for a person to read. Nearly all turns
hold, so that hardly any should change another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from commonbrain_models.calibration import CalibrationSplit, split_of
from rich.console import Console

from commonbrain.config import Settings
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.escaping import inert_line
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.text.search_words import count_words
from commonbrain.text.segmentation import split_sentences
from commonbrain_evals.retrieval.beam import BEAM
from commonbrain_evals.retrieval.corpora import Corpus, DataSet
from commonbrain_evals.retrieval.eval_store import Turn, open_note_store, turns_of
from commonbrain_evals.retrieval.locomo import LOCOMO
from commonbrain_evals.retrieval.record import commit, digest
from commonbrain_evals.retrieval.tables import empty_table, percent

_SHOWN: Final = 10
_SENTENCE_WORDS_MIN: Final = 4
"""Shorter sentences are greetings and exclamations."""
_DATA: Final = (
    "All turns of each conversation are given to plain remember in a store of its own, at their"
    " times, one session per session of the data. refused: share of texts that were not stored"
    " because a memory says the same, word for word (exists) or by the rule (duplicate); rejected"
    " ones are counted apart. outdating: texts that change an earlier one. The half is that"
    " of the turn's text."
)


class Wording(StrEnum):
    """How a turn is written down."""

    NAMED = "Name: text"
    BARE = "bare"
    SENTENCES = "sentences"
    """Each sentence on its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutdatingTurn:
    """One text that changes an earlier one, according to the reply."""

    conversation: str
    source: str
    wording: Wording
    half: CalibrationSplit
    text: str
    known_source: str
    known_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTurn(OutdatingTurn):
    """One text that was refused, and the memory that says it already."""

    status: ItemStatus
    similarity: float | None
    """Cosine of the sentence that repeats; None where it is the same word for word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalShare:
    """How many texts of one wording and half were refused or changed another."""

    wording: Wording
    half: CalibrationSplit
    texts: int
    refused: int
    rejected: int
    """Texts that another check kept out, such as one for secrets."""
    outdating: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalReport:
    """The whole evaluation; `rows` has the refused texts, `changes` those that outdate another."""

    data: str
    source: str
    sha256: str
    version: str
    commit: str | None
    started_at: str
    conversations: int
    shares: tuple[RefusalShare, ...]
    rows: tuple[RefusedTurn, ...]
    changes: tuple[OutdatingTurn, ...]


def evaluate(
    path: Path,
    *,
    settings: Settings,
    conversations: int | None = None,
    on_progress: Progress = ignore_progress,
) -> RefusalReport:
    """Return all turns of a LoCoMo file, or of a BEAM chat or folder, to plain `remember`.

    `conversations` limits it to the first so many.

    Raises:
        InvalidInputError: the data is missing or malformed.

    """
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    dataset = _dataset(path)
    files = dataset.files(path)
    corpora = list(dataset.read(files))[:conversations]
    results: list[_Result] = []
    stores = [(corpus, wording) for corpus in corpora for wording in Wording]
    for number, (corpus, wording) in enumerate(stores, 1):
        results += _remembered(corpus, wording, settings=settings)
        on_progress(number / len(stores))
    return RefusalReport(
        data=_DATA,
        source=path.name,
        sha256=digest(files),
        version=version("commonbrain"),
        commit=commit(),
        started_at=started_at,
        conversations=len(corpora),
        shares=tuple(
            _share(results, wording, half=half) for wording in Wording for half in CalibrationSplit
        ),
        rows=tuple(result.refused for result in results if result.refused is not None),
        changes=tuple(change for result in results for change in result.changes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What became of one text."""

    wording: Wording
    half: CalibrationSplit
    is_rejected: bool
    refused: RefusedTurn | None
    changes: tuple[OutdatingTurn, ...]


def _share(results: Sequence[_Result], wording: Wording, *, half: CalibrationSplit) -> RefusalShare:
    own = [result for result in results if (result.wording, result.half) == (wording, half)]
    return RefusalShare(
        wording=wording,
        half=half,
        texts=len(own),
        refused=sum(one.refused is not None for one in own),
        rejected=sum(one.is_rejected for one in own),
        outdating=sum(bool(one.changes) for one in own),
    )


def _dataset(path: Path) -> DataSet:
    """Tell LoCoMo, a list of samples, from BEAM, chats that are objects."""
    if not path.is_file():
        return BEAM
    with path.open(encoding="utf-8-sig", errors="replace") as stream:
        start = stream.read(100).lstrip()
    return LOCOMO if start.startswith("[") else BEAM


def _remembered(corpus: Corpus, wording: Wording, *, settings: Settings) -> Iterator[_Result]:
    """Yield each text in turn to a store of its own."""
    turns = list(turns_of(corpus))
    source_of: dict[str, str] = {}
    with open_note_store(settings=settings, start=turns[0].at) as store:
        for turn in turns:
            store.advance_to(turn.at)
            view = store.brain.acting_as(session=turn.session)
            for text in _texts(turn, wording):
                items = view.remember(text).items
                new = [item for item in items if item.status.is_new and item.id is not None]
                source_of |= {str(item.id): turn.source for item in new}
                # A text that is too long for one memory is refused only if all its parts are.
                known = None if new else next((item for item in items if item.id is not None), None)
                half = split_of(turn.text)
                where: Mapping[str, Any] = {
                    "conversation": corpus.name,
                    "source": turn.source,
                    "wording": wording,
                    "half": half,
                    "text": text,
                }
                yield _Result(
                    wording=wording,
                    half=half,
                    is_rejected=known is None
                    and (not items or items[0].status is ItemStatus.REJECTED),
                    refused=None
                    if known is None
                    else RefusedTurn(
                        **where,
                        known_source=source_of.get(str(known.id), ""),
                        known_text=store.text(str(known.id)),
                        status=known.status,
                        similarity=known.similar[0].similarity if known.similar else None,
                    ),
                    changes=tuple(
                        OutdatingTurn(
                            **where,
                            known_source=source_of.get(change.id, ""),
                            known_text=store.text(change.id),
                        )
                        for item in items
                        for change in item.changes
                    ),
                )


def _texts(turn: Turn, wording: Wording) -> Sequence[str]:
    if wording is Wording.SENTENCES:
        sentences = split_sentences(turn.text)
        return [sentence for sentence in sentences if count_words(sentence) >= _SENTENCE_WORDS_MIN]
    return [turn.note if wording is Wording.NAMED else turn.text]


def show_refusals(report: RefusalReport) -> None:
    """Print the shares, and the first refused and outdating texts with those that they concern."""
    console = Console(highlight=False)
    console.print(
        f"{report.source}, sha256 {report.sha256[:16]}, commonbrain {report.version}, commit"
        f" {report.commit or 'unknown'}, {report.conversations} conversations",
        markup=False,
    )
    names = ("wording", "half", "texts", "refused", "%", "rejected", "outdating", "% outdating")
    table = empty_table("Refused and outdating texts", names)
    for wording in Wording:
        own = [share for share in report.shares if share.wording is wording]
        for name, those in (*((one.half, [one]) for one in own), ("both", own)):
            texts, refused = sum(one.texts for one in those), sum(one.refused for one in those)
            rejected = sum(one.rejected for one in those)
            outdating = sum(one.outdating for one in those)
            shares = [percent(count / texts) if texts else "" for count in (refused, outdating)]
            excluded = (str(texts), str(refused), shares[0], str(rejected))
            table.add_row(wording, name, *excluded, str(outdating), shares[1])
    console.print(table)
    for row in report.rows[:_SHOWN]:
        console.print(_pair(row), markup=False)
    if len(report.rows) > _SHOWN:
        console.print(f"and {len(report.rows) - _SHOWN} more in the record", markup=False)
    for change in report.changes[:_SHOWN]:
        console.print(_change(change), markup=False)
    if len(report.changes) > _SHOWN:
        console.print(f"and {len(report.changes) - _SHOWN} more in the record", markup=False)
    console.print(report.data, markup=False, style="dim")


def _pair(row: RefusedTurn) -> str:
    similarity = "word for word" if row.similarity is None else f"{row.similarity:.2f}"
    return (
        f"{row.source} [{row.wording}] {inert_line(row.text)!r}\n"
        f"  repeats {row.known_source} ({similarity}): {inert_line(row.known_text)!r}"
    )


def _change(row: OutdatingTurn) -> str:
    known = f"{row.known_source}: {inert_line(row.known_text)!r}"
    return f"{row.source} [{row.wording}] {inert_line(row.text)!r}\n  changes {known}"
