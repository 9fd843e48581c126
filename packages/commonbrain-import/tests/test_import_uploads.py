"""Databases are uploaded as of one moment, hidden ones too, and of several tenants one is read."""

import sqlite3
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.extras import IMPORT_FORMATS
from commonbrain.jobs.service import JobView
from commonbrain.model.errors import InvalidInputError
from tests.working import a_worker

NOTES = "The lock of the harbour opens at noon in winter.\n"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ada:s3cret@db.example/brain",
        "redis://:s3cret@cache.example/0",
        "postgresql://ada:s3cret%zz@127.0.0.1:1/brain",
        "host = 127.0.0.1 port = 1 password = 's3cret",
    ],
)
def test_address_that_cannot_be_read_is_refused_without_its_password(
    brain: Brain, subtests: pytest.Subtests, url: str
) -> None:
    for format_ in IMPORT_FORMATS:
        with subtests.test(format=format_):
            with pytest.raises(InvalidInputError) as foreground:
                brain.import_(format_, url)
            with pytest.raises(InvalidInputError) as background:
                brain.jobs.import_(format_, Path(url))
            for refusal in (foreground.value, background.value):
                assert "s3cret" not in f"{refusal} {refusal.hint} {refusal.__cause__}"


def finished(brain: Brain, job: JobView) -> JobView:
    a_worker(brain).sweep()
    return brain.jobs.show(job.id)


def source(folder: Path) -> Path:
    """Return a folder apart from the store."""
    path = folder / "source"
    path.mkdir(exist_ok=True)
    return path


def a_graph(path: Path, *, name: str) -> sqlite3.Connection:
    """Write a database whose only row is in its log, and return the connection that has it open."""
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE memory_items (memory_id, tenant_id, text, tombstoned)")
    writer.execute("INSERT INTO memory_items VALUES ('m1', ?, ?, 0)", (name, NOTES))
    writer.commit()
    return writer


def test_database_that_is_being_written_to_is_imported_in_the_background(
    brain: Brain, tmp_path: Path
) -> None:
    writer = a_graph(source(tmp_path) / "brainstem.db", name="t1")
    try:
        assert (source(tmp_path) / "brainstem.db-wal").stat().st_size > 0
        job = finished(brain, brain.jobs.import_("brainstem", source(tmp_path) / "brainstem.db"))
    finally:
        writer.close()
    assert job.result is not None
    assert job.result["stored"] == 1


def test_tenant_of_a_database_is_imported_in_the_background(brain: Brain, tmp_path: Path) -> None:
    writer = a_graph(tmp_path / "brainstem.db", name="t1")
    writer.execute("INSERT INTO memory_items VALUES ('m2', 't2', 'The crane lifts 40 tons', 0)")
    writer.commit()
    writer.close()
    one = finished(brain, brain.jobs.import_("brainstem", tmp_path / "brainstem.db#t2"))
    assert [item.source_ref for item in brain.recall().items] == ["brainstem#m2"]
    other = finished(
        brain, brain.jobs.import_("brainstem", tmp_path / "brainstem.db", name="brainstem.db#t1")
    )
    both = finished(brain, brain.jobs.import_("brainstem", tmp_path / "brainstem.db"))
    assert (one.state, other.state, both.state) == ("done", "done", "dead")
    assert both.reason == "brainstem.db holds 2 tenants, whose memories must stay apart."


def test_folder_with_hidden_databases_is_imported_completely_in_the_background(
    brain: Brain, tmp_path: Path
) -> None:
    samples = Path(__file__).parent / "samples" / "brain-db"
    folder = source(tmp_path)
    for name in ("atoms", "embeddings"):
        with sqlite3.connect(folder / f".{name}.db") as made:
            made.executescript((samples / f"{name}.sql").read_text("utf-8"))
        made.close()
    expected = brain.import_("brain-db", folder, dry_run=True)
    job = finished(brain, brain.jobs.import_("brain-db", folder))
    assert job.result is not None
    assert job.result["read"] == expected.read > 0
