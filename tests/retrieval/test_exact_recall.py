"""A hash, an emoji or a number of a question is found, and is not all that counts."""

from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, stored

FILLER = (
    "The audit takes two days",
    "Ann reviews the pull requests of the web team",
    "Customers complain about slow search",
    "The notes of the standup are in the wiki",
)
ROWS = (
    ("commit a81bc81de00b2f9b", "a81bc81d broke the importer.", "a82bc81d broke the exporter."),
    ("bisect a81bc81", "We blame a81bc81de00b2f9b.", "We blame a81bc82d for it."),
    (
        "which commit has \U0001f680",
        "Commits with \U0001f680 are releases.",
        "Commits with \U0001f41b.",
    ),
    ("\U0001f680", "Use \U0001f680 for releases.", "Use \U0001f41b for bugs."),
    ("python 3.11", "The build needs Python 3.11.", "The docs need Python 3.12."),
    ("who listens on port 80?", "The console is on port 80.", "Nginx is on port 8080."),
    ("what does E1043 mean", "E1043: the tenant is suspended.", "E1042: the quota is used up."),
)


@pytest.mark.parametrize(("question", "right", "near"), ROWS)
def test_what_has_the_exact_term_of_a_question_comes_first(
    brain: Brain, clock: FakeClock, question: str, right: str, near: str
) -> None:
    for text in (*FILLER, right, near):
        stored(brain, text, kind="fact")
        clock.move(timedelta(days=1))
    assert bodies(brain, question)[0] == right


@pytest.mark.parametrize(
    ("question", "right", "other"),
    [
        (
            "what are the 3 risks of the release?",
            "The risks of the release are few.",
            "3 replicas.",
        ),
        ("How do users upload pictures to S3?", "Users upload pictures by link.", "S3 is dear."),
        ("Why do we keep two databases?", "Two databases, for billing.", "We keep 2 copies."),
        (
            "how do we roll back \U0001f914",
            "We roll back with make.",
            "\U0001f914 marks questions.",
        ),
    ],
)
def test_what_is_written_exactly_is_not_all_that_counts(
    brain: Brain, question: str, right: str, other: str
) -> None:
    for text in (*FILLER, right, other):
        stored(brain, text, kind="fact")
    assert bodies(brain, question)[0] == right


def test_latin_name_in_a_text_without_blanks_is_found(brain: Brain) -> None:
    text = "\u6211\u4eec\u7528React\u5199\u524d\u7aef"
    for one in (*FILLER, text):
        stored(brain, one, kind="fact")
    assert bodies(brain, "React") == [text]
