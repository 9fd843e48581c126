"""Many processes on one file: nothing acknowledged is lost, and nobody is told of a lock."""

import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.testing.builders import a_brain
from tests.faults.workers import DONE, READY, Worker, hold, read, worker, write

WRITERS = 4
READERS = 2
WRITES = 25
READS = 40
KILLS = 8


@pytest.mark.requirement("EV-05", "EV-11")
def test_processes_that_make_write_and_read_one_file_at_once_lose_nothing(path: Path) -> None:
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

    for said in written:
        assert [word.split()[0] for word in said] == ["stored"] * WRITES + [DONE]
    for said in answers:
        assert said[-1] == DONE
        assert set(said[:-1]) <= {"found", "nothing_stored", "below_threshold"}
        assert len(said) == READS + 1
    ids = [id_ for said in written for id_ in acknowledged(said)]
    assert len(set(ids)) == WRITERS * WRITES
    with a_brain(path) as brain:
        assert_all_there(brain, ids)
        assert brain.status().memories == len(ids)


def test_a_writer_that_is_killed_loses_nothing_it_acknowledged(path: Path) -> None:
    with worker(write, path, number=1, times=100_000) as victim:
        start_together([victim])
        said = [victim.hear() or "" for _ in range(20)]
        victim.process.kill()
        said += victim.hear_out()

    ids = acknowledged(said)
    assert DONE not in said
    assert len(ids) >= 20
    with a_brain(path) as brain:
        assert_all_there(brain, ids)
        assert brain.recall("thing1x3").items[0].id == ids[3]
        assert brain.remember("Life goes on.", kind="event").items[0].status == "stored"


def test_writers_that_are_killed_again_and_again_leave_a_sound_store(path: Path) -> None:
    random_source = random.Random(7)  # noqa: S311 to be foreseen
    ids: list[str] = []
    for number in range(KILLS):
        with worker(write, path, number=number, times=100_000) as victim:
            start_together([victim])
            said = [victim.hear() or "" for _ in range(random_source.randint(1, 8))]
            victim.process.kill()
            ids += acknowledged([*said, *victim.hear_out()])

    assert len(ids) >= KILLS
    assert len(set(ids)) == len(ids)
    with a_brain(path) as brain:
        assert_all_there(brain, ids)


@pytest.mark.requirement("PF-05")
def test_a_reader_is_answered_while_another_process_holds_the_write_lock(path: Path) -> None:
    with worker(hold, path, number=1, times=1) as holder:
        assert holder.hear() == READY
        with a_brain(path) as brain:
            found = brain.recall("Where is the kettle?")
            seen = brain.get(found.items[0].id)
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


def acknowledged(said: Sequence[str]) -> list[str]:
    """Pick the ids out of what a writer said."""
    return [words.removeprefix("stored ") for words in said if words.startswith("stored ")]


def assert_all_there(brain: Brain, ids: Sequence[str]) -> None:
    """Check that every memory is there and that the store is sound."""
    assert [brain.get(id_).state for id_ in ids] == ["active"] * len(ids)
    diagnosis = brain.doctor()
    assert diagnosis.is_sound, diagnosis.findings
