"""A law of undo: all changes of an agent are taken back, in whatever order they were made."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError
from commonbrain.testing.builders import a_brain
from tests.asking import stored
from tests.history.test_undo import state

BASE = 4
"""Memories that are stored before; those that the agent stores join them."""
Move = tuple[int, int, int]
Operation = Callable[[Brain, str, str], object]
OPERATIONS: tuple[Operation, ...] = (
    lambda bob, id_, _: bob.forget(id_, reason="x"),
    lambda bob, id_, _: bob.revise.restore(id_, reason="x"),
    lambda bob, id_, _: bob.revise.keep_both(id_, reason="x"),
    lambda bob, id_, other: bob.revise.resolve(id_, other=other, reason="x"),
    lambda bob, id_, _: bob.revise.pin(id_),
    lambda bob, id_, _: bob.revise.unpin(id_),
    lambda bob, id_, _: bob.revise.retag(id_, add=["x"], remove=["ci"]),
    lambda bob, id_, _: bob.revise.rate(id_, "up"),
    lambda bob, id_, _: bob.revise.annotate(id_, "noted"),
    lambda bob, id_, other: bob.revise.link(id_, other, type="causes"),
    lambda bob, id_, other: bob.revise.unlink(id_, other, type="causes"),
    lambda bob, id_, other: bob.revise.link(id_, other, type="derived_from"),
)


def play(bob: Brain, known: list[str], moves: list[Move]) -> None:
    """Play the moves that are possible; a refused move changes nothing."""
    for turn, (operation, first, second) in enumerate(moves):
        id_, other = known[first % len(known)], known[second % len(known)]
        with suppress(CommonbrainError):
            if operation < len(OPERATIONS):
                OPERATIONS[operation](bob, id_, other)
            elif operation == len(OPERATIONS):
                made = bob.remember(f"Turn t{turn} was taken x{turn}", kind="event").items[0].id
                known += [made] if made else []
            else:
                text = f"Thing y{turn} holds z{turn} now"
                new = bob.revise.supersede(id_, text, reason="x").id
                known += [new] if new and new not in known else []


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@example(moves=[(9, 1, 0), (9, 1, 0)])
@example(
    moves=[
        (3, 15, 0),
        (9, 19, 17),
        (13, 9, 0),
        (0, 0, 0),
        (12, 0, 0),
        *[(0, 0, 0)] * 6,
        (9, 15, 16),
    ]
)
@given(
    moves=st.lists(
        st.tuples(st.integers(0, len(OPERATIONS) + 1), st.integers(0, 20), st.integers(0, 20)),
        min_size=1,
        max_size=14,
    )
)
def test_undo_restores_the_state_and_undo_of_the_undo_the_changes(
    tmp_path_factory: pytest.TempPathFactory, moves: list[Move]
) -> None:
    path: Path = tmp_path_factory.mktemp("undo") / "brain.db"
    with a_brain(path) as brain:
        bob, admin = brain.acting_as(agent="bob"), brain.acting_as(agent="boss")
        memory_ids = [
            stored(brain, f"Base b{n} stands on c{n}", kind="event", tags=["ci"])
            for n in range(BASE)
        ]
        before = state(brain)
        play(bob, memory_ids, moves)
        after = state(brain)
        count = admin.undo(agent="bob", reason="x").count
        done = admin.undo(agent="bob", reason="x", confirm=count)
        assert state(brain) == before, done
        assert done.skipped == ()
        again = admin.undo(agent="boss", reason="x").count
        admin.undo(agent="boss", reason="x", confirm=again)
        assert state(brain) == after
        assert brain.doctor().is_sound
