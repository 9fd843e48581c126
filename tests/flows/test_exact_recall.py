"""What a question names exactly comes first, whatever else matches better."""

from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model.recall_result import ResultStatus
from commonbrain.testing.builders import FakeClock
from tests.flows.asking import bodies, stored

FILLER = (
    "The audit takes two days",
    "Ann reviews the pull requests of the web team",
    "Customers complain about slow search",
    "The notes of the standup are in the wiki",
)
ROWS = (
    ("python 3.11", "The build needs Python 3.11.", "The docs need Python 3.12, Python alone."),
    ("what is in release 2.14.1", "Release 2.14.1 fixes it.", "Release 2.14.0 is in: what is new."),
    ("who listens on port 80?", "The console is on port 80.", "Who listens on port 8080: nginx."),
    ("timeout of 300 seconds", "Exports stop after 300 seconds.", "Timeout of seconds: 30."),
    ("commit a81bc81de00b2f9b", "a81bc81d broke the importer.", "The commit is a82bc81d."),
    ("bisect a81bc81", "We blame a81bc81de00b2f9b.", "The bisect of a81bc82d began."),
    (
        "5d2e953c99db4cb1b9c5e2ff2e704b4d",
        "5d2e953c-99db-4cb1-b9c5-e2ff2e704b4d is the canary.",
        "5d2e953d-99db-4cb1-b9c5-e2ff2e704b4d is the auditor.",
    ),
    ("gateway/limits.py", "See src/gateway/limits.py.", "The limits of the gateway: limits.py."),
    ("what does E1043 mean", "E1043: the tenant is suspended.", "What does E1042 mean: no quota."),
    ("debug with --headed", "Pass --headed to see it.", "Pass --ui to debug with a window."),
    ("which commit has \U0001f680", "Use \U0001f680 for releases.", "Which commit has \U0001f41b."),
    ("\U0001f680", "Use \U0001f680 for releases.", "Use \U0001f41b for bugs."),
)


@pytest.mark.parametrize(("question", "right", "near"), ROWS)
def test_what_has_the_exact_term_of_a_question_comes_first(
    brain: Brain, clock: FakeClock, question: str, right: str, near: str
) -> None:
    for text in (*FILLER, right, near):
        stored(brain, text, kind="fact")
        clock.move(timedelta(days=1))
    result = brain.recall(question)
    assert (result.items[0].body, "exact" in result.items[0].why) == (right, True)
    assert result.verdict is ResultStatus.FOUND


@pytest.mark.parametrize(
    ("question", "right"),
    [
        ("what are the 3 risks of the release?", "The risk of the release is the migration."),
        ("which 2 teams does Ann review for", "Ann reviews for the web and the data team."),
    ],
)
def test_count_in_a_question_puts_nothing_first(brain: Brain, question: str, right: str) -> None:
    for text in (right, "There are 3 replicas.", "We keep 2 copies."):
        stored(brain, text, kind="fact")
    assert bodies(brain, question)[0] == right


def test_exact_term_that_no_memory_has_changes_nothing(brain: Brain) -> None:
    for text in FILLER:
        stored(brain, text, kind="fact")
    first, *_ = brain.recall("slow search E1043").items
    assert (first.body, "exact" in first.why) == (FILLER[2], False)


def test_latin_name_in_a_text_without_blanks_is_found(brain: Brain) -> None:
    text = "\u6211\u4eec\u7528React\u5199\u524d\u7aef"
    for one in (*FILLER, text):
        stored(brain, one, kind="fact")
    assert bodies(brain, "React") == [text]
