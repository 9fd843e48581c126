"""A preview says beforehand what a fall will do, and does nothing."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.history.selection import Phase
from commonbrain.invalidation.dependents import UNSEEN, DependentFate
from commonbrain.model.links import LinkType
from commonbrain.testing.builders import FakeClock
from tests.asking import stored

WHY = "because a test says so"
_COUNT = 6
_pairs = st.tuples(st.integers(0, _COUNT - 1), st.integers(0, _COUNT - 1))
_types = st.sampled_from([LinkType.DERIVED_FROM, LinkType.DEPENDS_ON])


@given(
    rests=st.lists(st.tuples(_pairs, _types), max_size=9),
    rules=st.sets(st.integers(0, _COUNT - 1), max_size=2),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cascade_preview_matches_the_effect_of_forgetting(
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
    preview = brain.revise.preview(made[0])
    done = brain.forget(made[0], reason=WHY).affected
    happened = (done.count, done.archived, done.rules, done.ids) if done else (0, 0, 0, ())
    assert (preview.count, preview.archived, preview.rules, preview.ids) == happened
    for one in made[1:]:
        brain.forget(one, reason=WHY)


@pytest.fixture
def precondition(brain: Brain) -> str:
    return stored(brain, "The gateway runs on nginx", kind="fact")


def test_preview_shows_the_path_and_the_fate_of_each_dependent(
    brain: Brain, precondition: str
) -> None:
    near = stored(brain, "Timeouts belong in nginx conf", kind="fact", derived_from=[precondition])
    far = stored(brain, "Never raise timeouts twice", kind="rule", depends_on=[near])

    preview = brain.revise.preview(precondition)

    assert [(one.fate, one.path) for one in preview.first] == [
        (DependentFate.ARCHIVE, (near, precondition)),
        (DependentFate.REVIEW, (far, near, precondition)),
    ]
    assert (preview.count, preview.archived, preview.rules) == (2, 1, 1)
    assert f"{far} -> {near} -> {precondition}" in preview.line()


def test_path_through_a_hidden_memory_does_not_name_the_memory(
    brain: Brain, precondition: str
) -> None:
    ann = brain.acting_as(agent="ann")
    private = stored(
        ann, "My own note on it", kind="fact", scope="private", derived_from=[precondition]
    )
    visible = stored(brain, "Timeouts belong in nginx conf", kind="fact")
    ann.revise.link(visible, private, type=LinkType.DEPENDS_ON)
    [one] = brain.acting_as(agent="bob").revise.preview(precondition).first
    assert one.path == (visible, UNSEEN, precondition)


def test_dry_run_of_forget_needs_no_reason_and_changes_nothing(
    brain: Brain, precondition: str
) -> None:
    near = stored(brain, "Timeouts belong in nginx conf", kind="fact", derived_from=[precondition])
    reply = brain.forget(precondition, reason="", dry_run=True)
    assert reply.status is Phase.DRY_RUN
    assert reply.affected is not None
    assert reply.affected.ids == (near,)
    assert brain.get(precondition).banner is None
    assert brain.get(near).banner is None


def test_preview_expects_confirmed_dependents_to_stay(
    brain: Brain, clock: FakeClock, precondition: str
) -> None:
    other = stored(brain, "The proxy listens on port 8443", kind="fact")
    both = stored(brain, "Timeouts belong in conf", kind="fact", depends_on=[precondition, other])
    brain.forget(other, reason=WHY)
    brain.revise.review(both, reason="the port does not matter")
    clock.move(timedelta(minutes=1))
    preview = brain.revise.preview(precondition)
    assert (preview.count, preview.archived) == (1, 0)
