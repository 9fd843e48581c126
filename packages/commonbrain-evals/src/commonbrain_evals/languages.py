"""Recall in thirteen languages: by words alone, by the model alone, and by both."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from commonbrain_models.calibration import CalibrationSplit

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.model import ids
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.testing.builders import FakeClock
from commonbrain_evals.labelled import (
    Figure,
    digest_of,
    open_scratch_brain,
    read_rows,
    share,
    show_figures,
    show_lines,
)
from commonbrain_evals.retrieval.baselines import search

_NOTES: Final = "language_notes.jsonl"
_QUESTIONS: Final = "language_questions.jsonl"
_SHARED: Final = "en"
"""The language whose notes are in the store of each other language too."""
_FEW: Final = 3
_DATA: Final = (
    "language_notes.jsonl and language_questions.jsonl: {notes} notes of developers in {languages}"
    " languages and {questions} questions, written without sight of the program by one hand each,"
    " and read by no second one. own: asked in the note's language in other words. names: with a"
    " name, number or path out of the note. across: asked in the language for an English note. A"
    " store holds the notes of the language and the English ones. 1: the note comes first, {few}:"
    " among the first {few}."
)


class QuestionSort(StrEnum):
    """What a question has in common with the note that answers it."""

    OWN = "own"
    NAMES = "names"
    ACROSS = "across"


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageNote:
    """A note; its id begins with its language."""

    id: str
    text: str

    @property
    def language(self) -> str:
        """The language by its code in ISO 639."""
        return self.id.partition("-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageQuestion:
    """A question, and the id of the one note that answers it."""

    language: str
    sort: QuestionSort
    half: CalibrationSplit
    text: str
    expects: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageResult:
    """At which place each search has the note that answers, None if it is not found."""

    language: str
    sort: QuestionSort
    half: CalibrationSplit
    text: str | None
    """The question; only of the half calibrate."""
    words: int | None
    model: int | None
    recall: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageReport:
    """The whole evaluation, one row per question."""

    data: str
    sha256: str
    """Of the notes and the questions."""
    model: str
    figures: tuple[Figure, ...]
    rows: tuple[LanguageResult, ...]


def read_languages() -> tuple[Sequence[LanguageNote], Sequence[LanguageQuestion]]:
    """Read the notes and the questions that ship with the package."""
    return read_rows(LanguageNote, _NOTES), read_rows(LanguageQuestion, _QUESTIONS)


def evaluate(
    notes: Sequence[LanguageNote],
    questions: Sequence[LanguageQuestion],
    *,
    embedder: Embedder,
    on_progress: Progress = ignore_progress,
) -> LanguageReport:
    """Ask the questions of each language in a store of its own."""
    languages = list(dict.fromkeys(question.language for question in questions))
    rows: list[LanguageResult] = []
    for done, language in enumerate(languages, start=1):
        own = [note for note in notes if note.language in {language, _SHARED}]
        with open_scratch_brain(embedder, FakeClock()) as brain:
            stored = {note.id: _remember(brain, note.text) for note in own}
            rows += (
                _ask(brain, question, answer=stored[question.expects])
                for question in questions
                if question.language == language
            )
        on_progress(done / len(languages))
    return LanguageReport(
        data=_DATA.format(
            notes=len(notes), languages=len(languages), questions=len(questions), few=_FEW
        ),
        sha256=digest_of(_NOTES, _QUESTIONS),
        model=embedder.space.name,
        figures=tuple(_figures(rows, languages)),
        rows=tuple(rows),
    )


def _remember(brain: Brain, text: str) -> str:
    [item] = brain.remember(text, chunks=False).items
    return item.id or ""


def _ask(brain: Brain, question: LanguageQuestion, *, answer: str) -> LanguageResult:
    lists = search(brain, question.text)
    recalled = [item.id for item in brain.recall(question.text, bump=False).items]
    number = ids.parse(ids.MEMORY, answer)
    return LanguageResult(
        language=question.language,
        sort=question.sort,
        half=question.half,
        text=question.text if question.half is CalibrationSplit.CALIBRATE else None,
        words=_place(list(lists.words), number),
        model=_place(list(lists.vector), number),
        recall=_place(recalled, answer),
    )


def _place(found: Sequence[object], expected: object) -> int | None:
    return found.index(expected) + 1 if expected in found else None


def _figures(rows: Sequence[LanguageResult], languages: Sequence[str]) -> Iterator[Figure]:
    for half in CalibrationSplit:
        for sort in QuestionSort:
            group = [row for row in rows if row.half is half and row.sort is sort]
            for language in languages:
                own = [row for row in group if row.language == language]
                if own:
                    yield {"half": half, "sort": sort, "language": language, **_shares(own)}
            yield {"half": half, "sort": sort, "language": "all", **_shares(group)}


def _shares(rows: Sequence[LanguageResult]) -> Mapping[str, object]:
    return {
        "questions": len(rows),
        **{
            f"{name}_{most}": share(
                (place := getattr(row, name)) is not None and place <= most for row in rows
            )
            for name in ("words", "model", "recall")
            for most in (1, _FEW)
        },
    }


def show_languages(report: LanguageReport) -> None:
    """Print the figures, and the questions of the half calibrate that recall did not answer."""
    columns = tuple(name for name in report.figures[0] if name != "half")
    for half in CalibrationSplit:
        own = [figure for figure in report.figures if figure["half"] is half]
        show_figures(f"Languages, {half}, {report.model}", own, columns=columns)
    show_lines(
        f"{row.language} {row.sort}: {row.text}"
        for row in report.rows
        if row.text is not None and (row.recall is None or row.recall > _FEW)
    )
    show_lines([report.data])
