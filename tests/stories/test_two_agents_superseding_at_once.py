"""Two agents in two processes correct the same fact at the same moment; one of them is refused."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from commonbrain.testing.builders import a_brain
from tests.asking import stored
from tests.faults.test_processes import start_together
from tests.faults.workers import DONE, correct, worker

ROUNDS = 10


@pytest.mark.of_a_file
def test_only_one_of_two_concurrent_agents_supersedes_each_memory(path: Path) -> None:
    with a_brain(path) as brain:
        texts = [f"Service x{n} runs on two cores" for n in range(ROUNDS)]
        facts = [stored(brain, text, kind="fact") for text in texts]
    with ExitStack() as stack:
        agents = [
            stack.enter_context(worker(correct, path, number=number, times=ROUNDS))
            for number in range(2)
        ]
        start_together(agents)
        outputs = [agent.hear_out() for agent in agents]

    with a_brain(path) as brain:
        for number, old in enumerate(facts):
            answers = [output[number].split(maxsplit=2) for output in outputs]
            [won] = [answer for answer in answers if answer[0] == "stored"]
            [lost] = [answer for answer in answers if answer[0] != "stored"]
            # The loser is refused, and the refusal names the head that the winner made.
            assert lost[0] == "already_superseded:", lost
            assert won[1] in lost[2]
            assert brain.get(old).current_id == won[1]
            assert brain.get(won[1]).superseded_count == 1
        assert brain.status().by_state == {"active": ROUNDS, "superseded": ROUNDS}
        assert brain.doctor().is_sound
    assert [output[-1] for output in outputs] == [DONE] * 2
