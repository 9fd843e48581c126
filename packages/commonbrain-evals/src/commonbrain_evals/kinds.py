"""Kinds, measured on labelled texts, and the table of weights fitted to one half of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from commonbrain_models.calibration import CalibrationSplit
from numpy.typing import NDArray

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.text.classification import PREDICTED, ROW, classify, read_features
from commonbrain_evals.labelled import (
    Figure,
    digest_of,
    read_rows,
    share,
    show_figures,
    show_lines,
)

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
    """A text, and the kind and label that it should have."""

    text: str
    kind: Kind
    label: str | None
    half: CalibrationSplit

    @property
    def expected(self) -> Kind:
        """The kind; an incident if it is an event that is labelled a bug."""
        is_bug = self.kind is Kind.EVENT and self.label == "bug"
        return Kind.INCIDENT if is_bug else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class KindJudgement:
    """What one text was taken for; the text only of the half calibrate."""

    half: CalibrationSplit
    expected: Kind
    predicted: Kind
    is_right: bool
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindReport:
    """The whole evaluation."""

    data: str
    sha256: str
    """Of the data."""
    figures: tuple[Figure, ...]
    """The shares of each kind and half."""
    rows: tuple[KindJudgement, ...]


def read_texts() -> Sequence[KindCase]:
    """Read the texts that ship with the package, in the order of the file."""
    return read_rows(KindCase, _FILE)


def evaluate(texts: Sequence[KindCase]) -> KindReport:
    """Classify the texts: those of calibrate by folds, those of check as the product does."""
    calibrate = [text for text in texts if text.half is CalibrationSplit.CALIBRATE]
    check = [text for text in texts if text.half is CalibrationSplit.CHECK]
    rows = [
        *map(_judgement, calibrate, _by_folds(calibrate)),
        *map(_judgement, check, [classify(text.text) for text in check]),
    ]
    return KindReport(
        data=_DATA.format(rows=len(rows)),
        sha256=digest_of(_FILE),
        figures=tuple(
            _figure(kind, [row for row in rows if row.half is half], half=half)
            for half in CalibrationSplit
            for kind in ("all", *PREDICTED)
        ),
        rows=tuple(rows),
    )


def fit_weights(path: Path) -> int:
    """Fit the weights to the half calibrate and write the table; return the number of its rows.

    Raises:
        InvalidInputError: the file cannot be written.

    """
    texts = [text for text in read_texts() if text.half is CalibrationSplit.CALIBRATE]
    matrix, features = _matrix(texts)
    weights = matrix.T @ _solve(matrix @ matrix.T, [text.expected for text in texts])
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
        kinds: list[Kind] = [texts[int(place)].expected for place in learned]
        shares = _solve(products[np.ix_(learned, learned)], kinds)
        scores = products[np.ix_(judged, learned)] @ shares
        for place, best in zip(judged.tolist(), scores.argmax(axis=1).tolist(), strict=True):
            predicted[place] = PREDICTED[best]
    return predicted


def _matrix(texts: Sequence[KindCase]) -> tuple[_Matrix, list[int]]:
    """Return the values of the features, one row per text, and the features of the columns."""
    read = [read_features(text.text) for text in texts]
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
    targets = np.array(
        [[1.0 if kind is column else -1.0 for column in PREDICTED] for kind in kinds]
    )
    counts = Counter(kinds)
    rarity = np.array([len(kinds) / len(counts) / counts[kind] for kind in kinds])
    return np.linalg.solve(products + np.diag(_RIDGE / rarity), targets)


def _judgement(labelled: KindCase, predicted: Kind) -> KindJudgement:
    return KindJudgement(
        half=labelled.half,
        expected=labelled.expected,
        predicted=predicted,
        is_right=predicted is labelled.expected or {predicted, labelled.expected} <= _HAPPENED,
        text=labelled.text if labelled.half is CalibrationSplit.CALIBRATE else None,
    )


def _figure(kind: str, rows: Sequence[KindJudgement], *, half: CalibrationSplit) -> Figure:
    those = [row for row in rows if kind in {"all", row.expected}]
    return {
        "half": half,
        "kind": str(kind),
        "texts": len(those),
        "right": share(row.is_right for row in those) or 0.0,
        "exactly_right": share(row.predicted is row.expected for row in those) or 0.0,
    }


def show_kinds(report: KindReport) -> None:
    """Print the shares by half and kind, and the failures of the half calibrate."""
    columns = ("half", "kind", "texts", "right", "exactly_right")
    show_figures("Kinds", report.figures, columns=columns)
    show_lines(
        f"{row.expected}, taken for {row.predicted}: {row.text}"
        for row in report.rows
        if row.text is not None and not row.is_right
    )
    show_lines([report.data])
