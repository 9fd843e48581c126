"""The duplicate bands and the rule for conflicts, measured on the labelled pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import numpy as np
from numpy.typing import NDArray

from commonbrain.domain import conflicts, duplicates
from commonbrain.domain.errors import Invalid
from commonbrain.domain.kinds import Kind
from commonbrain.domain.statement import Statement
from commonbrain.evals.measures import Agreement, Checked, Flags, agreement, checked
from commonbrain.evals.pairs import Half, Label, Pair
from commonbrain.ports.models import Embedder

DUPLICATE_PRECISION_MIN: Final = 0.98
"""One refusal in fifty may be wrong; who is refused is told of what, and can insist."""
SIMILAR_RECALL_MIN: Final = 0.9
"""A hint costs a line, so it may be wrong more often than it may miss."""
GRID: Final = tuple(n / 100 for n in range(30, 100))
_CRITERION: Final = (
    "duplicate_at is the lowest threshold from which the expected precision stays at least"
    f" {DUPLICATE_PRECISION_MIN}: of what is as similar, paraphrases that the rule lets pass count"
    " as right, and near misses as wrong by the share of all near misses that the rule lets pass,"
    " so that the threshold does not lean on which ones it happened to catch. similar_at is the"
    f" highest that brings at least {SIMILAR_RECALL_MIN} of paraphrases and updates."
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
class Step:
    """What one threshold would do on the half that is chosen by."""

    threshold: float
    duplicate: Agreement
    """As the gate judges: similarity and the rule, over all labels."""
    expected_precision: float
    """As the criterion counts it."""
    similar: Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """How the chosen thresholds and the rules do on one half."""

    half: Half
    pairs: int
    duplicate: Checked
    updates_refused: int
    """Updates taken for duplicates: news that only insisting would bring in."""
    similar: Checked
    conflict: Checked
    """Over facts at or above the threshold for hints; an update is one, all else is none."""
    recurrence: Checked
    """Over events; an update tells of the same thing at another time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole evaluation in one space."""

    space: str
    criterion: str
    spreads: tuple[Spread, ...]
    steps: tuple[Step, ...]
    duplicate_at: float
    similar_at: float
    configured_duplicate_at: float
    configured_similar_at: float
    findings: tuple[Findings, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """Pairs side by side with everything that is known of them, one row each."""

    labels: NDArray[np.str_]
    kinds: NDArray[np.str_]
    halves: NDArray[np.str_]
    similarities: NDArray[np.float64]
    are_news: Flags
    are_conflicts: Flags
    recur: Flags

    def of(self, half: Half) -> "_Scored":
        """Give one half of them."""
        kept = self.halves == half
        return _Scored(
            labels=self.labels[kept],
            kinds=self.kinds[kept],
            halves=self.halves[kept],
            similarities=self.similarities[kept],
            are_news=self.are_news[kept],
            are_conflicts=self.are_conflicts[kept],
            recur=self.recur[kept],
        )

    def labelled(self, *labels: Label) -> Flags:
        return np.isin(self.labels, labels)

    def duplicate(self, threshold: float) -> Flags:
        return (self.similarities >= threshold) & ~self.are_news

    def expected_precision(self, threshold: float) -> float:
        """Weigh near misses by how often the rule misses one at any similarity."""
        is_wrong = self.labelled(Label.NEAR_MISS, Label.UNRELATED)
        missed = float((~self.are_news[self.labelled(Label.NEAR_MISS)]).mean())
        right = int((self.duplicate(threshold) & self.labelled(Label.PARAPHRASE)).sum())
        wrong = missed * int(((self.similarities >= threshold) & is_wrong).sum())
        return round(right / (right + wrong), 4) if right else 0.0


def evaluate(pairs: Sequence[Pair], embedder: Embedder) -> Report:
    """Measure, choose thresholds on one half, and see on the other what they are worth.

    Raises:
        Invalid: no threshold meets the criterion in this space.
        Unavailable: `embedder_down`.

    """
    scored = _score(pairs, embedder)
    steps = tuple(_step(scored.of(Half.CALIBRATE), threshold) for threshold in GRID)
    duplicate_at, similar_at = _chosen(steps)
    return Report(
        space=embedder.space.name,
        criterion=_CRITERION,
        spreads=tuple(_spread(scored, label) for label in Label),
        steps=steps,
        duplicate_at=duplicate_at,
        similar_at=similar_at,
        configured_duplicate_at=embedder.space.duplicate_at,
        configured_similar_at=embedder.space.similar_at,
        findings=tuple(
            _findings(scored, half, duplicate_at=duplicate_at, similar_at=similar_at)
            for half in Half
        ),
    )


def _score(pairs: Sequence[Pair], embedder: Embedder) -> _Scored:
    # Pairs are short: the first window of each text is the whole of it.
    ones = np.stack([windows[0] for windows in embedder.passages([p.one for p in pairs])])
    others = np.stack([windows[0] for windows in embedder.passages([p.other for p in pairs])])

    def each(says: Callable[[Pair], bool]) -> Flags:
        return np.array([says(pair) for pair in pairs], np.bool_)

    return _Scored(
        labels=np.array([pair.label.value for pair in pairs]),
        kinds=np.array([pair.kind.value for pair in pairs]),
        halves=np.array([pair.half.value for pair in pairs]),
        similarities=np.sum(ones.astype(np.float64) * others, axis=1),
        are_news=each(lambda pair: duplicates.contradicts(pair.one, pair.other)),
        are_conflicts=each(_conflicts),
        recur=each(lambda pair: duplicates.recurs(pair.one, pair.other)),
    )


def _conflicts(pair: Pair) -> bool:
    return conflicts.judge(Statement(text=pair.one), Statement(text=pair.other)) is not None


def _spread(scored: _Scored, label: Label) -> Spread:
    similarities = scored.similarities[scored.labelled(label)]
    p5, p50, p95 = (round(float(q), 3) for q in np.quantile(similarities, (0.05, 0.5, 0.95)))
    return Spread(label=label, pairs=len(similarities), p5=p5, p50=p50, p95=p95)


def _step(scored: _Scored, threshold: float) -> Step:
    is_same = scored.labelled(Label.PARAPHRASE)
    is_near = scored.labelled(Label.PARAPHRASE, Label.UPDATE)
    return Step(
        threshold=threshold,
        duplicate=agreement(scored.duplicate(threshold), is_same),
        expected_precision=scored.expected_precision(threshold),
        similar=agreement(scored.similarities >= threshold, is_near),
    )


def _chosen(steps: Sequence[Step]) -> tuple[float, float]:
    """Choose both thresholds, never a hint's above a duplicate's."""
    useful = (step for step in reversed(steps) if step.duplicate.said)
    precise = [step.threshold for step in takewhile(_is_precise, useful)]
    complete = [s.threshold for s in steps if s.similar.recall >= SIMILAR_RECALL_MIN]
    if not precise or not complete:
        raise Invalid(
            "No threshold meets the criterion in this vector space.",
            hint="Choose another embedder, or look at the grid with a lower demand.",
        )
    return min(precise), min(max(complete), *precise)


def _is_precise(step: Step) -> bool:
    return step.expected_precision >= DUPLICATE_PRECISION_MIN


def _findings(scored: _Scored, half: Half, *, duplicate_at: float, similar_at: float) -> Findings:
    there = scored.of(half)
    is_update, is_near = there.labelled(Label.UPDATE), there.similarities >= similar_at
    refused = there.duplicate(duplicate_at)
    is_fact, is_event = there.kinds == Kind.FACT, there.kinds == Kind.EVENT
    related = there.labelled(Label.PARAPHRASE, Label.UPDATE)
    return Findings(
        half=half,
        pairs=len(there.labels),
        duplicate=checked(refused, there.labelled(Label.PARAPHRASE)),
        updates_refused=int((refused & is_update).sum()),
        similar=checked(is_near, related),
        conflict=checked((there.are_conflicts & is_near)[is_fact], is_update[is_fact]),
        recurrence=checked(there.recur[is_event], is_update[is_event]),
    )
