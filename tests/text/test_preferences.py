"""Instructions and preferences are told apart from requests, stories and advice by words."""

import pytest

from commonbrain.text.preferences import Guidance, guidance_in


def test_lasting_request_is_an_instruction(subtests: pytest.Subtests) -> None:
    for text in [
        "Always show times in UTC.",
        "Thanks! By the way, never deploy on Friday.",
        "Please use British spelling from now on.",
        "Don\u2019t push without a review, please.",
    ]:
        with subtests.test(text=text):
            assert guidance_in(text) == {Guidance.INSTRUCTION}


def test_stated_preference_is_recognized(subtests: pytest.Subtests) -> None:
    for text in [
        "I prefer short answers.",
        "I'm writing a parser and I prefer plain functions, can you help me?",
        "We went to Rome. I don't eat meat, so we had pasta.",
        "The user prefers dark mode.",
    ]:
        with subtests.test(text=text):
            assert guidance_in(text) == {Guidance.PREFERENCE}


def test_single_request_story_question_and_code_are_no_guidance(
    subtests: pytest.Subtests,
) -> None:
    for text in [
        "",
        "Please fix the failing test.",
        "I never thought we would finish in time.",
        "The parser prefers the longest match.",
        "What do you prefer, tea or coffee?",
        "```\n# Always show times in UTC.\n```",
        "I like that idea.",
        "You never give up, and remember, I'm always here for you.",
        "Show me when you can!",
        "In all, we provide evidence for it.",
        "The protein displays a preference for acids.",
    ]:
        with subtests.test(text=text):
            assert guidance_in(text) == frozenset()


def test_text_can_state_both_an_instruction_and_a_preference() -> None:
    assert guidance_in("I prefer tables. Always sort them by date.") == set(Guidance)


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    assert guidance_in("Nothing. " * 1000 + "Always show times in UTC.") == frozenset()
