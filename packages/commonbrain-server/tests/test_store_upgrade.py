"""`brain store upgrade`, and the command line on a store in Postgres."""

import json

import pytest
from command_output import output_of

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
