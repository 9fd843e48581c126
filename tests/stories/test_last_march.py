"""A question about last March: what happened then comes first, and nothing else is hidden."""

from datetime import UTC, datetime, timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, stored

MARCH = "Prices of the starter plan were raised to 12 euros"
JUNE = "Prices of the starter plan were lowered to 9 euros"
JANUARY = "Prices of the starter plan were set to 10 euros"


@pytest.fixture
def history(brain: Brain, clock: FakeClock) -> Brain:
    """It is June 2026; three decisions on prices were noted on the days they were taken."""
    clock.move(datetime(2026, 6, 20, 9, tzinfo=UTC) - clock.now())
    days = {JANUARY: (2026, 1, 5), MARCH: (2026, 3, 17), JUNE: (2026, 6, 2)}
    for text, day in days.items():
        stored(brain, text, kind="decision", occurred_at=datetime(*day, tzinfo=UTC))
    return brain


@pytest.mark.requirement("CT-06")
def test_memory_of_the_period_in_the_query_comes_first(
    history: Brain, subtests: pytest.Subtests
) -> None:
    for question, first in (
        ("What did we decide on prices of the starter plan last March?", MARCH),
        ("prices of the starter plan on 17 March 2026", MARCH),
        ("Which prices did the starter plan get this month?", JUNE),
        ("prices of the starter plan in January", JANUARY),
        ("prices of the starter plan 3 months ago", MARCH),
    ):
        with subtests.test(question=question, first=first):
            answer = history.recall(question)
            assert answer.items[0].body == first
            assert "time" in answer.items[0].why


def test_memories_of_other_periods_are_recalled_because_the_period_is_no_filter(
    history: Brain,
) -> None:
    results = bodies(history, "What did we decide on prices of the starter plan last March?")
    assert set(results) == {JANUARY, MARCH, JUNE}


def test_memories_of_a_period_can_be_recalled_alone(history: Brain) -> None:
    assert bodies(history, "what happened last March?") == [MARCH]
    assert bodies(history, "prices", since="2026-03-01", until="2026-03-31") == [MARCH]


def test_last_march_is_another_month_a_year_later(history: Brain, clock: FakeClock) -> None:
    clock.move(timedelta(days=365))
    assert bodies(history, "what happened last March?") == []
    assert bodies(history, "what happened in March 2026?") == [MARCH]
