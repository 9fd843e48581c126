from datetime import timedelta
from typing import Any

import pytest

from commonbrain.domain import ids
from commonbrain.domain.disputes import conflict_of, preferred
from commonbrain.domain.trust import Trust
from commonbrain.testing.builders import NOON, a_memory

OLD = a_memory(1, "It runs on two cores")


@pytest.mark.requirement("RT-23")
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"occurred_at": NOON + timedelta(days=1)}, ("newer",)),
        ({"trust": Trust.TRUSTED_TOOL}, ("more trusted",)),
        ({"confidence": 0.9}, ("surer",)),
        (
            {"trust": Trust.TRUSTED_TOOL, "occurred_at": NOON - timedelta(days=1)},
            ("more trusted",),
        ),
    ],
)
def test_the_more_trusted_then_newer_then_surer_is_preferred(
    more: dict[str, Any], why: tuple[str, ...]
) -> None:
    new = a_memory(2, "It runs on four cores", **more)
    for pair in ((OLD, new), (new, OLD)):
        assert preferred(*pair) is new
        assert (conflict_of(*pair).preferred, conflict_of(*pair).why) == (
            ids.show(ids.MEMORY, 2),
            why,
        )


@pytest.mark.requirement("RT-23")
@pytest.mark.parametrize(("confidence", "is_close"), [(0.6, True), (0.74, True), (0.76, False)])
def test_a_small_gap_is_told(confidence: float, is_close: bool) -> None:  # noqa: FBT001 a row
    conflict = conflict_of(OLD, a_memory(2, "It runs on four cores", confidence=confidence))
    assert conflict.is_close is is_close
    assert ("ask" in conflict.line()) is is_close
