"""The rules for repetitions and conflicts and the threshold of hints, on the labelled pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from commonbrain_models.calibration import (
    GRID,
    SIMILAR_RECALL_MIN,
    CalibrationSplit,
    Label,
    Pair,
    ScoredPairs,
    choose_similar_threshold,
)
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from commonbrain.embeddings.interface import Embedder, Matrix
from commonbrain.ingestion import deduplication
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.text.changes import find_change
from commonbrain.text.repetition import adds_nothing
from commonbrain_evals.labelled import AGREEMENT_COLUMNS, INTERVAL_NOTE, agreement_cells
from commonbrain_evals.measures import (
    Agreement,
    CheckedAgreement,
    Flags,
    agreement,
    checked,
)
from commonbrain_evals.retrieval.plots import lines

_EMBEDDED_AT_ONCE: Final = 32
_UNLIKE: Final = (Label.NEAR_MISS, Label.UNRELATED)
_CRITERION: Final = (
    "similar_threshold is the highest threshold that brings at least"
    f" {SIMILAR_RECALL_MIN} of paraphrases and updates. From there texts are compared by their"
    " words: a duplicate is a paraphrase in which nothing else differs, and no update."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How similar the pairs of one label are, as cosines."""

    label: Label
    pairs: int
    p5: float
    p50: float
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdResult:
    """What one threshold would find on the half that is chosen by."""

    threshold: float
    similar: Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """How the chosen threshold and the rules do on one half."""

    half: CalibrationSplit
    pairs: int
    duplicate: CheckedAgreement
    updates_refused: int
    """Updates taken for duplicates: news that only insisting would bring in."""
    unlike_refused: int
    """Near misses and unrelated texts taken for duplicates."""
    similar: CheckedAgreement
    conflict: CheckedAgreement
    """Over facts at or above the threshold for hints; an update is one, all else is none."""
    recurrence: CheckedAgreement
    """Over events; an update states the same thing at another time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicatesReport:
    """The whole evaluation in one space."""

    space: str
    criterion: str
    spreads: tuple[Spread, ...]
    steps: tuple[ThresholdResult, ...]
    similar_threshold: float
    configured_similar_threshold: float
    findings: tuple[Findings, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored(ScoredPairs):
    """Pairs side by side with everything that is known of them, one row each."""

    kinds: NDArray[np.str_]
    halves: NDArray[np.str_]
    are_repetitions: Flags
    are_conflicts: Flags
    recur: Flags

    def of(self, half: CalibrationSplit) -> "_Scored":
        """Return one half of them."""
        return self.at(np.flatnonzero(self.halves == half))


def evaluate(
    pairs: Sequence[Pair], embedder: Embedder, *, on_progress: Progress = ignore_progress
) -> DuplicatesReport:
    """Measure, choose the threshold on one half, and see on the other what it is worth.

    Raises:
        InvalidInputError: no threshold meets the criterion in this space.
        UnavailableError: `embedder_down`.

    """
    scored = _score(pairs, embedder, on_progress=on_progress)
    chosen_by = scored.of(CalibrationSplit.CALIBRATE)
    steps = tuple(_step(chosen_by, threshold) for threshold in GRID)
    similar_threshold = choose_similar_threshold(chosen_by)
    if similar_threshold is None:
        raise InvalidInputError(
            "No threshold meets the criterion in this vector space.",
            hint="Choose another embedder.",
        )
    return DuplicatesReport(
        space=embedder.space.name,
        criterion=_CRITERION,
        spreads=tuple(_spread(scored, label) for label in Label),
        steps=steps,
        similar_threshold=similar_threshold,
        configured_similar_threshold=embedder.space.similar_threshold,
        findings=tuple(
            _findings(scored.of(half), half, similar_threshold=similar_threshold)
            for half in CalibrationSplit
        ),
    )


def _score(pairs: Sequence[Pair], embedder: Embedder, *, on_progress: Progress) -> _Scored:
    both = [text for pair in pairs for text in (pair.one, pair.other)]
    vectors: list[Matrix] = []
    for start in range(0, len(both), _EMBEDDED_AT_ONCE):
        # Pairs are short: the first window of each text is the whole of it.
        batch = embedder.passages(both[start : start + _EMBEDDED_AT_ONCE])
        vectors += [windows[0] for windows in batch]
        on_progress(len(vectors) / len(both))
    first_vectors, second_vectors = np.stack(vectors[::2]), np.stack(vectors[1::2])

    def flags(rule: Callable[[Pair], bool]) -> Flags:
        return np.array([rule(pair) for pair in pairs], np.bool_)

    return _Scored(
        labels=np.array([pair.label.value for pair in pairs]),
        kinds=np.array([pair.kind.value for pair in pairs]),
        halves=np.array([pair.half.value for pair in pairs]),
        similarities=np.sum(first_vectors.astype(np.float64) * second_vectors, axis=1),
        are_repetitions=flags(lambda pair: adds_nothing(pair.one, known=pair.other)),
        are_conflicts=flags(lambda pair: find_change(pair.one, pair.other) is not None),
        recur=flags(lambda pair: deduplication.is_repetition(pair.one, pair.other)),
    )


def _spread(scored: _Scored, label: Label) -> Spread:
    similarities = scored.similarities[scored.labelled(label)]
    p5, p50, p95 = (round(float(q), 3) for q in np.quantile(similarities, (0.05, 0.5, 0.95)))
    return Spread(label=label, pairs=len(similarities), p5=p5, p50=p50, p95=p95)


def _step(scored: _Scored, threshold: float) -> ThresholdResult:
    is_near = scored.labelled(Label.PARAPHRASE, Label.UPDATE)
    return ThresholdResult(
        threshold=threshold,
        similar=agreement(scored.similarities >= threshold, is_near),
    )


def _findings(rows: _Scored, half: CalibrationSplit, *, similar_threshold: float) -> Findings:
    is_update, is_near = rows.labelled(Label.UPDATE), rows.similarities >= similar_threshold
    refused = rows.are_repetitions & is_near
    is_fact, is_event = rows.kinds == Kind.FACT, rows.kinds == Kind.EVENT
    return Findings(
        half=half,
        pairs=len(rows.labels),
        duplicate=checked(refused, rows.labelled(Label.PARAPHRASE)),
        updates_refused=int((refused & is_update).sum()),
        unlike_refused=int((refused & rows.labelled(*_UNLIKE)).sum()),
        similar=checked(is_near, rows.labelled(Label.PARAPHRASE, Label.UPDATE)),
        conflict=checked((rows.are_conflicts & is_near)[is_fact], is_update[is_fact]),
        recurrence=checked(rows.recur[is_event], is_update[is_event]),
    )


_EVERY = 5
"""The grid is chosen from in hundredths and shown in steps of five."""


def show_duplicates(report: DuplicatesReport) -> None:
    """Print a report."""
    console = Console(highlight=False)
    console.print(f"space {report.space}", markup=False)
    console.print(_similarity_table(report))
    console.print(_threshold_table(report))
    console.print(f"Criterion: {report.criterion}", markup=False)
    console.print(
        f"chosen: similar_threshold {report.similar_threshold}; configured: "
        f"{report.configured_similar_threshold}"
    )
    console.print(_findings_table(report))
    for half in report.findings:
        console.print(
            f"{half.half}: of {half.duplicate.agreement.predicted} taken for duplicates"
            f" {half.updates_refused} are updates, {half.unlike_refused} near misses or unrelated"
        )
    console.print("Conflicts are judged on facts, recurrences on events.")
    console.print(INTERVAL_NOTE)


def _similarity_table(report: DuplicatesReport) -> Table:
    table = Table("label", "pairs", "p5", "p50", "p95", title="Similarity")
    for spread in report.spreads:
        table.add_row(
            spread.label,
            str(spread.pairs),
            *(f"{q:.3f}" for q in (spread.p5, spread.p50, spread.p95)),
        )
    return table


def _threshold_table(report: DuplicatesReport) -> Table:
    table = Table("at", "similar P R F1")
    table.title = "Threshold, on the half that is chosen by"
    for step in report.steps:
        is_chosen = step.threshold == report.similar_threshold
        if round(step.threshold * 100) % _EVERY == 0 or is_chosen:
            one = step.similar
            figures = f"{one.precision:.3f} {one.recall:.3f} {one.f1:.3f}"
            table.add_row(f"{step.threshold:.2f}", figures, style="bold" if is_chosen else None)
    return table


def _findings_table(report: DuplicatesReport) -> Table:
    table = Table("half", "judged", *AGREEMENT_COLUMNS)
    table.title = "The chosen threshold and the rules"
    for findings in report.findings:
        for name, checked_agreement in (
            ("duplicate", findings.duplicate),
            ("similar", findings.similar),
            ("conflict", findings.conflict),
            ("recurs", findings.recurrence),
        ):
            table.add_row(findings.half, name, *agreement_cells(checked_agreement))
    return table


def draw_curves(report: DuplicatesReport) -> str:
    """Draw precision and recall over the threshold as SVG."""
    steps = report.steps
    series = {
        "similar: precision": [step.similar.precision for step in steps],
        "similar: recall": [step.similar.recall for step in steps],
    }
    marks = {"similar_threshold": report.configured_similar_threshold}
    return lines([step.threshold for step in steps], series, across="cosine", marks=marks)
