import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.ingestion.commit import salience
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.limits import SALIENCE_MIN

KIND = st.sampled_from(Kind)
COUNT = st.integers(0, 10**9)


def test_salience_of_a_plain_text_is_that_of_its_kind(subtests: pytest.Subtests) -> None:
    for kind in Kind:
        with subtests.test(kind=kind):
            assert salience(kind, "The sofa is green") == KINDS[kind].salience


@pytest.mark.requirement("WP-30")
def test_each_important_word_adds_three_hundredths() -> None:
    assert salience(Kind.EVENT, "We must ship; the deadline is critical") == pytest.approx(0.54)


@pytest.mark.requirement("WP-30")
def test_deadline_recurrence_and_names_raise_salience() -> None:
    assert salience(Kind.TASK, "Call Ben", due=True) == pytest.approx(0.8)
    assert salience(Kind.EVENT, "The disk is full", recurrences=3) == pytest.approx(0.51)
    assert salience(Kind.FACT, "Ben knows Anna", entities=2) == pytest.approx(0.72)


@given(KIND, st.text(), COUNT, COUNT)
def test_salience_is_a_fraction_and_never_below_that_of_its_kind(
    kind: Kind, text: str, recurrences: int, entities: int
) -> None:
    for due in (False, True):
        score = salience(kind, text, due=due, recurrences=recurrences, entities=entities)
        assert SALIENCE_MIN < KINDS[kind].salience <= score <= 1


@given(KIND, st.text(), COUNT, COUNT, COUNT)
def test_additional_signals_never_lower_salience(
    kind: Kind, text: str, recurrences: int, entities: int, more: int
) -> None:
    before = salience(kind, text, recurrences=recurrences, entities=entities)
    assert salience(kind, text, due=True, recurrences=recurrences, entities=entities) >= before
    assert salience(kind, text, recurrences=recurrences + more, entities=entities) >= before
    assert salience(kind, text, recurrences=recurrences, entities=entities + more) >= before
    assert salience(kind, f"{text} urgent", recurrences=recurrences, entities=entities) >= before
