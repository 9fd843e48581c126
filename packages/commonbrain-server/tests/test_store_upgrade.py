"""`brain store upgrade`, and the command line on a store in Postgres."""

import json

import pytest
from command_output import output_of

from commonbrain.model.errors import InvalidInputError
from tests.postgres import Server


@pytest.mark.requirement("CL-09")
def test_owner_creates_a_store_that_the_program_can_use(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres.database(is_empty=True) as empty:
        made = output_of("--store", empty.owner, "store", "upgrade", "--grant", postgres.program)
        monkeypatch.setenv("COMMONBRAIN_STORE", empty.program)
        output_of("--agent", "ada", "remember", "The team's store is on db.internal")
        results = json.loads(output_of("--agent", "bo", "recall", "Where is the store?", "--json"))
        sound = json.loads(output_of("doctor", "--json"))
        again = json.loads(output_of("--store", empty.owner, "store", "upgrade", "--json"))

    assert f"It may be opened by {postgres.program}." in made
    assert postgres.mark not in made.partition("\n")[0].replace(empty.owner.rpartition("/")[2], "")
    assert [one["headline"] for one in results["items"]] == ["The team's store is on db.internal"]
    assert sound["is_sound"]
    assert again["roles"] == [postgres.program]


def test_store_in_a_file_is_not_upgraded_by_hand(tmp_path: object) -> None:
    with pytest.raises(InvalidInputError, match="when it is opened"):
        output_of("--store", f"{tmp_path}/brain.db", "store", "upgrade")


def test_url_of_a_store_is_not_written_into_the_file_of_a_client() -> None:
    url = "postgresql://ann:s3cret@localhost/brain"
    with pytest.raises(InvalidInputError, match="may hold a password") as refusal:
        output_of("--store", url, "connect", "cursor", "--dry-run")

    assert "s3cret" not in f"{refusal.value} {refusal.value.hint}"


def test_restore_of_a_server_names_the_tool_of_postgres() -> None:
    with pytest.raises(InvalidInputError, match="pg_restore") as refusal:
        output_of("--store", "postgresql://localhost/brain", "restore", "copy.db", "--yes")

    assert refusal.value.code == "restore_unsupported"
