"""Derived headlines, measured on labelled texts: whether each carries what the text is about."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from rich.console import Console
from rich.table import Table

from commonbrain.model.limits import HEADLINE_CHARS_MAX, HEADLINE_WORDS_MAX
from commonbrain.text.headlines import derive_headline
from commonbrain_evals.rows import Half, half_of, read_rows

_FILE: Final = "headlines.jsonl"
_DATA: Final = (
    "headlines.jsonl: {rows} texts written for it. A headline is informative when it has every word"
    " or phrase that its row requires, does not begin with what the row excludes, and keeps to the"
    " limits of words and characters. All were written by one hand, before the rules; the rules"
    " were chosen on the half calibrate."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledText:
    """A text, and what its headline must and must not say."""

    sort: str
    text: str
    must: tuple[str, ...]
    """Words or phrases that the headline contains; `a|b` is one of two."""
    never: tuple[str, ...]
    """What the headline does not begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One headline and what is wrong with it."""

    sort: str
    half: Half
    text: str
    headline: str
    missing: tuple[str, ...]
    """What it had to contain."""
    opening: str | None
    """What it begins with and must not."""
    is_too_long: bool
    is_informative: bool
    """Whether nothing is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many headlines of one sort and half are informative."""

    sort: str
    half: Half
    rows: int
    informative: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineReport:
    """The whole evaluation."""

    data: str
    sha256: str
    """Of the data."""
    halves: tuple[Share, ...]
    sorts: tuple[Share, ...]
    rows: tuple[Judgement, ...]
    """One of each text, in the order of the data."""


def read_texts() -> Sequence[LabelledText]:
    """Read the texts that ship with the package, in the order of the file."""
    return [
        LabelledText(
            sort=row["sort"],
            text=row["text"],
            must=tuple(row["must"]),
            never=tuple(row["never"]),
        )
        for row in read_rows(_FILE)
    ]


def evaluate(
    texts: Sequence[LabelledText], derive: Callable[[str], str] = derive_headline
) -> HeadlineReport:
    """Derive a headline of every text and hold it against its labels."""
    rows = tuple(_judgement(one, derive(one.text)) for one in texts)
    sorts = dict.fromkeys(one.sort for one in rows)
    return HeadlineReport(
        data=_DATA.format(rows=len(rows)),
        sha256=hashlib.sha256(files("commonbrain_evals").joinpath(_FILE).read_bytes()).hexdigest(),
        halves=tuple(
            _share("all", half, rows=[one for one in rows if one.half is half]) for half in Half
        ),
        sorts=tuple(
            _share(sort, half, rows=[one for one in rows if one.sort == sort and one.half is half])
            for sort in sorts
            for half in Half
        ),
        rows=rows,
    )


def show_headlines(report: HeadlineReport, *, failures: Half = Half.CALIBRATE) -> None:
    """Print the shares by sort and half, and the failures of one half."""
    console = Console(highlight=False)
    console.print(report.data, markup=False)
    console.print(f"sha256 {report.sha256}", markup=False)
    table = Table("sort", *Half, title="Informative headlines")
    for share, other in _pairs((*report.sorts, *report.halves)):
        table.add_row(share.sort, _cell(share), _cell(other))
    console.print(table)
    for one in report.rows:
        if one.half is failures and not one.is_informative:
            console.print(_failure(one), markup=False)


def _judgement(labelled: LabelledText, headline: str) -> Judgement:
    normalized = " ".join(headline.split()).casefold()
    missing = tuple(
        one
        for one in labelled.must
        if not any(choice.casefold() in normalized for choice in one.split("|"))
    )
    opening = next((one for one in labelled.never if normalized.startswith(one.casefold())), None)
    is_too_long = len(headline) > HEADLINE_CHARS_MAX or len(normalized.split()) > HEADLINE_WORDS_MAX
    return Judgement(
        sort=labelled.sort,
        half=half_of(labelled.text),
        text=labelled.text,
        headline=headline,
        missing=missing,
        opening=opening,
        is_too_long=is_too_long,
        is_informative=not (missing or opening or is_too_long),
    )


def _share(sort: str, half: Half, *, rows: Sequence[Judgement]) -> Share:
    informative = sum(one.is_informative for one in rows)
    return Share(sort=sort, half=half, rows=len(rows), informative=informative)


def _pairs(shares: Sequence[Share]) -> Sequence[tuple[Share, Share]]:
    return list(zip(shares[::2], shares[1::2], strict=True))


def _cell(share: Share) -> str:
    percent = f" ({share.informative / share.rows:.0%})" if share.rows else ""
    return f"{share.informative}/{share.rows}{percent}"


def _failure(one: Judgement) -> str:
    reasons = [
        *(f"lacks {missing!r}" for missing in one.missing),
        *([f"begins with {one.opening!r}"] if one.opening else []),
        *(["is too long"] if one.is_too_long else []),
    ]
    return f"{one.half} {one.sort}: {one.text!r} -> {one.headline!r} {', '.join(reasons)}"
