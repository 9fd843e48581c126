"""Kinds, measured on labelled texts, and the table of weights fitted to one half of them."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
from commonbrain_models.calibration import CalibrationSplit
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.text.classification import PREDICTED, ROW, classify, read_features
from commonbrain_evals.rows import read_rows

_FILE: Final = "kinds.jsonl"
_DATA: Final = (
    "kinds.jsonl: {rows} texts of many trades and styles. The weights are fitted to the half"
    " calibrate, of which each fifth is judged here by weights fitted to the other four; the half"
    " check was written by others, without sight of the rules. What happened is right as an event"
    " or an incident; exactly_right wants an incident where the text is labelled a bug."
)
_FOLDS: Final = 5
_SEED: Final = 0
_RIDGE: Final = 0.3
"""Chosen by cross-validation among 0.03, 0.1, 0.3 and 1."""
_SEEN_MIN: Final = 2
"""Texts in which a feature must be; one of a single text says nothing of others."""
_OUTLIERS: Final = 0.9995
"""Share of the weights that the range of a byte holds; the few beyond are cut."""
_BYTE_MAX: Final = 127
_HAPPENED: Final = frozenset({Kind.EVENT, Kind.INCIDENT})

_Matrix = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCase:
    """A text and its kind, an incident if it is what happened and labelled a bug."""

    text: str
    kind: Kind
    half: CalibrationSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class KindJudgement:
    """What one text was taken for; the text only of the half calibrate."""

    half: CalibrationSplit
    expected: Kind
    predicted: Kind
    is_right: bool
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindShare:
    """How many texts of a kind and half are right."""

    half: CalibrationSplit
    kind: str
    texts: int
    right: float
    exactly_right: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KindReport:
    """The whole evaluation."""

    data: str
    sha256: str
    """Of the data."""
    figures: tuple[KindShare, ...]
    rows: tuple[KindJudgement, ...]


def read_texts() -> Sequence[KindCase]:
    """Read the texts that ship with the package, in the order of the file."""
    return [
        KindCase(
            text=row["text"],
            kind=Kind.INCIDENT if _is_bug(row["kind"], row["label"]) else Kind(row["kind"]),
            half=CalibrationSplit(row["half"]),
        )
        for row in read_rows(_FILE)
    ]


def _is_bug(kind: str, label: str | None) -> bool:
    return kind == Kind.EVENT and label == "bug"


def evaluate(texts: Sequence[KindCase]) -> KindReport:
    """Classify the texts: those of calibrate by folds, those of check as the product does."""
    calibrate = [one for one in texts if one.half is CalibrationSplit.CALIBRATE]
    check = [one for one in texts if one.half is CalibrationSplit.CHECK]
    rows = [
        *map(_judgement, calibrate, _by_folds(calibrate)),
        *map(_judgement, check, [classify(one.text) for one in check]),
    ]
    return KindReport(
        data=_DATA.format(rows=len(rows)),
        sha256=hashlib.sha256(files("commonbrain_evals").joinpath(_FILE).read_bytes()).hexdigest(),
        figures=tuple(
            _share(kind, half, rows=[one for one in rows if one.half is half])
            for half in CalibrationSplit
            for kind in ("all", *PREDICTED)
        ),
        rows=tuple(rows),
    )


def fit(path: Path) -> int:
    """Fit the weights to the half calibrate and write the table; return the number of its rows.

    Raises:
        InvalidInputError: the file cannot be written.

    """
    texts = [one for one in read_texts() if one.half is CalibrationSplit.CALIBRATE]
    matrix, features = _matrix(texts)
    weights = matrix.T @ _solve(matrix @ matrix.T, [one.kind for one in texts])
    scale = _BYTE_MAX / float(np.quantile(np.abs(weights), _OUTLIERS))
    rounded = np.clip(np.rint(weights * scale), -_BYTE_MAX, _BYTE_MAX).astype(int)
    table = b"".join(
        ROW.pack(feature, *row) for feature, row in zip(features, rounded.tolist(), strict=True)
    )
    try:
        path.write_bytes(table)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written.", hint="Give a file.") from error
    return len(features)


def _by_folds(texts: Sequence[KindCase]) -> list[Kind]:
    matrix, _ = _matrix(texts)
    products = matrix @ matrix.T
    order = np.random.default_rng(_SEED).permutation(len(texts))
    predicted = [Kind.FACT] * len(texts)
    for fold in range(_FOLDS):
        judged = order[fold::_FOLDS]
        learned = np.setdiff1d(order, judged)
        kinds: list[Kind] = [texts[int(place)].kind for place in learned]
        shares = _solve(products[np.ix_(learned, learned)], kinds)
        scores = products[np.ix_(judged, learned)] @ shares
        for place, best in zip(judged.tolist(), scores.argmax(axis=1).tolist(), strict=True):
            predicted[place] = PREDICTED[best]
    return predicted


def _matrix(texts: Sequence[KindCase]) -> tuple[_Matrix, list[int]]:
    """Return the values of the features, one row per text, and the features of the columns."""
    read = [read_features(one.text) for one in texts]
    seen = Counter(feature for features in read for feature in features)
    names = sorted(feature for feature, count in seen.items() if count >= _SEEN_MIN)
    column = {feature: place for place, feature in enumerate(names)}
    matrix = np.zeros((len(texts), len(names)))
    for row, features in enumerate(read):
        for feature, value in features.items():
            if feature in column:
                matrix[row, column[feature]] = value
    return matrix, names


def _solve(products: _Matrix, kinds: Sequence[Kind]) -> _Matrix:
    """Return the share of each text in the weights of ridge regression, shape `(texts, kinds)`.

    `products` are those of the texts' features. All kinds count alike, however many texts there
    are of each.
    """
    targets = np.array([[1.0 if kind is one else -1.0 for one in PREDICTED] for kind in kinds])
    counts = Counter(kinds)
    rarity = np.array([len(kinds) / len(counts) / counts[kind] for kind in kinds])
    return np.linalg.solve(products + np.diag(_RIDGE / rarity), targets)


def _judgement(labelled: KindCase, predicted: Kind) -> KindJudgement:
    return KindJudgement(
        half=labelled.half,
        expected=labelled.kind,
        predicted=predicted,
        is_right=predicted is labelled.kind or {predicted, labelled.kind} <= _HAPPENED,
        text=labelled.text if labelled.half is CalibrationSplit.CALIBRATE else None,
    )


def _share(kind: str, half: CalibrationSplit, *, rows: Sequence[KindJudgement]) -> KindShare:
    own = [one for one in rows if kind in {"all", one.expected}]
    count = max(len(own), 1)
    return KindShare(
        half=half,
        kind=str(kind),
        texts=len(own),
        right=sum(one.is_right for one in own) / count,
        exactly_right=sum(one.predicted is one.expected for one in own) / count,
    )


def show_kinds(report: KindReport) -> None:
    """Print the shares by half and kind, and the failures of the half calibrate."""
    console = Console(highlight=False)
    table = Table("half", "kind", "texts", "right", "exactly right", title="Kinds")
    for one in report.figures:
        table.add_row(
            one.half, one.kind, str(one.texts), f"{one.right:.0%}", f"{one.exactly_right:.0%}"
        )
    console.print(table)
    for one in report.rows:
        if one.text is not None and not one.is_right:
            console.print(
                f"{one.expected}, taken for {one.predicted}: {one.text}",
                markup=False,
                soft_wrap=True,
            )
    console.print(report.data, markup=False, style="dim")
