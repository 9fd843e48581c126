"""Two agents correct the same facts at the same time; one of them is refused each time."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError
from commonbrain.testing.builders import SeededRandom, a_brain
from tests.flows.asking import stored

ROUNDS = 10


def correct(brain: Brain, number: int, *, fact: str, start: Barrier) -> str:
    """Supersede a fact when the other agent is ready too; give the new id or the refusal."""
    start.wait()
    text = f"Agent{number} measured {fact}: cores{number} are what it has"
    try:
        return brain.revise.supersede(fact, text, reason="measured").id or ""
    except CommonbrainError as error:
        return f"{error.code}: {error}"


@pytest.mark.of_a_file
def test_one_of_two_agents_that_supersede_a_memory_at_once_is_refused(path: Path) -> None:
    start = Barrier(2)
    with (
        a_brain(path, agent="agent-0", random_source=SeededRandom(0)) as one,
        a_brain(path, agent="agent-1", random_source=SeededRandom(1)) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        for number in range(ROUNDS):
            fact = stored(one, f"Service x{number} runs on two cores", kind="fact")
            replies = list(
                pool.map(partial(correct, fact=fact, start=start), (one, other), range(2))
            )
            [won] = [reply for reply in replies if reply.startswith("mem_")]
            [lost] = [reply for reply in replies if not reply.startswith("mem_")]
            # The refusal names the memory that the other agent made.
            assert lost.startswith("already_superseded:"), lost
            assert won in lost
            assert one.get(fact).current_id == won
            assert one.get(won).superseded_count == 1
        assert one.status().by_state == {"active": ROUNDS, "superseded": ROUNDS}
        assert one.doctor().is_sound
