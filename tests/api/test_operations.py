"""Laws of the table of operations, from which every transport is made."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import commonbrain
from commonbrain.api import operations
from commonbrain.api.operations import OPERATIONS, Operation, Profile, Transport, load_operations
from commonbrain.cli.groups import GROUPS
from commonbrain.cli.main import run
from commonbrain.extras import load_row, load_rows
from commonbrain.mcp.server import build_server, tools_of
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.scope import Role
from tests.distributions import add_distribution

TOOLS = tools_of(Profile.CORE)

OBVIOUS = frozenset(
    "headline kind source_ref assignee".split()
    + "agent session project kinds labels tags scope since until".split()
)
"""Fields of revise and forget that say what they say in remember and recall."""

AnyOperation = Operation[Any, Any]


def test_operations_have_unique_names_and_a_transport() -> None:
    names = [operation.name for operation in load_operations()]
    assert len(set(names)) == len(names)
    assert all(operation.transports for operation in load_operations())


def test_table_lists_the_commands_and_the_tool_of_each_operation() -> None:
    for row in OPERATIONS:
        operation = row.load()
        own = {row.name} & set(row.commands)
        assert operation.name == row.name
        assert set(row.commands) - own == {one.name for one in operation.commands}
        assert bool(row.commands) == (Transport.CLI in operation.transports)
        is_tool = Transport.MCP in operation.transports
        assert row.tool == (operation.profile if is_tool else None)
        assert len(row.summary) <= 60
    files = {path.stem for path in Path(operations.__file__).parent.glob("*.py")}
    assert files - {"__init__"} == {row.name for row in OPERATIONS if row.extra is None}


def test_operation_of_a_package_that_is_not_installed_says_what_to_install() -> None:
    row = replace(OPERATIONS[0], extra="nothing")

    assert not row.is_installed
    with pytest.raises(InvalidInputError) as missing:
        row.load()
    assert missing.value.code == "extra_missing"
    assert "pip install 'commonbrain[nothing]'" in missing.value.hint


def test_every_operation_states_its_purpose_in_at_most_200_characters() -> None:
    for operation in load_operations():
        assert operation.name.isidentifier()
        assert operation.title, operation.name
        assert operation.purpose.endswith("."), operation.name
        assert len(operation.purpose) <= 200, operation.name


def test_every_field_of_a_request_is_described() -> None:
    assert [
        (operation.name, name)
        for operation in load_operations()
        for name, field in operation.request.model_fields.items()
        if not field.description and name not in OBVIOUS
    ] == []


def test_positional_fields_exist_and_the_required_come_first() -> None:
    for operation in load_operations():
        fields = operation.request.model_fields
        assert set(operation.positional) <= set(fields), operation.name
        needed = [fields[name].is_required() for name in operation.positional]
        assert needed == sorted(needed, reverse=True), operation.name


def test_readers_may_call_operations_that_only_read_and_no_others() -> None:
    for operation in load_operations():
        # Only an admin reads what other agents did; the session that boot starts is a reader's own.
        others = {Role.ADMIN, *((Role.READER,) if operation.name == "boot" else ())}
        expected = {Role.READER if operation.is_read_only else Role.WRITER} | others
        assert operation.role in expected, operation.name
        assert not (operation.is_read_only and operation.is_destructive), operation.name


@pytest.mark.requirement("CL-04")
async def test_library_command_and_mcp_give_the_same_json(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with commonbrain.open(path) as brain:
        fact = brain.remember("We chose Postgres for row-level security.", kind="fact").items[0]
        forgotten = brain.remember("The kettle is in the blue cupboard.", kind="fact").items[0]
        assert fact.id
        assert forgotten.id
        brain.forget(forgotten.id, reason="Nobody asks.")
        again = {"text": "We chose Postgres for row-level security.", "kind": "fact"}
        # Each of these answers the same however often it is asked.
        calls: dict[str, dict[str, Any]] = {
            "remember": again,
            "recall": {"query": "why postgres?", "project": "api"},
            "get": {"id": forgotten.id},
            "revise": {
                "op": "supersede",
                "id": fact.id,
                "reason": "It changed.",
                "kind": "?",
                "text": "x",
            },
            "forget": {"ids": [forgotten.id], "reason": "Nobody asks."},
            "boot": {"project": "nowhere"},
            "session": {"op": "list", "project": "elsewhere"},
            "message": {"op": "inbox", "limit": 5},
            "trace": {"op": "causes", "text": "why postgres?"},
            "job": {"op": "list", "state": "dead"},
            "status": {},
        }
        async with Client(build_server(lambda: brain, is_owner=True)) as client:
            for operation in load_operations():
                if operation.name not in TOOLS:
                    continue
                given = calls[operation.name]
                reply = operation.handle(brain, operation.request.model_validate(given))
                by_library = operation.to_json(reply)
                by_mcp = (await client.call_tool(operation.name, given)).structured_content
                by_command = printed(path, operation, given, monkeypatch, capsys)
                assert steady(by_mcp or {}) == steady(operation.to_agent_json(reply))
                assert steady(by_command) == steady(by_library)


def printed(
    path: Path,
    operation: AnyOperation,
    given: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> dict[str, Any]:
    """What the command prints for the same request."""
    own = operation.commands if operation.name in GROUPS else ()
    special = next((one for one in own if one.preset.items() <= given.items()), None)
    preset: Mapping[str, object] = special.preset if special else {}
    arguments = {name: value for name, value in given.items() if name not in preset}
    positional = (special.positional if special else ()) or operation.positional
    options = [
        part
        for name, value in arguments.items()
        if name not in positional
        for part in (f"--{name}", str(value))
    ]
    named = [part for name in positional if name in arguments for part in listed(arguments[name])]
    words = (special.name if special else operation.name).split()
    line = ["brain", "--store", str(path), *words, *named, *options, "--json"]
    monkeypatch.setattr(sys, "argv", line)
    with pytest.raises(SystemExit):
        run()
    output = capsys.readouterr()
    assert output.out, (line, output.err)
    return json.loads(output.out)


def listed(value: str | list[str]) -> list[str]:
    """One or several arguments as several."""
    return [value] if isinstance(value, str) else value


def steady(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply without what differs each time: a transport is a session, and a client has a name."""
    own = {"trace_id", "session", "siblings", "tokens", "loaded", "agent"}
    return {name: value for name, value in reply.items() if name not in own}


def test_row_that_cannot_be_loaded_is_left_out_and_named_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    add_distribution(tmp_path, "ann", "[commonbrain.page]\nann = gone_of_ann:PART\n")
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]

    assert "ann" not in load_rows("page")
    assert "ann 9.0 cannot be loaded: No module named 'gone_of_ann'" in caplog.text
    with pytest.raises(InvalidInputError, match=r"ann 9\.0 cannot be loaded"):
        load_row("page", "ann", extra="learn")
