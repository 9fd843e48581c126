"""`brain maintain`: what upkeep would do, and doing it now."""

import json

import pytest

from tests.conftest import Command


@pytest.mark.requirement("JB-09")
def test_maintenance_is_previewed_and_then_run(command: Command) -> None:
    command(
        "remember",
        "The release branch is locked",
        "--occurred-at",
        "2019-12-01",
        "--expires-at",
        "2020-01-01",
    )
    _, preview = command("maintain", "--dry-run")
    assert "expired" in preview
    assert "The release branch is locked" in preview
    _, output = command("maintain", "--dry-run", "--json")
    assert json.loads(output)["counts"] == {"expired": 1}

    assert command("maintain") == (0, "1 expired.\n")
    _, listed = command("job", "list", "--kind", "maintain", "--json")
    assert [one["result"]["expired"] for one in json.loads(listed)["jobs"]] == [1]
    code, again = command("maintain", "--json")
    output = json.loads(again)
    assert (code, output["state"], set(output["result"].values())) == (0, "done", {0})
