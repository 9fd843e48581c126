"""Operations with several verbs: each verb takes its own arguments, and the schemas say which."""

from contextlib import closing
from pathlib import Path

import jsonschema
import pytest

import commonbrain
from commonbrain.api.operation import VerbRequest, arguments_for_agents
from commonbrain.api.operations import load_operations
from commonbrain.api.operations.revise import ReviseRequest
from commonbrain.api.schemas import compact_schema
from commonbrain.model.errors import InvalidInputError
from commonbrain.storage.sqlite.driver import driver
from tests.tool_schemas import arguments_in

REQUESTS = [one.request for one in load_operations() if issubclass(one.request, VerbRequest)]
every_request = pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one.__name__)


@every_request
def test_every_field_belongs_to_a_verb(request_: type[VerbRequest]) -> None:
    named = set[str]().union(*(request_.arguments_of(op) for op in request_.VERBS))
    assert named | {"op"} == set(request_.model_fields)


@every_request
def test_schema_of_a_request_has_one_object_per_verb(request_: type[VerbRequest]) -> None:
    schema = request_.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    shown = {one["properties"]["op"]["const"]: one for one in schema["oneOf"]}
    assert list(shown) == list(request_.VERBS)
    for op, one in shown.items():
        assert set(one["properties"]) == request_.arguments_of(op) | {"op"}
        assert set(request_.VERBS[op].required) <= set(one["required"])


@every_request
def test_agents_see_one_object_with_every_verb(request_: type[VerbRequest]) -> None:
    schema = compact_schema(request_)
    assert schema["properties"]["op"]["enum"] == list(request_.VERBS)
    assert arguments_in(schema) == set(arguments_for_agents(request_))


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ({"op": "pin", "text": "x"}, "pin takes no text.", "pin takes id."),
        ({"op": "link", "value": "about"}, "link needs other.", "other, value, strength"),
        ({"op": "rate"}, "rate needs value.", "rate takes id, value."),
    ],
)
def test_wrong_argument_is_refused_with_the_arguments_of_the_verb(
    arguments: dict[str, str], message: str, hint: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        ReviseRequest.model_validate({"id": "mem_1", **arguments})
    assert refused.value.message == message
    assert hint in refused.value.hint


def test_default_of_an_argument_of_another_verb_is_ignored() -> None:
    given: dict[str, object] = {"op": "pin", "id": "mem_1", "text": "", "other": None, "tags": []}
    assert ReviseRequest.model_validate(given).op == "pin"


READ_VERBS = [
    (operation, op)
    for operation in load_operations()
    if issubclass(operation.request, VerbRequest)
    for op, verb in operation.request.VERBS.items()
    if verb.is_read_only
]
"""Operations with the verbs that only read."""


def rows_of(store: Path) -> list[str]:
    with closing(driver().connect(str(store))) as connection:
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        tables = [name for (name,) in names if not name.startswith("sqlite_")]
        return [str(row) for one in tables for row in connection.execute(f'SELECT * FROM "{one}"')]  # noqa: S608


@pytest.mark.requirement("CL-14")
def test_verbs_that_only_read_change_no_row(path: Path) -> None:
    with commonbrain.open(path) as brain:
        stored = brain.remember("The kettle is in the blue cupboard.", kind="fact").items[0]
        brain.session.note("lamp", "green")
        brain.message.send("bob", "The lamp is green.")
        given: dict[tuple[str, str], dict[str, object]] = {
            ("job", "show"): {"id": brain.jobs.run("maintain").id},
            ("message", "history"): {"agent": "bob"},
            ("revise", "preview"): {"id": stored.id},
            ("tenant", "show"): {"name": "default"},
        }
        brain.services.journal.flush()
        before = rows_of(path)
        for operation, op in READ_VERBS:
            arguments = {"op": op, **given.get((operation.name, op), {})}
            # There is no model to show, and no dead session, which `session list` would end.
            if (operation.name, op) != ("model", "show"):
                request = operation.request.model_validate(arguments)
                assert operation.is_repeatable(request)
                for reader in (brain, brain.acting_as(agent="bob")):
                    operation.handle(reader, request)
        assert brain.acting_as(agent="bob").message.inbox().messages
        brain.services.journal.flush()
        assert rows_of(path) == before


def test_verbs_that_read_are_repeatable_and_those_that_write_are_not() -> None:
    by_name = {one.name: one for one in load_operations()}
    for name, reads, writes in [("session", "list", "end"), ("message", "inbox", "read")]:
        operation = by_name[name]
        assert operation.is_repeatable(operation.request.model_validate({"op": reads}))
        assert not operation.is_repeatable(operation.request.model_validate({"op": writes}))
