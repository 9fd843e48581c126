"""Many processes on one file: nothing acknowledged is lost, and no caller gets a lock error."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.testing.builders import a_brain
from tests.faults.workers import DONE, READY, Worker, hold, read, worker, write

WRITERS = 4
READERS = 2
WRITES = 8
READS = 10


@pytest.mark.requirement("EV-05", "EV-11")
def test_processes_that_create_write_and_read_a_file_at_once_lose_nothing(path: Path) -> None:
    with ExitStack() as stack:
        writers = [
            stack.enter_context(worker(write, path, number=number, times=WRITES))
            for number in range(WRITERS)
        ]
        readers = [
            stack.enter_context(worker(read, path, number=WRITERS + number, times=READS))
            for number in range(READERS)
        ]
        start_together([*writers, *readers])
        written = [one.hear_out() for one in writers]
        answers = [one.hear_out() for one in readers]

    for replies in written:
        assert [word.split()[0] for word in replies] == ["stored"] * WRITES + [DONE]
    for replies in answers:
        assert replies[-1] == DONE
        assert set(replies[:-1]) <= {"found", "nothing_stored", "below_threshold"}
        assert len(replies) == READS + 1
    ids = [id_ for replies in written for id_ in acknowledged(replies)]
    assert len(set(ids)) == WRITERS * WRITES
    with a_brain(path) as brain:
        assert_all_there(brain, ids)
        assert brain.status().memories == len(ids)


def test_killed_writers_lose_nothing_that_they_acknowledged(path: Path) -> None:
    ids: list[str] = []
    for number, heard in enumerate((6, 1, 3), 1):
        with worker(write, path, number=number, times=100_000) as victim:
            start_together([victim])
            replies = [victim.hear() or "" for _ in range(heard)]
            victim.process.kill()
            replies += victim.hear_out()
        assert DONE not in replies
        assert len(acknowledged(replies)) >= heard
        ids += acknowledged(replies)

    assert len(set(ids)) == len(ids)
    with a_brain(path) as brain:
        assert_all_there(brain, ids)
        assert brain.recall("thing1x3").items[0].id == ids[3]
        assert brain.remember("Life goes on.", kind="event").items[0].status == "stored"


@pytest.mark.requirement("PF-05")
def test_reader_is_answered_while_another_process_holds_the_write_lock(path: Path) -> None:
    with worker(hold, path, number=1, times=1) as holder:
        assert holder.hear() == READY
        with a_brain(path) as brain:
            result = brain.recall("Where is the kettle?")
            seen = brain.get(result.items[0].id)
            counted = brain.status()
        # Leaving did not wait for the lock either: the holder still has it.
        holder.line.send("go")
        assert holder.hear() == DONE

    assert seen.body == "The kettle is in the blue cupboard."
    assert counted.memories == 1


def start_together(workers: Sequence[Worker]) -> None:
    """Let all go when all are ready."""
    assert [one.hear() for one in workers] == [READY] * len(workers)
    for one in workers:
        one.line.send("go")


def acknowledged(replies: Sequence[str]) -> list[str]:
    """Return the ids that a writer acknowledged."""
    return [words.removeprefix("stored ") for words in replies if words.startswith("stored ")]


def assert_all_there(brain: Brain, ids: Sequence[str]) -> None:
    """Check that every memory is there and that the store is sound."""
    assert [brain.get(id_).state for id_ in ids] == ["active"] * len(ids)
    diagnosis = brain.doctor()
    assert diagnosis.is_sound, diagnosis.findings
