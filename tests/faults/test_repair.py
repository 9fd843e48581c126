"""A store with damaged derived parts: doctor reports them, and repair makes them again."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from commonbrain.administration.status import Diagnosis
from commonbrain.client import Brain
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.repositories.memory_rows import encode_reading
from commonbrain.storage.sqlite.driver import driver
from commonbrain.testing.builders import SeededRandom, a_brain
from tests.asking import FailingEmbedder
from tests.faults.test_processes import acknowledged, start_together
from tests.faults.workers import DONE, worker, write

FACTS = (
    "The kettle is in the blue cupboard.",
    "Postgres was chosen for row-level security.",
    "Llamas hum when they are content.",
)


@pytest.fixture
def full(path: Path) -> Iterator[Brain]:
    """A brain that holds three facts, one of them superseded, and a forgotten one."""
    with a_brain(path) as brain:
        ids = [str(brain.remember(body, kind="fact").items[0].id) for body in FACTS]
        brain.revise.supersede(ids[1], "CockroachDB was chosen for its regions.", reason="moved")
        forgotten = brain.remember("Tea is served at four.", kind="fact").items[0].id
        brain.forget(str(forgotten), reason="not so")
        yield brain


def damage(path: Path, *statements: str) -> None:
    """Change the file behind the store's back."""
    with closing(driver().connect(str(path), isolation_level=None)) as raw:
        raw.execute("PRAGMA foreign_keys = OFF")
        for statement in statements:
            raw.execute(statement)


def unsound(diagnosis: Diagnosis) -> set[str]:
    return {one.check for one in diagnosis.findings if not one.is_sound}


def assert_as_new(brain: Brain) -> None:
    """Check that every live memory is recalled by its words and by its meaning."""
    diagnosis = brain.doctor()
    assert diagnosis.is_sound, diagnosis.findings
    for body in (FACTS[0], FACTS[2], "CockroachDB was chosen for its regions."):
        item = brain.recall(body).items[0]
        assert item.body == body
        assert {"words", "meaning"} <= set(item.why)
    assert brain.recall("tea at four").items == ()


SHORT = "UPDATE vectors SET vector = x'0001' WHERE vector IS NOT NULL"
FORGOTTEN = "(SELECT id FROM memories WHERE state = 'forgotten')"
DAMAGES: list[tuple[str, str]] = [
    ("DELETE FROM memory_text WHERE rowid IN (SELECT id FROM memories LIMIT 2)", "full text"),
    ("INSERT INTO memory_text (memory_text) VALUES ('delete-all')", "full text"),
    (f"INSERT INTO memory_text (rowid, text, keywords) SELECT id, 'tea at four', '' "  # noqa: S608
     f"FROM memories WHERE id IN {FORGOTTEN}", "full text, stale"),
    ("INSERT INTO memory_text (rowid, text, keywords) VALUES (77, 'tea', '')", "full text, stale"),
    ("DELETE FROM memory_text_data WHERE id > 10", "pages"),
    (f"UPDATE vectors SET vector = zeroblob(512) WHERE memory_id IN {FORGOTTEN}", "vectors"),  # noqa: S608
    (SHORT, "vectors, space"),
    ("INSERT INTO vectors SELECT tenant_id, 77, space_id, part, 900, vector FROM vectors LIMIT 1",
     "references"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "check"), DAMAGES)
@pytest.mark.requirement("LC-13")
def test_repair_makes_derived_data_from_the_rows(
    full: Brain, path: Path, statement: str, check: str
) -> None:
    damage(path, statement)
    diagnosis = full.doctor()
    before = full.status()

    fractions: list[float] = []
    done = full.repair(fractions.append)

    assert check in unsound(diagnosis)
    assert all(one.hint for one in diagnosis.findings if not one.is_sound)
    assert_as_new(full)
    assert done.words == 4
    assert done.vectors_pending == 0
    assert replace(full.status(), embedding_pending=0) == replace(before, embedding_pending=0)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_damaged_reading_hinders_no_recall_and_is_repaired(full: Brain, path: Path) -> None:
    damage(path, "UPDATE memories SET reading = substr(reading, 1, 20)")
    assert_as_new(full)
    full.repair()
    with full.services.store.snapshot(LOCAL_TENANT) as tx:
        read = tx.memories.get(tx.memories.page(after=0, limit=9)).values()
    with closing(driver().connect(str(path))) as raw:
        rows = dict(raw.execute("SELECT id, reading FROM memories").fetchall())
    assert rows == {one.id: encode_reading(one.reading) for one in read}


def test_repair_makes_missing_vectors(full: Brain, path: Path) -> None:
    damage(path, "DELETE FROM vectors")

    (waiting,) = (one for one in full.doctor().findings if one.check == "embeddings")
    done = full.repair()

    assert "repair" in waiting.hint
    # The superseded one, too: `as_of` may ask for it.
    assert done.vectors_made == 4
    assert_as_new(full)


def test_process_with_cached_codes_uses_vectors_that_another_repaired(
    full: Brain, path: Path
) -> None:
    assert full.recall(FACTS[0]).items
    damage(path, SHORT)
    with a_brain(path) as other:
        assert other.repair().vectors_made == 4

    assert_as_new(full)


def test_recall_uses_words_while_vectors_are_unsound(full: Brain, path: Path) -> None:
    damage(path, SHORT.replace("IS NOT NULL", "IS NOT NULL AND memory_id % 2 = 0"))
    assert full.recall(FACTS[0]).items[0].body == FACTS[0]
    with a_brain(path) as other:
        assert other.recall(FACTS[0]).items[0].body == FACTS[0]


def test_repair_without_an_embedder_makes_the_full_text_only(full: Brain, path: Path) -> None:
    damage(
        path, "DELETE FROM vectors", "INSERT INTO memory_text (memory_text) VALUES ('delete-all')"
    )
    embedder = FailingEmbedder()
    embedder.is_down = True
    with a_brain(path, embedder=embedder) as other:
        done = other.repair()
        assert (done.words, done.vectors_made, done.vectors_pending) == (4, 0, 4)
        assert full.recall("kettle").items[0].body == FACTS[0]


def test_repair_during_writes_of_another_process_loses_nothing(path: Path) -> None:
    with a_brain(path, random_source=SeededRandom(9)) as brain:
        with worker(write, path, number=1, times=40) as other:
            start_together([other])
            assert acknowledged([other.hear() or ""])
            repaired = [brain.repair() for _ in range(3)]
            replies = other.hear_out()
        assert replies[-1] == DONE
        assert len(acknowledged(replies)) == 39
        assert repaired[0].words >= 1
        diagnosis = brain.doctor()
        assert diagnosis.is_sound, diagnosis.findings
        assert brain.repair().words == 40


def test_interrupted_repair_is_finished_by_the_next(full: Brain, path: Path) -> None:
    damage(
        path, "DELETE FROM vectors", "INSERT INTO memory_text (memory_text) VALUES ('delete-all')"
    )

    def stop(_fraction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        full.repair(stop)
    full.repair()

    assert_as_new(full)


def test_memory_without_a_body_is_reported_and_breaks_no_recall(full: Brain, path: Path) -> None:
    damage(path, "DELETE FROM facts WHERE body LIKE 'Llamas%'")

    assert unsound(full.doctor()) == {"details"}
    full.repair()
    assert full.recall("llamas content").items == ()
    assert full.recall(FACTS[0]).items[0].body == FACTS[0]
