"""`brain maintain`: what upkeep would do, and doing it now."""

import json

import pytest

from tests.doors.conftest import Command


@pytest.mark.requirement("JB-09")
def test_upkeep_is_foreseen_and_then_done_now(command: Command) -> None:
    command(
        "remember",
        "The release branch is locked",
        "--occurred-at",
        "2019-12-01",
        "--expires-at",
        "2020-01-01",
    )
    _, foreseen = command("maintain", "--dry-run")
    assert "expired" in foreseen
    assert "The release branch is locked" in foreseen
    _, told = command("maintain", "--dry-run", "--json")
    assert json.loads(told)["counts"] == {"expired": 1}

    assert command("maintain") == (0, "1 expired.\n")
    _, listed = command("job", "list", "--kind", "maintain", "--json")
    assert [one["result"]["expired"] for one in json.loads(listed)["jobs"]] == [1]
    code, again = command("maintain", "--json")
    told = json.loads(again)
    assert (code, told["state"], set(told["result"].values())) == (0, "done", {0})


@pytest.mark.requirement("LC-15")
def test_a_tenants_retention_is_told_and_shown(command: Command) -> None:
    rule = "kind=event label=log scope=team days=30 action=archive"
    _, told = command("tenant", "policy", "default", "--retention", rule)
    assert f"retention: {rule}" in told
    _, shown = command("tenant", "policy", "default")
    assert rule in shown
    code, refused = command("tenant", "policy", "default", "--retention", "kind=rule days=3")
    assert (code, "kept at any age" in refused) == (2, True)
    _, none = command("tenant", "policy", "default", "--retention", "none")
    assert "kept only" not in none
