"""Every column of every kind can be set, and read back, through every transport."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

import pytest
from mcp import Client

from commonbrain.api.operations.remember import REMEMBER
from commonbrain.cli.commands import SINGULAR
from commonbrain.mcp.server import build_server
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.testing.builders import a_brain
from tests.conftest import Command
from tests.serving import an_app, calling

# What the system sets: revisions set the status, claims the lease, repetition the count.
SYSTEM_COLUMNS: Final = {"status", "lease_holder", "lease_until", "recurrences", "sender"}
ARGUMENTS: Final[Mapping[str, str]] = {
    "skill": "skill_name",
    "thread_id": "thread",
    "recipients": "to",
    "parent_id": "id",
}
COLUMNS: Final = [
    (kind, column)
    for kind, policy in KINDS.items()
    for column in policy.columns
    if column not in SYSTEM_COLUMNS
]


def test_remember_names_every_kind_to_its_callers() -> None:
    described = REMEMBER.request.model_fields["kind"].description or ""
    assert [kind for kind in Kind if kind not in described] == []


Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Call an operation with arguments; give the reply as JSON."""
GIVEN: Final[Mapping[Kind, dict[str, Any]]] = {
    Kind.RULE: {
        "text": "Say so when the kettle boils",
        "severity": "BLOCKER",
        "skill_name": "kettle",
        "keywords": ["boils"],
        "skill_projects": ["kitchen"],
        "always_on": True,
        "must_ack": True,
    },
    Kind.FACT: {"text": "The kettle is blue", "subject": "the kettle", "ttl_s": 86_400},
    Kind.INCIDENT: {
        "text": "The kettle failed at noon",
        "root_cause": "The fuse was old",
        "resolution": "A new fuse",
    },
    Kind.TASK: {
        "text": "Descale the kettle",
        "priority": "high",
        "due_at": "2031-05-01T00:00:00Z",
        "must_ack": True,
        "assignee": "bo",
    },
    Kind.EVENT: {"text": "The kettle boiled", "actor": "ann", "importance": 0.9},
    Kind.EPISODE: {
        "text": "A day with the kettle",
        "started_at": "2026-01-01T00:00:00Z",
        "ended_at": "2026-01-02T00:00:00Z",
    },
    Kind.ATOM: {
        "subject": "the kettle",
        "action": "ran without water",
        "outcome": "the fuse blew",
        "consequences": "there was no tea",
        "outcome_delay_s": 60.5,
        "consequence_delay_s": 120.0,
    },
}
OF_ANY_KIND: Final = {
    "label": "kitchenware",
    "source_ref": "kettle.md:7",
    "occurred_at": "2026-01-03T00:00:00Z",
    "confidence": 0.25,
    "tags": ["steel"],
    "people": ["ann"],
    "project": "kitchen",
    "scope": "private",
}


@pytest.fixture(params=["cli", "mcp", "rest"])
async def call(request: pytest.FixtureRequest, path: Path) -> Any:  # noqa: ANN401
    async with AsyncExitStack() as stack:
        yield await caller_by(request, path, stack)


async def caller_by(request: pytest.FixtureRequest, path: Path, stack: AsyncExitStack) -> Call:
    """Open a store and return how to call its operations through a transport."""
    if request.param == "cli":
        command: Command = request.getfixturevalue("command")
        return lambda operation, given: by_command(command, operation, given)
    brain = a_brain(path)
    if request.param == "mcp":
        client = await stack.enter_async_context(Client(build_server(lambda: brain, is_owner=True)))
        stack.callback(brain.close)

        async def by_mcp(operation: str, given: dict[str, Any]) -> dict[str, Any]:
            reply = await client.call_tool(operation, given)
            assert not reply.is_error, reply.content
            return dict(reply.structured_content or {})

        return by_mcp
    rest = stack.enter_context(calling(an_app(brain), "key-of-ada"))

    async def by_rest(operation: str, given: dict[str, Any]) -> dict[str, Any]:
        reply = rest.post(f"/v1/{operation}", json=given)
        assert reply.status_code == 200, reply.text
        return reply.json()

    return by_rest


async def by_command(command: Command, operation: str, given: dict[str, Any]) -> dict[str, Any]:
    """Call an operation by its command; a verb is its second word."""
    words = [operation]
    grouped = operation in {"message", "session"}
    for name, value in given.items():
        option = f"--{SINGULAR.get(name, name)}".replace("_", "-")
        if name == "op" or name in positional(operation, given):
            words += map(str, listed(value))
        elif value is True:
            words.append(option)
        else:
            words += [part for one in listed(value) for part in (option, str(one))]
    words = ["task", "claim", str(given["id"])] if grouped and given["op"] == "claim" else words
    code, out = command(*words, "--json")
    assert code == 0, out
    return json.loads(out)


def listed(value: object) -> list[object]:
    """A list, or a value as its only element."""
    return cast("list[object]", value) if isinstance(value, list) else [value]


def positional(operation: str, given: Mapping[str, Any]) -> set[str]:
    """The arguments of a command without a name."""
    of_messages = {"send": {"text"}, "reply": {"id", "text"}}
    if operation == "message":
        return of_messages[given["op"]]
    return {"remember": {"text"}, "get": {"id"}, "revise": {"id"}}.get(operation, set())


async def shown(call: Call, reply: dict[str, Any]) -> dict[str, Any]:
    [item] = reply["items"]
    assert item["status"] == "stored", item
    return await call("get", {"id": [item["id"]]})


def test_values_of_the_tests_name_every_column() -> None:
    named = {(kind, ARGUMENTS.get(column, column)) for kind, column in COLUMNS}
    given = {(kind, name) for kind, values in GIVEN.items() for name in values}

    assert {one for one in named if one[0] is not Kind.MESSAGE} <= given


@pytest.mark.requirement("DM-73")
async def test_every_column_that_is_set_is_read_back(call: Call, subtests: pytest.Subtests) -> None:
    for kind, given in GIVEN.items():
        with subtests.test(kind=kind):
            reply = await call("remember", {**given, "kind": kind, **OF_ANY_KIND})
            one = await shown(call, reply)

            detail = one["detail"]
            for column in KINDS[kind].columns:
                if column in given:
                    assert same(detail[column], given[column]), column
            if kind is Kind.RULE:
                assert detail["skill"] == {
                    "name": "kettle",
                    "keywords": ["boils"],
                    "projects": ["kitchen"],
                    "always_on": True,
                }
            for name in ("label", "source_ref", "occurred_at", "project", "scope"):
                assert same(one[name], OF_ANY_KIND[name]), name
            assert one["confidence"] <= OF_ANY_KIND["confidence"]
            assert "steel" in one["tags"]


async def test_status_and_lease_of_a_task_are_set_by_their_operations(call: Call) -> None:
    stored = await call("remember", {"text": "Descale the kettle", "kind": "task"})
    [item] = stored["items"]
    await call("session", {"op": "claim", "id": item["id"]})
    await call("revise", {"op": "status", "id": item["id"], "value": "blocked"})

    detail = (await shown(call, stored))["detail"]
    assert detail["status"] == "blocked"
    assert detail["lease_until"]


async def test_every_column_of_a_message_is_set_by_sending_and_replying(call: Call) -> None:
    sent = await call(
        "message",
        {"op": "send", "text": "Tea?", "to": ["bo"], "subject": "tea", "priority": "urgent"},
    )
    first = sent["sent"]["id"]
    replied = await call("message", {"op": "reply", "id": [first], "text": "At noon."})
    detail = await detail_of(call, first)
    answer = await detail_of(call, replied["sent"]["id"])

    assert (detail["subject"], detail["priority"]) == ("tea", "urgent")
    assert list(detail["recipients"]) == ["bo"]
    assert detail["sender"]
    assert answer["thread_id"] == detail["thread_id"]
    assert answer["parent_id"]


async def detail_of(call: Call, id_: str) -> dict[str, Any]:
    return (await call("get", {"id": [id_]}))["detail"]


def same(read: object, given: object) -> bool:
    """Whether a value is the one that was given; a time may be written differently."""
    if isinstance(read, str) and isinstance(given, str) and re.match(r"\d{4}-\d\d-\d\dT", given):
        return datetime.fromisoformat(read) == datetime.fromisoformat(given)
    return read == given
