"""Capture: what of a message outlives its turn, and that nothing we said ourselves comes back."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commonbrain.text.capture import (
    CAPTURED_CHARS_MAX,
    both_ends,
    informative_passages,
    marked_lines,
    select_captured,
)
from commonbrain.text.classification import extract_tasks
from commonbrain.text.normalisation import injected_block, without_injected_context

CHATTER = "I have read the file and formatted it. All tests pass now."
LESSON = "The root cause was that the pool was closed twice."


@pytest.mark.requirement("WP-46")
def test_lasting_passage_is_captured_without_the_rest(
    subtests: pytest.Subtests,
) -> None:
    for utterance in [
        LESSON,
        "We decided to keep one worker per queue.",
        "It turned out that the driver caches the plan.",
        "I fixed the flaky upload by waiting for the checksum.",
        "Use tabs rather than spaces in that folder.",
    ]:
        with subtests.test(utterance=utterance):
            assert (
                informative_passages(f"{CHATTER}\n\n{utterance}\n\nShall I go on with the docs?")
                == utterance
            )


def test_reports_and_code_are_not_captured(subtests: pytest.Subtests) -> None:
    for utterance in ["", CHATTER, "Done.", "```\nfixed by hand\nroot cause\n```"]:
        with subtests.test(utterance=utterance):
            assert informative_passages(utterance) == ""


def test_capture_of_one_turn_is_limited() -> None:
    utterance = "\n\n".join(f"{n}: {LESSON}" for n in range(100))

    assert 0 < len(informative_passages(utterance)) <= CAPTURED_CHARS_MAX


def test_only_marks_are_captured_when_the_rest_is_disabled() -> None:
    utterance = f"{LESSON}\n\nSome words before.\n@decision One pool per process\nand after."

    assert select_captured(utterance, "propose") == ["@decision One pool per process"]
    assert select_captured(utterance, "off") == []
    assert LESSON in select_captured(utterance, "auto")[0]
    assert marked_lines("```\n@decision in code\n```") == []


def test_shortened_summary_has_its_beginning_and_end() -> None:
    text = "\n\n".join(["What it is about.", *(f"Step {n} of many." for n in range(300)), "Next."])

    summary = both_ends(text, chars_max=400)

    assert summary.startswith("What it is about.")
    assert summary.endswith("Next.")
    assert "[...]" in summary
    assert len(summary) <= 400


@given(text=st.text(max_size=600), limit=st.integers(min_value=40, max_value=400))
def test_shortened_text_never_exceeds_the_limit(text: str, limit: int) -> None:
    assert len(both_ends(text, chars_max=limit)) <= limit


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
def test_context_injected_by_a_hook_is_never_captured(inside: str, before: str, after: str) -> None:
    block = injected_block(inside)

    utterance = f"{before}\n{block}\n{after}"

    # No text can close the block it stands in, so that the block goes as a whole.
    assert block.count("</commonbrain-memory>") == 1
    assert without_injected_context(utterance).split() == f"{before} {after}".split()
    assert informative_passages(utterance) == ""
    assert marked_lines(utterance) == []
    assert both_ends(utterance).split() == f"{before} {after}".split()


@given(inside=LINES, cut=st.integers(min_value=0, max_value=40))
def test_truncated_injected_block_is_not_captured(inside: str, cut: int) -> None:
    block = injected_block(f"{inside}\nroot cause of it all")
    summary = block[: max(len(block) - cut, len("<commonbrain-memory>"))]

    assert without_injected_context(f"So:\n{summary}").strip() == "So:"


def test_injection_marker_within_a_sentence_hides_no_text() -> None:
    text = "The tag <commonbrain-memory> opens a block.\nThe root cause was elsewhere."

    assert without_injected_context(text) == text


def test_tag_at_the_end_of_a_long_reply_is_captured() -> None:
    reply = "We looked at it. " * 1300 + "\n\n@remember The oak table is for guests"

    assert "The oak table is for guests" in select_captured(reply, "auto")[0]


@given(st.text(st.sampled_from("\r\n |>*:a@"), max_size=60), st.sampled_from(["propose", "auto"]))
@example("    \r> * need to check", "auto")
def test_every_text_is_read(text: str, mode: str) -> None:
    select_captured(f"{text}\n\n@remember The oak table is for guests", mode)
    extract_tasks(text)
