"""`brain store upgrade`, and the command line on a store in Postgres."""

import json

import pytest
from typer.testing import CliRunner

from commonbrain.cli.main import app
from commonbrain.model.errors import InvalidInputError
from tests.postgres import Server


def told(*words: str) -> str:
    """Give what a command says."""
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    return done.stdout


@pytest.mark.requirement("CL-09")
def test_an_owner_makes_a_store_that_a_program_works_with(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres.database(is_empty=True) as empty:
        made = told("--store", empty.owner, "store", "upgrade", "--grant", postgres.program)
        monkeypatch.setenv("COMMONBRAIN_STORE", empty.program)
        told("--agent", "ada", "remember", "The team's store is on db.internal")
        found = json.loads(told("--agent", "bo", "recall", "Where is the store?", "--json"))
        sound = json.loads(told("doctor", "--json"))
        again = json.loads(told("--store", empty.owner, "store", "upgrade", "--json"))

    assert f"It may be opened by {postgres.program}." in made
    assert postgres.mark not in made.partition("\n")[0].replace(empty.owner.rpartition("/")[2], "")
    assert [one["headline"] for one in found["items"]] == ["The team's store is on db.internal"]
    assert sound["is_sound"]
    assert again["roles"] == [postgres.program]


def test_a_store_in_a_file_is_not_upgraded_by_hand(tmp_path: object) -> None:
    with pytest.raises(InvalidInputError, match="when it is opened"):
        told("--store", f"{tmp_path}/brain.db", "store", "upgrade")


def test_a_url_is_not_written_into_a_clients_file() -> None:
    url = "postgresql://ann:s3cret@localhost/brain"
    with pytest.raises(InvalidInputError, match="may hold a password") as refusal:
        told("--store", url, "connect", "cursor", "--dry-run")

    assert "s3cret" not in f"{refusal.value} {refusal.value.hint}"


def test_a_restore_names_the_tool_of_postgres() -> None:
    with pytest.raises(InvalidInputError, match="pg_restore") as refusal:
        told("--store", "postgresql://localhost/brain", "restore", "copy.db", "--yes")

    assert refusal.value.code == "restore_unsupported"
