"""The schemas of every transport list exactly the arguments that the operations take."""

from collections.abc import Iterator
from typing import Any

import click
import pytest
import typer
from commonbrain_server.http.rest import SERVED
from starlette.testclient import TestClient

from commonbrain.api.operation import arguments_for_agents
from commonbrain.api.operations import OPERATIONS, Profile
from commonbrain.api.operations.job import JOB
from commonbrain.api.schemas import compact_schema
from commonbrain.cli.main import app
from commonbrain.jobs.registry import JOBS, check_arguments
from commonbrain.mcp.server import tools_of
from tests.serving import client_at
from tests.tool_schemas import arguments_in

ON_COMMAND_LINE = [one for one in OPERATIONS if one.commands]
POLICY = {"admin": ("tenant policy",)}
"""The command of another operation that sets the same policy."""


def alternatives(schemas: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a union of verbs, or the only object."""
    verbs = schemas[name].get("oneOf", [{"$ref": name}])
    yield from (schemas[verb["$ref"].rpartition("/")[2]] for verb in verbs)


def test_rest_schema_lists_the_arguments_of_each_operation_and_others_are_refused(
    ann: TestClient, subtests: pytest.Subtests
) -> None:
    schemas: dict[str, Any] = ann.get("/openapi.json").json()["components"]["schemas"]
    for operation in SERVED:
        with subtests.test(operation=operation.name):
            described = list(alternatives(schemas, operation.request.__name__))

            assert {name for one in described for name in one["properties"]} == set(
                operation.request.model_fields
            )
            assert all(one["additionalProperties"] is False for one in described)
            refused = ann.post(f"/v1/{operation.name}", json={"colour": "red"})
            assert refused.status_code == 422
            assert "There is no argument 'colour'" in refused.json()["detail"]


@pytest.mark.requirement("CL-10")
async def test_mcp_schema_lists_the_arguments_of_each_tool_and_others_are_refused(
    url: str,
) -> None:
    async with client_at(url, key="key-of-ada") as client:
        for tool in (await client.list_tools()).tools:
            operation = tools_of(Profile.CORE)[tool.name]
            refused = await client.call_tool(tool.name, {"colour": "red"})

            # The protocol of this client has no sessions, so each call can name its own.
            listed = arguments_in(tool.input_schema) - {"as_session"}
            assert listed == set(arguments_for_agents(operation.request))
            assert tool.input_schema["additionalProperties"] is False
            assert refused.is_error
            assert "There is no argument 'colour'" in str(refused.content)


@pytest.mark.requirement("CL-10")
async def test_mcp_tool_refuses_an_argument_that_only_rest_accepts(url: str) -> None:
    async with client_at(url, key="key-of-ada") as client:
        refused = await client.call_tool("remember", {"text": "Tea", "attachment": {"a": 1}})

    assert refused.is_error
    assert "There is no argument 'attachment'" in str(refused.content)


@pytest.mark.requirement("CL-10")
async def test_mcp_tool_rejects_an_item_with_a_field_that_only_rest_accepts(url: str) -> None:
    items = [{"text": "Tea", "attachment": {"a": 1}}, {"text": "Coffee is hot", "kind": "fact"}]
    async with client_at(url, key="key-of-ada") as client:
        reply = await client.call_tool("remember", {"items": items})

    assert reply.structured_content is not None
    first, second = reply.structured_content["items"]
    assert first["reason"] == "There is no argument 'attachment'."
    assert "attachment" not in first["hint"]
    assert second["status"] == "stored"


def test_commands_take_every_argument_of_their_operation(subtests: pytest.Subtests) -> None:
    group: Any = typer.main.get_command(app)
    for row in ON_COMMAND_LINE:
        operation = row.load()
        taken = {name for one in operation.commands for name in one.preset}
        for name in (*row.commands, *POLICY.get(row.name, ())):
            command = group
            for word in name.split():
                command = command.get_command(click.Context(command), word)
            taken |= {parameter.name for parameter in command.params}

        with subtests.test(operation=row.name):
            assert set(operation.request.model_fields) - {operation.batch_field} <= taken
            assert ("file" in taken) == (operation.batch_field is not None)


def test_unknown_argument_is_refused_with_the_nearest_known_name(
    ann: TestClient, subtests: pytest.Subtests
) -> None:
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("recall", {"kind": ["fact"]}, "kinds"),
        ("recall", {"max_item": 3}, "max_items"),
        ("status", {"error": 3}, "errors"),
        ("revise", {"op": "pin", "id": "mem_1", "texts": "x"}, "text"),
    ]
    for operation, given, nearest in calls:
        with subtests.test(operation=operation, given=given):
            refused = ann.post(f"/v1/{operation}", json=given)
            assert f"did you mean {nearest!r}?" in refused.json()["detail"]


def test_job_schema_lists_the_job_kinds_and_their_arguments() -> None:
    listed = str(compact_schema(JOB.request)["properties"]["kind"]["description"])

    for name, kind in JOBS.items():
        takes = f"{name}({', '.join(kind.parameters)})" if kind.parameters else name
        assert (takes in listed) == (kind.asked_by is None)
        check_arguments(name, {})
