"""What learning changed, for people: what was learnt of each half, and where it did not help."""

from collections.abc import Iterator
from typing import Final

from rich.console import Console

from commonbrain.model.escaping import inert_line
from commonbrain_evals.retrieval.learning import Half, Learning
from commonbrain_evals.retrieval.record import ALL
from commonbrain_evals.retrieval.tables import show_comparison

_DECISIVE: Final = "nDCG@10"
_HEADINGS: Final = 6
"""Features that are named, those that tell most."""


def show_learning(learning: Learning) -> None:
    """Print what learning changed."""
    console = Console(highlight=False)
    for line in learning_lines(learning):
        console.print(inert_line(line), markup=False)
    show_comparison(learning.comparison)
    console.print(unimproved_categories(learning), markup=False)


def learning_lines(learning: Learning) -> Iterator[str]:
    """Say what was learnt from."""
    yield (
        f"{learning.dataset}: {learning.memories} memories in one store, seed {learning.seed}, "
        f"{learning.noise:.0%} of the marks misplaced"
    )
    for number, half in enumerate(learning.halves, 1):
        yield from _of_half(number, half)


def _of_half(number: int, half: Half) -> Iterator[str]:
    half_text = ", ".join(f"{name} {value}" for name, value in half.job.items())
    count = len(half.conversations)
    yield f"half {number}: {count} conversations, {half.recalls} recalls, {half.marks} marks"
    yield f"  the job: {half_text}"
    if half.importances:
        best = list(half.importances.items())[:_HEADINGS]
        yield "  it goes by " + ", ".join(f"{name} {importance:.0%}" for name, importance in best)
        yield f"  recalls of the other half that fixed weights ordered: {half.fallback_count}"
    else:
        yield "  nothing serves: the other half is asked with fixed weights both times"


def unimproved_categories(learning: Learning) -> str:
    """Name the categories in which it did not help beyond noise."""
    rows = [row for row in learning.comparison.rows if row.metric == _DECISIVE]
    names = [row.category for row in rows if row.category != ALL and row.difference.low <= 0]
    return f"No help beyond noise ({_DECISIVE}): {', '.join(names) or 'nowhere'}"
