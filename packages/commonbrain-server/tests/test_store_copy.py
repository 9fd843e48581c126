"""`brain store copy`: a store moves between engines from the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from commonbrain.cli.main import app
from commonbrain.model.errors import InvalidInputError, RejectedError
from tests.postgres import Server

pytestmark = pytest.mark.of_a_file


def output_of(*words: str) -> str:
    """Give what a command says."""
    done = CliRunner().invoke(app, words, catch_exceptions=False, env={"COLUMNS": "160"})
    return " ".join(done.stdout.split())


def test_store_is_copied_from_a_file_to_a_server_and_back(path: Path, postgres: Server) -> None:
    output_of("--store", str(path), "remember", "The team's store is on db.internal")
    back = path.with_name("back.db")
    with postgres.database(is_empty=True) as empty:
        output_of("--store", empty.owner, "store", "upgrade", "--grant", postgres.program)
        seen = output_of("store", "copy", str(path), empty.program, "--dry-run")
        moved = output_of("store", "copy", str(path), empty.program)
        rest = json.loads(
            output_of("store", "copy", empty.program, str(back), "--dry-run", "--json")
        )
        assert not back.exists()
        done = json.loads(output_of("store", "copy", empty.program, str(back), "--json"))
        results = json.loads(output_of("--store", str(back), "recall", "team's store", "--json"))

    assert "Nothing was changed" in seen
    assert "Every table has the same count and digest in both." in moved
    assert postgres.mark not in moved.replace(empty.owner.rpartition("/")[2], "")
    counts = [[(one["table"], one["rows"]) for one in reply["tables"]] for reply in (rest, done)]
    assert counts[0] == counts[1]
    assert ("memories", 1) in counts[0]
    assert all(len(one["digest"]) == 64 for one in done["tables"])
    assert [one["headline"] for one in results["items"]] == ["The team's store is on db.internal"]


def test_missing_source_of_a_copy_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="There is no store at"):
        output_of("store", "copy", str(tmp_path / "from.db"), str(tmp_path / "to.db"))

    assert list(tmp_path.iterdir()) == []


def test_store_is_not_copied_into_itself(path: Path) -> None:
    output_of("--store", str(path), "remember", "The tea is ready")
    with pytest.raises(InvalidInputError, match="the same store"):
        output_of("store", "copy", str(path), str(path.parent / "." / path.name))


def test_store_with_data_is_no_destination_of_a_copy(path: Path) -> None:
    other = path.with_name("other.db")
    for one in (path, other):
        output_of("--store", str(one), "remember", "The tea is ready")
    with pytest.raises(RejectedError, match="holds other data") as refusal:
        output_of("store", "copy", str(path), str(other))

    assert "Copy into a store that is new" in refusal.value.hint
