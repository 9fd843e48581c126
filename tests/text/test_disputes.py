from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model import ids
from commonbrain.model.links import Basis, basis_of, conflict_of, preferred
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import NOON, a_memory
from commonbrain.text.repetition import repeats_old_value
from tests.storage.store_steps import a_link

OLD = a_memory(1, "It runs on two cores")


@pytest.mark.requirement("RT-23")
def test_dispute_prefers_trust_then_recency_then_confidence(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"occurred_at": NOON + timedelta(days=1)}, ("newer",)),
        ({"trust": Trust.TRUSTED_TOOL}, ("more trusted",)),
        ({"confidence": 0.9}, ("surer",)),
        (
            {"trust": Trust.TRUSTED_TOOL, "occurred_at": NOON - timedelta(days=1)},
            ("more trusted",),
        ),
    ]
    for more, why in cases:
        with subtests.test(more=more, why=why):
            new = a_memory(2, "It runs on four cores", **more)
            for pair in ((OLD, new), (new, OLD)):
                assert preferred(*pair) is new
                assert (conflict_of(*pair).preferred, conflict_of(*pair).why) == (
                    ids.show(ids.MEMORY, 2),
                    why,
                )


@pytest.mark.requirement("RT-23")
def test_small_difference_in_a_dispute_is_reported(subtests: pytest.Subtests) -> None:
    for confidence, is_close in [(0.6, True), (0.74, True), (0.76, False)]:
        with subtests.test(confidence=confidence, is_close=is_close):
            conflict = conflict_of(OLD, a_memory(2, "It runs on four cores", confidence=confidence))
            assert conflict.is_close is is_close
            assert ("ask" in conflict.line()) is is_close


SIDES = st.fixed_dictionaries(
    {
        "trust": st.sampled_from(Trust),
        "occurred_at": st.integers(0, 2).map(lambda days: NOON + timedelta(days=days)),
        "confidence": st.sampled_from([0.4, 0.6, 0.8]),
        "project": st.sampled_from([None, "api", "web"]),
    }
)


@given(SIDES, SIDES)
def test_conflict_is_the_same_from_either_side(one: dict[str, Any], other: dict[str, Any]) -> None:
    here, there = a_memory(1, "Two cores", **one), a_memory(2, "Four cores", **other)
    assert preferred(here, there) is preferred(there, here)
    output = conflict_of(here, there)
    assert output == conflict_of(there, here)
    assert (output.preferred is None) == (output.projects is not None)
    assert output.preferred in {None, output.ids[0]}
    assert 0 <= output.gap <= 1


def test_conflict_basis_without_a_rule_is_a_statement(subtests: pytest.Subtests) -> None:
    for basis, output in [
        ("number", Basis.NUMBER),
        ("I looked, and it is not so", Basis.SAID),
        (None, Basis.SAID),
    ]:
        with subtests.test(basis=basis, output=output):
            assert basis_of(a_link(1, 2, basis=basis)) is output


OF_OLD, OF_NEW = "The API listens on port 8080", "The API listens on port 9090"


def test_text_with_only_removed_words_repeats_the_old_value(
    subtests: pytest.Subtests,
) -> None:
    for text, is_old in [
        ("Point the proxy at 8080", True),
        ("Point the proxy at 9090", False),
        ("It was 8080 and is 9090 since May", False),
        ("The proxy needs the API", False),
        ("", False),
    ]:
        with subtests.test(text=text, is_old=is_old):
            assert repeats_old_value(text, old=OF_OLD, new=OF_NEW) is is_old


@given(st.text(max_size=60))
def test_text_repeats_nothing_if_no_words_were_removed(text: str) -> None:
    assert not repeats_old_value(text, old=OF_OLD, new=OF_OLD)
    assert not repeats_old_value(OF_NEW, old=text, new=OF_NEW)
