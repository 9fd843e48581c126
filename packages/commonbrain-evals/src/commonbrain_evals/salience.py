"""Salience, measured on labelled texts: whether noise, ordinary texts and what matters differ."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from commonbrain_models.calibration import CalibrationSplit

from commonbrain.model.limits import SALIENCE_MIN
from commonbrain.text.classification import classify
from commonbrain.text.salience import salience
from commonbrain_evals.labelled import Figure, digest_of, read_rows, show_figures, show_lines

_FILE: Final = "salience.jsonl"
_DATA: Final = (
    "salience.jsonl: {rows} texts, written without sight of the rule. matters and says_something"
    " are areas under the ROC curve: what matters against the rest, and all but noise against"
    " noise. The others are the shares of each label that start archived."
)


class Label(IntEnum):
    """What a text is worth keeping for."""

    NOISE = 0
    ORDINARY = 1
    MATTERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SalienceCase:
    """A text and its label."""

    text: str
    label: Label
    half: CalibrationSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredText:
    """A labelled text with its salience; the text only of the half calibrate."""

    half: CalibrationSplit
    label: Label
    salience: float
    text: str | None

    @property
    def is_archived(self) -> bool:
        """Whether a memory of this text starts archived."""
        return self.salience < SALIENCE_MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class SalienceReport:
    """The whole evaluation."""

    data: str
    sha256: str
    """Of the data."""
    figures: tuple[Figure, ...]
    """One of each half."""
    rows: tuple[ScoredText, ...]


def read_texts() -> Sequence[SalienceCase]:
    """Read the texts that ship with the package, in the order of the file."""
    return read_rows(SalienceCase, _FILE)


def evaluate(texts: Sequence[SalienceCase]) -> SalienceReport:
    """Score the texts as they are remembered without a kind."""
    rows = tuple(
        ScoredText(
            half=one.half,
            label=one.label,
            salience=salience(classify(one.text), one.text),
            text=one.text if one.half is CalibrationSplit.CALIBRATE else None,
        )
        for one in texts
    )
    return SalienceReport(
        data=_DATA.format(rows=len(rows)),
        sha256=digest_of(_FILE),
        figures=tuple(
            {"half": half, **_figure([row for row in rows if row.half is half])}
            for half in CalibrationSplit
        ),
        rows=rows,
    )


def _figure(rows: Sequence[ScoredText]) -> Figure:
    values = np.array([row.salience for row in rows])
    labels = np.array([row.label for row in rows])
    archived = values < SALIENCE_MIN
    return {
        "texts": len(rows),
        "matters": _auroc(values, labels == Label.MATTERS),
        "says_something": _auroc(values, labels > Label.NOISE),
        **{f"{one.name.lower()}_archived": float(archived[labels == one].mean()) for one in Label},
    }


def _auroc(values: np.ndarray, is_higher: np.ndarray) -> float:
    """Return how often a value of the higher class is above one of the lower, ties half."""
    higher, lower = values[is_higher][:, None], values[~is_higher][None, :]
    return float(((higher > lower) + (higher == lower) / 2).mean())


def show_salience(report: SalienceReport) -> None:
    """Print both halves, and of calibrate the texts that are archived or as salient as others."""
    show_figures("Salience", report.figures, columns=tuple(report.figures[0]), digits=1)
    show_lines(_list_doubtful(report.rows))
    show_lines([report.data])


def _list_doubtful(rows: Sequence[ScoredText]) -> Iterator[str]:
    for row in sorted(rows, key=lambda one: one.salience):
        is_wrong = row.label is not Label.NOISE if row.is_archived else row.label is Label.NOISE
        if row.text is not None and is_wrong:
            yield f"{row.salience:.2f} {row.label.name.lower()}: {row.text}"
