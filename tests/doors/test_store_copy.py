"""`brain store copy`: a store moves between engines from the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from commonbrain.cli.main import app
from commonbrain.model.errors import InvalidInputError, RejectedError
from tests.postgres import Server

pytestmark = pytest.mark.of_a_file


def told(*words: str) -> str:
    """Give what a command says."""
    done = CliRunner().invoke(app, words, catch_exceptions=False, env={"COLUMNS": "160"})
    return " ".join(done.stdout.split())


def test_a_file_moves_to_a_server_and_back(path: Path, postgres: Server) -> None:
    told("--store", str(path), "remember", "The team's store is on db.internal")
    back = path.with_name("back.db")
    with postgres.database(is_empty=True) as empty:
        told("--store", empty.owner, "store", "upgrade", "--grant", postgres.program)
        seen = told("store", "copy", str(path), empty.program, "--dry-run")
        moved = told("store", "copy", str(path), empty.program)
        rest = json.loads(told("store", "copy", empty.program, str(back), "--dry-run", "--json"))
        assert not back.exists()
        done = json.loads(told("store", "copy", empty.program, str(back), "--json"))
        found = json.loads(told("--store", str(back), "recall", "team's store", "--json"))

    assert "Nothing was changed" in seen
    assert "Every table has the same count and digest in both." in moved
    assert postgres.mark not in moved.replace(empty.owner.rpartition("/")[2], "")
    counts = [[(one["table"], one["rows"]) for one in said["tables"]] for said in (rest, done)]
    assert counts[0] == counts[1]
    assert ("memories", 1) in counts[0]
    assert all(len(one["digest"]) == 64 for one in done["tables"])
    assert [one["headline"] for one in found["items"]] == ["The team's store is on db.internal"]


def test_a_source_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="There is no store at"):
        told("store", "copy", str(tmp_path / "from.db"), str(tmp_path / "to.db"))

    assert list(tmp_path.iterdir()) == []


def test_a_store_is_not_copied_into_itself(path: Path) -> None:
    told("--store", str(path), "remember", "The tea is ready")
    with pytest.raises(InvalidInputError, match="the same store"):
        told("store", "copy", str(path), str(path.parent / "." / path.name))


def test_a_store_that_was_worked_in_is_no_destination(path: Path) -> None:
    other = path.with_name("other.db")
    for one in (path, other):
        told("--store", str(one), "remember", "The tea is ready")
    with pytest.raises(RejectedError, match="holds other data") as refusal:
        told("store", "copy", str(path), str(other))

    assert "Copy into a store that is new" in refusal.value.hint
