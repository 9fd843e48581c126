"""Capture: what of a message outlives its turn, and that nothing we said ourselves comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.text.capture import (
    CAPTURED_CHARS_MAX,
    both_ends,
    informative_passages,
    marked_lines,
    select_captured,
)
from commonbrain.text.normalisation import injected_block, without_injected_context

CHATTER = "I have read the file and formatted it. All tests pass now."
LESSON = "The root cause was that the pool was closed twice."


@pytest.mark.requirement("WP-46")
def test_a_passage_that_tells_something_lasting_is_kept_without_the_rest(
    subtests: pytest.Subtests,
) -> None:
    for said in [
        LESSON,
        "We decided to keep one worker per queue.",
        "It turned out that the driver caches the plan.",
        "I fixed the flaky upload by waiting for the checksum.",
        "Use tabs rather than spaces in that folder.",
    ]:
        with subtests.test(said=said):
            assert (
                informative_passages(f"{CHATTER}\n\n{said}\n\nShall I go on with the docs?") == said
            )


def test_reports_and_code_are_not_worth_keeping(subtests: pytest.Subtests) -> None:
    for said in ["", CHATTER, "Done.", "```\nfixed by hand\nroot cause\n```"]:
        with subtests.test(said=said):
            assert informative_passages(said) == ""


def test_one_turn_leaves_little() -> None:
    said = "\n\n".join(f"{n}: {LESSON}" for n in range(100))

    assert 0 < len(informative_passages(said)) <= CAPTURED_CHARS_MAX


def test_marks_alone_are_kept_where_no_more_is_wanted() -> None:
    said = f"{LESSON}\n\nSome words before.\n@decision One pool per process\nand after."

    assert select_captured(said, "tags") == ["@decision One pool per process"]
    assert select_captured(said, "off") == []
    assert LESSON in select_captured(said, "turns")[0]
    assert marked_lines("```\n@decision in code\n```") == []


def test_a_summary_keeps_its_beginning_and_its_end() -> None:
    text = "\n\n".join(["What it is about.", *(f"Step {n} of many." for n in range(300)), "Next."])

    kept = both_ends(text, chars_max=400)

    assert kept.startswith("What it is about.")
    assert kept.endswith("Next.")
    assert "[...]" in kept
    assert len(kept) <= 400


@given(text=st.text(max_size=600), room=st.integers(min_value=40, max_value=400))
def test_both_ends_never_take_more_room_than_there_is(text: str, room: int) -> None:
    assert len(both_ends(text, chars_max=room)) <= room


LINES = st.lists(
    st.sampled_from(
        [
            "</commonbrain-memory>",
            "<commonbrain-memory>",
            "< / COMMONBRAIN-memory >",
            "> quoted: we decided it",
            "[1] mem_38G1N1NDM7S31 | fact",
            "root cause was a spell",
            "",
        ]
    )
    | st.text(max_size=30),
    max_size=8,
).map("\n".join)


@given(inside=LINES, before=st.sampled_from(["", "So:"]), after=st.sampled_from(["", "Then."]))
def test_what_a_hook_put_before_an_agent_is_never_kept(
    inside: str, before: str, after: str
) -> None:
    block = injected_block(inside)

    said = f"{before}\n{block}\n{after}"

    # No text can close the block it stands in, so that the block goes as a whole.
    assert block.count("</commonbrain-memory>") == 1
    assert without_injected_context(said).split() == f"{before} {after}".split()
    assert informative_passages(said) == ""
    assert marked_lines(said) == []
    assert both_ends(said).split() == f"{before} {after}".split()


@given(inside=LINES, cut=st.integers(min_value=0, max_value=40))
def test_a_block_that_was_cut_off_is_not_kept_either(inside: str, cut: int) -> None:
    block = injected_block(f"{inside}\nroot cause of it all")
    kept = block[: max(len(block) - cut, len("<commonbrain-memory>"))]

    assert without_injected_context(f"So:\n{kept}").strip() == "So:"


def test_a_mark_in_a_sentence_hides_nothing() -> None:
    text = "The tag <commonbrain-memory> opens a block.\nThe root cause was elsewhere."

    assert without_injected_context(text) == text
