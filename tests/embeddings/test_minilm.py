"""The default embedder as its users meet it: long texts, several cores."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

import commonbrain
from commonbrain.embeddings.local import MiniLmEmbedder, usable_cores
from commonbrain.model.limits import TEXT_BYTES_MAX
from tests.processes import TIMEOUT_S

FILLER = "The meeting went over the agenda of the week and nobody raised an objection. "
FACT = "Our physician advised against eating peanuts."
QUESTION = "Which food should be avoided on doctor's orders?"


def test_fact_at_the_end_of_a_long_text_is_found_by_semantic_search(tmp_path: Path) -> None:
    filler = FILLER * ((TEXT_BYTES_MAX - len(FACT)) // len(FILLER))
    with commonbrain.open(tmp_path / "brain.db") as brain:
        brain.remember(f"{filler}Ann moved to Lisbon.", kind="episode", chunks=False)
        stored, *_ = brain.remember(filler + FACT, kind="episode", chunks=False).items
        brain.remember(filler, kind="episode", chunks=False)

        results = brain.recall(QUESTION)

    assert results.items[0].id == stored.id


def test_vectors_are_identical_for_any_number_of_threads() -> None:
    texts = [FILLER * count for count in (1, 40, 3)]

    alone, *others = (MiniLmEmbedder(threads=count).passages(texts) for count in (1, 3, None))

    for shared in others:
        assert [len(one) for one in shared] == [1, 4, 1]
        assert all((one == other).all() for one, other in zip(alone, shared, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_forked_process_embeds_a_batch() -> None:
    embedder = MiniLmEmbedder(threads=2)
    texts = [FILLER, FACT, QUESTION]
    embedder.passages(texts)
    child = multiprocessing.get_context("fork").Process(target=embedder.passages, args=(texts,))
    child.start()
    child.join(TIMEOUT_S)
    child.kill()
    assert child.exitcode == 0


IMPATIENT = """
import sys
import commonbrain

with commonbrain.open(sys.argv[1], agent="ann") as brain:
    print(*brain.recall("when does the ferry leave", deadline_ms=80).degraded)
"""


def test_program_that_exits_while_the_model_loads_exits_without_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "brain.db")
    with commonbrain.open(path, agent="ann") as brain:
        brain.remember("The ferry leaves from pier 4 at dawn", kind="fact")

    ended = subprocess.run(
        [sys.executable, "-c", IMPATIENT, path],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert "vector: deadline" in ended.stdout
    assert (ended.returncode, ended.stderr) == (0, "")


def test_number_of_usable_cores_is_between_one_and_eight() -> None:
    assert 1 <= usable_cores() <= min(8, os.cpu_count() or 1)


def test_vector_of_a_text_has_the_recorded_values() -> None:
    text = "The staging database moved to Postgres 16 in March because vacuum was too slow on 14."

    (passage,) = MiniLmEmbedder().passages([text])

    # Seen with VNNI. Capped sums give 0.0454, -0.0135, 0.0041, -0.0007 (AVX2 emulated by QEMU).
    assert passage[0][:4].tolist() == pytest.approx([0.0436, -0.0096, 0.0109, 0.0096], abs=0.002)
