"""Derived headlines, measured on labelled texts: whether each says the point of its text."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from commonbrain_models.calibration import CalibrationSplit
from rich.console import Console
from rich.table import Table

from commonbrain.model.limits import HEADLINE_CHARS_MAX, HEADLINE_WORDS_MAX
from commonbrain.text.headlines import derive_headline
from commonbrain.text.words import read_words
from commonbrain_evals.rows import read_rows

_FILE: Final = "headlines.jsonl"
_DATA: Final = (
    "headlines.jsonl: {rows} texts written for it. strict: the headline has the stems of every word"
    " or phrase that its row requires, nothing that the row excludes, and keeps to the limits of"
    " words and characters; lenient: it has half of what is required. The weights were fitted to"
    " the half calibrate; the 150 notes of the half check were written by another hand"
    " without sight of the rules, and its failures are not listed."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineCase:
    """A text, and what its headline must and must not say."""

    sort: str
    half: CalibrationSplit
    text: str
    must: tuple[str, ...]
    """Words or phrases that the headline has, in any form; `a|b` is one of two."""
    never: tuple[str, ...]
    """What the headline does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineJudgement:
    """One headline and what is wrong with it."""

    sort: str
    half: CalibrationSplit
    text: str
    headline: str
    missing: tuple[str, ...]
    """What it had to say."""
    unwanted: tuple[str, ...]
    """What it says and must not."""
    is_too_long: bool
    is_strict: bool
    """Whether nothing is wrong."""
    is_lenient: bool
    """Whether it has half of what it had to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineFigures:
    """The shares of one sort and half, and the mean number of words."""

    sort: str
    half: CalibrationSplit
    rows: int
    strict: float
    lenient: float
    words: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineReport:
    """The whole evaluation."""

    data: str
    sha256: str
    """Of the data."""
    figures: tuple[HeadlineFigures, ...]
    rows: tuple[HeadlineJudgement, ...]
    """One of each text, in the order of the data."""


def read_texts() -> Sequence[HeadlineCase]:
    """Read the texts that ship with the package, in the order of the file."""
    return [
        HeadlineCase(
            sort=row["sort"],
            half=CalibrationSplit(row["half"]),
            text=row["text"],
            must=tuple(row["must"]),
            never=tuple(row["never"]),
        )
        for row in read_rows(_FILE)
    ]


def evaluate(
    texts: Sequence[HeadlineCase], derive: Callable[[str], str] = derive_headline
) -> HeadlineReport:
    """Derive a headline of every text and compare it with its labels."""
    rows = tuple(_judgement(one, derive(one.text)) for one in texts)
    return HeadlineReport(
        data=_DATA.format(rows=len(rows)),
        sha256=hashlib.sha256(files("commonbrain_evals").joinpath(_FILE).read_bytes()).hexdigest(),
        figures=tuple(_figures(rows)),
        rows=rows,
    )


def show_headlines(report: HeadlineReport) -> None:
    """Print the shares by sort and half, and the failures of the half calibrate."""
    console = Console(highlight=False)
    console.print(report.data, markup=False)
    console.print(f"sha256 {report.sha256}", markup=False)
    table = Table("half", "sort", "texts", "strict", "lenient", "words", title="Headlines")
    for one in report.figures:
        shares = (f"{one.strict:.0%}", f"{one.lenient:.0%}", f"{one.words:.1f}")
        table.add_row(one.half, one.sort, str(one.rows), *shares)
    console.print(table)
    for one in report.rows:
        if one.half is CalibrationSplit.CALIBRATE and not one.is_strict:
            console.print(_failure(one), markup=False)


def _judgement(labelled: HeadlineCase, headline: str) -> HeadlineJudgement:
    stems = {word.stem for word in read_words(headline)}
    missing = tuple(
        one
        for one in labelled.must
        if not any({word.stem for word in read_words(part)} <= stems for part in one.split("|"))
    )
    unwanted = tuple(
        one
        for one in labelled.never
        if re.search(rf"(?<!\w){re.escape(one)}(?!\w)", headline, re.IGNORECASE)
    )
    is_too_long = len(headline) > HEADLINE_CHARS_MAX or len(headline.split()) > HEADLINE_WORDS_MAX
    return HeadlineJudgement(
        sort=labelled.sort,
        half=labelled.half,
        text=labelled.text,
        headline=headline,
        missing=missing,
        unwanted=unwanted,
        is_too_long=is_too_long,
        is_strict=not (missing or unwanted or is_too_long),
        is_lenient=2 * len(missing) <= len(labelled.must) and not is_too_long,
    )


def _figures(rows: Sequence[HeadlineJudgement]) -> Iterator[HeadlineFigures]:
    for half in CalibrationSplit:
        for sort in dict.fromkeys(one.sort for one in rows):
            those = [one for one in rows if one.sort == sort and one.half is half]
            if those:
                yield HeadlineFigures(
                    sort=sort,
                    half=half,
                    rows=len(those),
                    strict=sum(one.is_strict for one in those) / len(those),
                    lenient=sum(one.is_lenient for one in those) / len(those),
                    words=sum(len(one.headline.split()) for one in those) / len(those),
                )


def _failure(one: HeadlineJudgement) -> str:
    reasons = [
        *(f"lacks {missing!r}" for missing in one.missing),
        *(f"has {unwanted!r}" for unwanted in one.unwanted),
        *(["is too long"] if one.is_too_long else []),
    ]
    return f"{one.sort}: {one.text!r} -> {one.headline!r} {', '.join(reasons)}"
