"""The OpenAPI description has what generators of clients need."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from commonbrain_server.http.openapi import to_json
from commonbrain_server.http.rest import SERVED

from commonbrain.api.operation import VerbRequest
from commonbrain.testing.builders import a_brain
from tests.serving import an_app

ROOT: Final = Path(__file__).parents[3]
WRITTEN: Final = ROOT / "packages" / "commonbrain-client" / "openapi.json"
Node = dict[str, Any]


@pytest.fixture(scope="module")
def described() -> Node:
    return json.loads(WRITTEN.read_text("utf-8"))


def objects(node: object) -> Iterator[Node]:
    """Yield every object of a JSON value."""
    parts: list[object] = []
    if isinstance(node, dict):
        yield (own := cast("Node", node))
        parts = [*own.values()]
    elif isinstance(node, list):
        parts = cast("list[object]", node)
    for part in parts:
        yield from objects(part)


def routes(described: Node) -> Iterator[Node]:
    for methods in described["paths"].values():
        yield from methods.values()


def resolved(described: Node, reference: str) -> Node:
    node = described
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return node


def test_openapi_file_in_the_repository_equals_the_description_of_the_server(path: Path) -> None:
    assert to_json(an_app(a_brain(path))) == WRITTEN.read_text("utf-8"), "Run `just openapi`."


def test_openapi_command_writes_the_file_of_the_repository(tmp_path: Path) -> None:
    written = tmp_path / "openapi.json"

    subprocess.run(
        [sys.executable, "-m", "commonbrain_server.http.openapi", str(written)],
        check=True,
        timeout=60,
    )

    assert written.read_text("utf-8") == WRITTEN.read_text("utf-8")


def test_operation_ids_are_short_and_unique(described: Node) -> None:
    ids = [route["operationId"] for route in routes(described)]

    assert len({*ids}) == len(ids)
    assert all(id_.replace("_", "").isalnum() and len(id_) <= 12 for id_ in ids)
    assert {one.name for one in SERVED} <= {*ids}


@pytest.mark.requirement("CL-21", "CL-22")
def test_every_schema_name_is_alphanumeric(described: Node) -> None:
    assert [name for name in described["components"]["schemas"] if not name.isalnum()] == []


def test_every_reference_resolves_to_a_definition(described: Node) -> None:
    for node in objects(described):
        if "$ref" in node:
            assert "$ref" not in resolved(described, node["$ref"])


@pytest.mark.requirement("CL-21", "CL-22")
def test_union_of_verbs_maps_each_verb_to_a_named_schema(described: Node) -> None:
    schemas = described["components"]["schemas"]
    for operation in SERVED:
        if issubclass(operation.request, VerbRequest):
            union = schemas[operation.request.__name__]
            mapping = union["discriminator"]["mapping"]
            assert mapping.keys() == operation.request.VERBS.keys()
            assert [one["$ref"] for one in union["oneOf"]] == [*mapping.values()]
            for op, reference in mapping.items():
                assert resolved(described, reference)["properties"]["op"]["const"] == op


@pytest.mark.requirement("CL-21", "CL-22")
def test_every_error_response_has_the_problem_details_schema(described: Node) -> None:
    for route in routes(described):
        errors = {status: one for status, one in route["responses"].items() if status >= "400"}
        for response in errors.values():
            content = resolved(described, response["$ref"])["content"]
            schema = content["application/problem+json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Problem"}
        if "v1" in route["tags"]:
            assert {"401", "403", "404", "422", "429", "503"} <= errors.keys()


def test_temporary_errors_have_a_retry_after_header(described: Node) -> None:
    responses = described["components"]["responses"]

    for name in ("TooManyRequests", "ServiceUnavailable"):
        assert "Retry-After" in responses[name]["headers"]


def test_openapi_description_names_the_credentials_and_the_servers(described: Node) -> None:
    assert described["components"]["securitySchemes"].keys() == {"bearer", "key"}
    assert [one["url"] for one in described["servers"]] == ["/", "http://127.0.0.1:8377"]


@pytest.mark.requirement("CL-21", "CL-22")
def test_openapi_description_marks_idempotent_requests(described: Node) -> None:
    repeatable = {
        route["operationId"]: route.get("x-repeatable")
        for route in routes(described)
        if "v1" in route["tags"]
    }

    assert repeatable["recall"] is True
    assert repeatable["boot"] is False
    assert repeatable["remember"] is False
    assert repeatable["revise"] == ["preview"]
    assert None not in repeatable.values()
