import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.coordination.handoff import Handoff, text_of
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import HANDOFF_CHARS_MAX
from commonbrain.model.recall_result import HEADING

WHOLE = Handoff(
    summary="Moved the parser.",
    next_steps=["write tests", "bench\nit"],
    blockers=["CI is red"],
    context="The old file stays.",
)
TEXT = (
    "Moved the parser.\n\nNext steps:\n- write tests\n- bench it\n\nBlockers:\n- CI is red\n\n"
    "Context:\nThe old file stays."
)


@pytest.mark.requirement("WP-14")
def test_handoff_lists_its_parts_in_order_without_empty_ones() -> None:
    assert text_of(WHOLE) == TEXT
    assert text_of(Handoff(summary=" Done. ", next_steps=["", " "])) == "Done."


def test_handoff_needs_its_own_summary(subtests: pytest.Subtests) -> None:
    for summary in ["", " \n", f"{HEADING}\n[1] mem_0000000000001 | fact\n> x"]:
        with subtests.test(summary=summary), pytest.raises(InvalidInputError, match="summary"):
            text_of(Handoff(summary=summary, context="more"))


def test_oversized_handoff_is_refused_with_its_excess(subtests: pytest.Subtests) -> None:
    for chars in [HANDOFF_CHARS_MAX + 7, 20_000, 3_000_000]:
        with subtests.test(chars=chars):
            with pytest.raises(
                RejectedError, match=f"{chars - HANDOFF_CHARS_MAX:,} more than the 2,000"
            ) as refused:
                text_of(Handoff(summary="x" * chars))
            assert refused.value.code == "limit_exceeded"


@given(summary=st.text(max_size=3000), steps=st.lists(st.text(max_size=300), max_size=9))
def test_accepted_handoff_is_complete_and_within_the_limit(summary: str, steps: list[str]) -> None:
    try:
        text = text_of(Handoff(summary=summary, next_steps=steps))
    except (InvalidInputError, RejectedError):
        return
    assert 0 < len(text) <= HANDOFF_CHARS_MAX
    refused = [line for step in steps if (line := " ".join(step.split())).isalnum()]
    assert all(f"- {line}" in text for line in refused if line.isascii())
