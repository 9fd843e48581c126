"""Several processes that want the same tasks at once: each task has one holder."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from commonbrain.testing.builders import a_brain
from tests.asking import stored
from tests.faults.test_processes import start_together
from tests.faults.workers import DONE, claim, worker

CLAIMERS = 4
TASKS = 12


@pytest.mark.requirement("SE-30")
def test_task_that_processes_claim_at_once_has_one_holder(path: Path) -> None:
    with a_brain(path) as brain:
        for number in range(TASKS):
            stored(brain, f"Water plant x{number}", kind="task", distinct_because="another plant")
    with ExitStack() as stack:
        claimers = [
            stack.enter_context(worker(claim, path, number=number, times=TASKS))
            for number in range(CLAIMERS)
        ]
        start_together(claimers)
        replies = [one.hear_out() for one in claimers]

    assert [words[-1] for words in replies] == [DONE] * CLAIMERS
    assert {word for words in replies for word in words[:-1]} == {"claimed", "lease_held"}
    for number in range(TASKS):
        assert [words[number] for words in replies].count("claimed") == 1, number
    with a_brain(path) as brain:
        tasks = brain.session.tasks().tasks
        assert tasks is not None
        assert {one.holder for one in tasks} <= {f"s{number}" for number in range(CLAIMERS)}
