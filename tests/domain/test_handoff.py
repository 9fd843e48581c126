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
def test_its_parts_stand_in_order_and_empty_ones_not_at_all() -> None:
    assert text_of(WHOLE) == TEXT
    assert text_of(Handoff(summary=" Done. ", next_steps=["", " "])) == "Done."


def test_there_is_none_without_a_summary_of_its_own(subtests: pytest.Subtests) -> None:
    for summary in ["", " \n", f"{HEADING}\n[1] mem_0000000000001 | fact\n> x"]:
        with subtests.test(summary=summary), pytest.raises(InvalidInputError, match="summary"):
            text_of(Handoff(summary=summary, context="more"))


def test_what_is_too_long_is_refused_with_how_much_it_is_over(subtests: pytest.Subtests) -> None:
    for chars in [HANDOFF_CHARS_MAX + 7, 20_000, 3_000_000]:
        with subtests.test(chars=chars):
            with pytest.raises(
                RejectedError, match=f"{chars - HANDOFF_CHARS_MAX:,} more than the 2,000"
            ) as told:
                text_of(Handoff(summary="x" * chars))
            assert told.value.code == "limit_exceeded"


@given(summary=st.text(max_size=3000), steps=st.lists(st.text(max_size=300), max_size=9))
def test_nothing_is_cut_and_nothing_too_long_gets_through(summary: str, steps: list[str]) -> None:
    try:
        text = text_of(Handoff(summary=summary, next_steps=steps))
    except (InvalidInputError, RejectedError):
        return
    assert 0 < len(text) <= HANDOFF_CHARS_MAX
    told = [line for step in steps if (line := " ".join(step.split())).isalnum()]
    assert all(f"- {line}" in text for line in told if line.isascii())
