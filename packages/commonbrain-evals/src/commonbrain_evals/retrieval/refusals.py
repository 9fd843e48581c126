"""What plain `remember` refuses of public conversations, for a person to read.

Every turn is given twice, to two stores: as "Name: text", and bare. What is refused is listed with
the text that it fell to.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Final

from rich.console import Console

from commonbrain.config import Settings
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.model import ids
from commonbrain.model.escaping import inert_line
from commonbrain.model.memory import full_text
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain_evals.retrieval.beam import BEAM
from commonbrain_evals.retrieval.corpora import Corpus, DataSet
from commonbrain_evals.retrieval.locomo import LOCOMO
from commonbrain_evals.retrieval.notes import NoteStore, Turn, open_note_store, turns_of
from commonbrain_evals.retrieval.showing import empty_table, percent
from commonbrain_evals.retrieval.surroundings import commit, digest
from commonbrain_evals.rows import Half, half_of

_SHOWN: Final = 10
_DATA: Final = (
    "All turns of each conversation are given to plain remember in a store of its own, at their"
    " times, one session per session of the data. refused: share of turns that were not stored"
    " because a memory says the same, word for word (exists) or by the rule (duplicate); rejected"
    " ones are counted apart. The half is that of the turn's text."
)


class Wording(StrEnum):
    """How a turn is written down."""

    NAMED = "Name: text"
    BARE = "bare"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTurn:
    """One turn that was refused, and the memory that says it already."""

    conversation: str
    source: str
    wording: Wording
    half: Half
    status: ItemStatus
    text: str
    known_source: str
    known_text: str
    similarity: float | None
    """Cosine of the sentence that repeats; None where it is the same word for word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalShare:
    """How many turns of one wording and half were refused."""

    wording: Wording
    half: Half
    turns: int
    refused: int
    rejected: int
    """Turns that another check kept out, such as one for secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalReport:
    """The whole evaluation; `rows` has one row per refused turn."""

    data: str
    source: str
    sha256: str
    version: str
    commit: str | None
    started_at: str
    conversations: int
    shares: tuple[RefusalShare, ...]
    rows: tuple[RefusedTurn, ...]


def evaluate(
    path: Path,
    *,
    settings: Settings,
    conversations: int | None = None,
    on_progress: Progress = ignore_progress,
) -> RefusalReport:
    """Give all turns of a LoCoMo file, or of a BEAM chat or folder, to plain `remember`.

    `conversations` limits it to the first so many.

    Raises:
        InvalidInputError: the data is missing or malformed.

    """
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    dataset = _dataset(path)
    files = dataset.files(path)
    corpora = list(dataset.read(files))[:conversations]
    counts: dict[tuple[Wording, Half], list[int]] = {
        (wording, half): [0, 0, 0] for wording in Wording for half in Half
    }
    rows: list[RefusedTurn] = []
    stores = [(corpus, wording) for corpus in corpora for wording in Wording]
    for number, (corpus, wording) in enumerate(stores, 1):
        for turn, item in _remembered(corpus, wording, settings=settings):
            count = counts[wording, half_of(turn.text)]
            count[0] += 1
            count[1] += isinstance(item, RefusedTurn)
            count[2] += item is ItemStatus.REJECTED
            if isinstance(item, RefusedTurn):
                rows.append(item)
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
            RefusalShare(wording=wording, half=half, turns=of[0], refused=of[1], rejected=of[2])
            for (wording, half), of in counts.items()
        ),
        rows=tuple(rows),
    )


def _dataset(path: Path) -> DataSet:
    """Tell LoCoMo, a list of samples, from BEAM, chats that are objects."""
    if not path.is_file():
        return BEAM
    with path.open(encoding="utf-8-sig", errors="replace") as stream:
        start = stream.read(100).lstrip()
    return LOCOMO if start.startswith("[") else BEAM


def _remembered(
    corpus: Corpus, wording: Wording, *, settings: Settings
) -> Iterator[tuple[Turn, RefusedTurn | ItemStatus]]:
    """Give each turn, with its refusal if it was refused."""
    turns = list(turns_of(corpus))
    source_of: dict[str, str] = {}
    with open_note_store(settings=settings, start=turns[0].at) as store:
        for turn in turns:
            store.advance_to(turn.at)
            text = turn.note if wording is Wording.NAMED else turn.text
            view = store.brain.acting_as(session=turn.session)
            items = view.remember(text).items
            new = [item for item in items if item.status.is_new and item.id is not None]
            source_of |= {str(item.id): turn.source for item in new}
            # A text that is too long for one memory is refused only if all of its parts are.
            refused = next((item for item in items if item.id is not None), None)
            if new or refused is None:
                yield turn, items[0].status if items else ItemStatus.REJECTED
                continue
            known = _known_text(store, refused)
            yield (
                turn,
                RefusedTurn(
                    conversation=corpus.name,
                    source=turn.source,
                    wording=wording,
                    half=half_of(turn.text),
                    status=refused.status,
                    text=text,
                    known_source=source_of.get(str(refused.id), ""),
                    known_text=known,
                    similarity=refused.similar[0].similarity if refused.similar else None,
                ),
            )


def _known_text(store: NoteStore, refused: ItemResult) -> str:
    id_ = ids.parse(ids.MEMORY, str(refused.id))
    memory = store.memories([id_])[id_]
    return full_text(memory.headline, memory.body)


def show_refusals(report: RefusalReport) -> None:
    """Print the shares, and the first refused turns with what they fell to."""
    console = Console(highlight=False)
    console.print(
        f"{report.source}, sha256 {report.sha256[:16]}, commonbrain {report.version}, commit"
        f" {report.commit or 'unknown'}, {report.conversations} conversations",
        markup=False,
    )
    table = empty_table("Refused turns", ("wording", "half", "turns", "refused", "%", "rejected"))
    for wording in Wording:
        own = [one for one in report.shares if one.wording is wording]
        for name, those in (*((one.half, [one]) for one in own), ("both", own)):
            turns, refused = sum(one.turns for one in those), sum(one.refused for one in those)
            rejected = sum(one.rejected for one in those)
            share = percent(refused / turns) if turns else ""
            table.add_row(wording, name, str(turns), str(refused), share, str(rejected))
    console.print(table)
    for row in report.rows[:_SHOWN]:
        console.print(_pair(row), markup=False)
    if len(report.rows) > _SHOWN:
        console.print(f"and {len(report.rows) - _SHOWN} more in the record", markup=False)
    console.print(report.data, markup=False, style="dim")


def _pair(row: RefusedTurn) -> str:
    similarity = "word for word" if row.similarity is None else f"{row.similarity:.2f}"
    return (
        f"{row.source} [{row.wording}] {inert_line(row.text)!r}\n"
        f"  fell to {row.known_source} ({similarity}): {inert_line(row.known_text)!r}"
    )
