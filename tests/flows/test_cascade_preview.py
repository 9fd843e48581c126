"""A preview says beforehand what a fall will do, and does nothing."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.history.selection import Phase
from commonbrain.invalidation.preview import UNSEEN, DependentFate
from commonbrain.model.links import LinkType
from commonbrain.testing.builders import FakeClock
from tests.flows.asking import stored

WHY = "because a test says so"
_COUNT = 6
_pairs = st.tuples(st.integers(0, _COUNT - 1), st.integers(0, _COUNT - 1))
_types = st.sampled_from([LinkType.DERIVED_FROM, LinkType.DEPENDS_ON])


@given(
    rests=st.lists(st.tuples(_pairs, _types), max_size=9),
    rules=st.sets(st.integers(0, _COUNT - 1), max_size=2),
)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_is_foretold_is_what_happens(
    brain: Brain, rests: list[tuple[tuple[int, int], LinkType]], rules: set[int]
) -> None:
    words = ("apple", "bridge", "copper", "dolphin", "engine", "falcon")
    made = [
        stored(brain, f"The {word} of {id(rests)} {word}s", kind="rule" if n in rules else "task")
        for n, word in enumerate(words)
    ]
    for (one, on), type_ in rests:
        if one != on:
            brain.revise.link(made[one], made[on], type=type_)
    foretold = brain.revise.preview(made[0])
    done = brain.forget(made[0], reason=WHY).affected
    happened = (done.count, done.archived, done.rules, done.ids) if done else (0, 0, 0, ())
    assert (foretold.count, foretold.archived, foretold.rules, foretold.ids) == happened
    for one in made[1:]:
        brain.forget(one, reason=WHY)


@pytest.fixture
def premise(brain: Brain) -> str:
    return stored(brain, "The gateway runs on nginx", kind="fact")


def test_a_preview_shows_the_path_and_what_becomes_of_each(brain: Brain, premise: str) -> None:
    near = stored(brain, "Timeouts belong in nginx conf", kind="fact", derived_from=[premise])
    far = stored(brain, "Never raise timeouts twice", kind="rule", depends_on=[near])

    foretold = brain.revise.preview(premise)

    assert [(one.fate, one.path) for one in foretold.first] == [
        (DependentFate.ARCHIVE, (near, premise)),
        (DependentFate.REVIEW, (far, near, premise)),
    ]
    assert (foretold.count, foretold.archived, foretold.rules) == (2, 1, 1)
    assert f"{far} -> {near} -> {premise}" in foretold.line()


def test_a_path_over_what_one_may_not_see_does_not_name_it(brain: Brain, premise: str) -> None:
    ann = brain.acting_as(agent="ann")
    hers = stored(ann, "My own note on it", kind="fact", scope="private", derived_from=[premise])
    seen = stored(brain, "Timeouts belong in nginx conf", kind="fact")
    ann.revise.link(seen, hers, type=LinkType.DEPENDS_ON)
    [one] = brain.acting_as(agent="bob").revise.preview(premise).first
    assert one.path == (seen, UNSEEN, premise)


def test_a_dry_run_of_forget_needs_no_reason_and_changes_nothing(
    brain: Brain, premise: str
) -> None:
    near = stored(brain, "Timeouts belong in nginx conf", kind="fact", derived_from=[premise])
    told = brain.forget(premise, reason="", dry_run=True)
    assert told.status is Phase.DRY_RUN
    assert told.affected is not None
    assert told.affected.ids == (near,)
    assert brain.get(premise).banner is None
    assert brain.get(near).banner is None


def test_what_somebody_vouched_for_is_foretold_to_stay(
    brain: Brain, clock: FakeClock, premise: str
) -> None:
    other = stored(brain, "The proxy listens on port 8443", kind="fact")
    both = stored(brain, "Timeouts belong in conf", kind="fact", depends_on=[premise, other])
    brain.forget(other, reason=WHY)
    brain.revise.review(both, reason="the port does not matter")
    clock.move(timedelta(minutes=1))
    foretold = brain.revise.preview(premise)
    assert (foretold.count, foretold.archived) == (1, 0)
