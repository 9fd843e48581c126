"""Revise and forget as they are called: on the command line and by agents."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client

from commonbrain.api.operations import load_operations
from commonbrain.api.schemas import compact_schema
from commonbrain.client import Brain
from commonbrain.mcp.server import build_server
from commonbrain.testing.builders import a_brain
from commonbrain.text.tokens import estimate
from tests.asking import stored
from tests.conftest import Command

TOKENS_MAX = {"remember": 600, "revise": 449, "forget": 300, "trace": 132}
"""So that all tools together stay within what an agent pays for before its first word."""


def remembered(command: Command, text: str, *more: str) -> str:
    _, out = command("remember", text, *more, "--json")
    return json.loads(out)["items"][0]["id"]


@pytest.mark.parametrize("name", TOKENS_MAX)
def test_tool_costs_at_most_its_token_budget(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    tool = next(one for one in load_operations() if one.name == name)
    shown = {"name": name, "description": tool.purpose, "inputSchema": compact_schema(tool.request)}
    cost = estimate(json.dumps(shown, separators=(",", ":")))
    record_property(f"tokens of {name}", cost)
    print(f"{name}: {cost} tokens")  # noqa: T201 the figure is wanted with -s
    assert cost <= TOKENS_MAX[name]


def test_every_way_to_revise_is_one_command(command: Command) -> None:
    one = remembered(command, "Renew the certificate of the API", "--kind", "task")
    other = remembered(command, "The certificate ends in May", "--kind", "fact")
    for line, word in (
        (("pin", one), "pinned: no -> yes"),
        (("pin", one), "unchanged"),
        (("unpin", one), "pinned: yes -> no"),
        (("retag", one, "--tag", "tls"), "tags: none -> tls"),
        (("rate", one, "--value", "up"), "rating: 0 -> 1"),
        (("status", one, "--value", "blocked", "--priority", "high"), "status: open -> blocked"),
        (("annotate", one, "Ask [bold]bob[/bold] first"), "annotated"),
        (("link", one, "--other", other, "--value", "depends_on"), "depends_on"),
        (("unlink", one, "--other", other, "--value", "depends_on"), "no longer"),
        (("resolve", one, "--other", other, "--reason", "newer"), "superseded_by: none"),
        (("keep_both", other, "--reason", "both hold"), "superseded -> active"),
    ):
        code, out = command("revise", *line)
        assert (code, word in out) == (0, True), out
    code, out = command("revise", "rate", one)
    assert (code, "rate needs value" in out) == (2, True)
    code, out = command("revise", "supersede", one, "word " * 401, "--reason", "longer")
    assert (code, "gate_atomicity" in out or "rejected" in out) == (3, True)


def test_forget_by_filter_is_previewed_and_done_with_yes(command: Command) -> None:
    for city in ("Zanzibar", "Antwerp"):
        remembered(command, f"The office in {city} opened", "--kind", "event", "--tag", "office")
    line = ("forget", "--tag", "office", "--reason", "closed")
    code, out = command(*line)
    assert (code, "forget preview: 2 (2 event)" in out, "confirm=2" in out) == (3, True, True)
    assert "The office in Zanzibar opened" in out
    code, out = command(*line, "--json")
    assert (code, json.loads(out)["status"]) == (3, "preview")
    code, out = command(*line, "--yes")
    assert (code, "forget done: 2" in out) == (0, True)
    assert "nothing_stored" in command("recall", "--json")[1]


def test_undo_erase_and_prune_are_commands_of_their_own(command: Command) -> None:
    id_ = remembered(command, "The office in Antwerp opened", "--kind", "event")
    assert command("undo", "--since", "2020-01-01", "--reason", "x")[0] == 3
    assert command("undo", "--agent", "nobody", "--reason", "x", "--yes")[0] == 0
    code, out = command("prune")
    assert (code, "There is nothing to prune" in out) == (0, True)
    assert "prune_guard" in command("prune", "--days", "3")[1]
    code, out = command("erase", id_, "--reason", "leaked")
    assert (code, "cannot be undone" in out) == (3, True)
    code, out = command("erase", id_, "--reason", "leaked", "--yes")
    assert (code, "receipt: " in out) == (0, True)
    assert "--tag" not in command("undo", "--help")[1]
    code, out = command("forget", "--op", "undo", "--tag", "x", "--reason", "x")
    assert (code, "undo takes no tags" in out) == (2, True)


async def test_reply_of_a_proposal_names_the_call_that_approves_it(path: Path) -> None:
    with a_brain(path) as brain:
        id_ = stored(brain, "Never push to main", kind="rule", trust="trusted_tool")
        async with Client(build_server(lambda: brain, agent="codex")) as client:
            pinned = await client.call_tool("revise", {"op": "pin", "id": id_})
            forgotten = await client.call_tool("forget", {"ids": [id_], "reason": "in my way"})
        assert not pinned.is_error
        assert (pinned.structured_content or {})["status"] == "proposed"
        assert (forgotten.structured_content or {})["status"] == "proposed"
        [held] = [word for word in str(forgotten.content).split() if word.startswith("mem_")][:1]
        assert f"revise approve {held}" in str(forgotten.content)
        assert isinstance(brain, Brain)
        assert brain.get(id_).state == "active"


def test_help_of_revise_names_every_verb(command: Command) -> None:
    _, out = command("revise", "--help")
    assert "supersede, restore, keep_both" in " ".join(out.split())


def test_contradiction_is_shown_as_a_conflict(command: Command) -> None:
    first = remembered(command, "The staging database has 4 replicas", "--kind", "fact")
    _, out = command("remember", "The staging database has 6 replicas", "--kind", "fact")
    assert f"contradicts {first}" in out
    assert f"similar {first}" not in out


def test_dry_run_lists_the_affected_memories_and_changes_nothing(command: Command) -> None:
    fact = remembered(command, "The gateway runs on nginx", "--kind", "fact")
    rests = ("--kind", "fact", "--depends-on", fact)
    near = remembered(command, "Timeouts belong in nginx conf", *rests)
    for line in (
        ("revise", "preview", fact),
        ("revise", "supersede", fact, "The gateway runs on envoy", "--dry-run"),
        ("forget", fact, "--dry-run"),
    ):
        code, out = command(*line)
        assert code == 0
        assert "Would need review: 1, archived 1." in out
        assert f"{near} -> {fact}" in out
    assert "needs review" not in command("get", near)[1].casefold()


def test_forget_with_json_asks_no_confirmation_for_many_dependents(command: Command) -> None:
    fact = remembered(command, "The gateway runs on nginx", "--kind", "fact")
    for name in ("apple", "bridge", "copper", "dolphin", "engine", "falcon", "gravel"):
        text = f"The {name} has a {name} in the {name} shed"
        remembered(command, text, "--kind", "fact", "--depends-on", fact)
    _, out = command("forget", fact, "--reason", "it was never so", "--json")
    assert json.loads(out)["affected"]["count"] == 7
