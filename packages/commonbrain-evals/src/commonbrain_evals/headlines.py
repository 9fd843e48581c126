"""Derived headlines, measured on labelled texts: whether each says the point of its text."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain_models.calibration import CalibrationSplit

from commonbrain.model.limits import HEADLINE_CHARS_MAX, HEADLINE_WORDS_MAX
from commonbrain.text.headlines import derive_headline
from commonbrain.text.words import read_words
from commonbrain_evals.labelled import (
    Figure,
    digest_of,
    group_rows,
    read_rows,
    share,
    show_figures,
    show_lines,
)

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
    """Words or phrases that the headline does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineJudgement:
    """One headline and what is wrong with it."""

    sort: str
    half: CalibrationSplit
    text: str
    headline: str
    missing: tuple[str, ...]
    """Required words that it lacks."""
    unwanted: tuple[str, ...]
    """Excluded words that it has."""
    is_too_long: bool
    is_strict: bool
    """Whether nothing is wrong."""
    is_lenient: bool
    """Whether it has half of what is required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineReport:
    """The whole evaluation."""

    data: str
    sha256: str
    """Of the data."""
    figures: tuple[Figure, ...]
    """The shares of each sort and half, and the mean number of words."""
    rows: tuple[HeadlineJudgement, ...]
    """One of each text, in the order of the data."""


def read_texts() -> Sequence[HeadlineCase]:
    """Read the texts that ship with the package, in the order of the file."""
    return read_rows(HeadlineCase, _FILE)


def evaluate(
    texts: Sequence[HeadlineCase], derive: Callable[[str], str] = derive_headline
) -> HeadlineReport:
    """Derive a headline of every text and compare it with its labels."""
    rows = [_judge(case, derive(case.text)) for case in texts]
    figures = tuple(
        {
            **names,
            "rows": len(group),
            "strict": share(row.is_strict for row in group),
            "lenient": share(row.is_lenient for row in group),
            "words": sum(len(row.headline.split()) for row in group) / len(group),
        }
        for names, group in group_rows(rows)
    )
    return HeadlineReport(
        data=_DATA.format(rows=len(rows)),
        sha256=digest_of(_FILE),
        figures=figures,
        rows=tuple(rows),
    )


def show_headlines(report: HeadlineReport) -> None:
    """Print the shares by sort and half, and the failures of the half calibrate."""
    figures = [{**figure, "words": f"{figure['words']:.1f}"} for figure in report.figures]
    show_lines([report.data, f"sha256 {report.sha256}"])
    show_figures(
        "Headlines", figures, columns=("half", "sort", "rows", "strict", "lenient", "words")
    )
    show_lines(
        f"{row.sort}: {row.text!r} -> {row.headline!r} {', '.join(_reasons(row))}"
        for row in report.rows
        if row.half is CalibrationSplit.CALIBRATE and not row.is_strict
    )


def _judge(labelled: HeadlineCase, headline: str) -> HeadlineJudgement:
    stems = {word.stem for word in read_words(headline)}
    missing = tuple(
        phrase
        for phrase in labelled.must
        if not any({word.stem for word in read_words(form)} <= stems for form in phrase.split("|"))
    )
    unwanted = tuple(
        phrase
        for phrase in labelled.never
        if re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", headline, re.IGNORECASE)
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


def _reasons(row: HeadlineJudgement) -> Iterator[str]:
    yield from (f"lacks {phrase!r}" for phrase in row.missing)
    yield from (f"has {phrase!r}" for phrase in row.unwanted)
    if row.is_too_long:
        yield "is too long"
