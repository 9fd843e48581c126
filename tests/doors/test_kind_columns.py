"""Every column of every kind can be set through every transport."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest
import typer

from commonbrain.api.operation import Operation
from commonbrain.api.operations.message import MESSAGE
from commonbrain.api.operations.remember import REMEMBER
from commonbrain.api.schemas import compact_schema
from commonbrain.cli.main import app
from commonbrain.model.kinds import KINDS, Kind

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


def options(operation: str) -> set[str]:
    groups: list[Any] = [typer.main.get_command(app)]
    names: set[str] = set()
    while groups:
        group = groups.pop()
        context = typer.Context(group, info_name="brain")
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if hasattr(command, "list_commands"):
                if name == operation:
                    groups.append(command)
            elif operation in {name, group.name}:
                names |= {parameter.name for parameter in command.params}
    return names


@pytest.mark.parametrize(("kind", "column"), COLUMNS)
@pytest.mark.parametrize("transport", ["cli", "mcp", "rest"])
def test_every_column_of_a_kind_is_an_argument(transport: str, kind: Kind, column: str) -> None:
    operation: Operation[Any, Any] = MESSAGE if kind is Kind.MESSAGE else REMEMBER
    if transport == "cli":
        known = options(operation.name)
    else:
        schema = json.dumps(compact_schema(operation.request))
        known = set(re.findall(r"\w+", schema))

    assert ARGUMENTS.get(column, column) in known


@pytest.mark.parametrize("kind", Kind)
def test_remember_names_every_kind_to_its_callers(kind: Kind) -> None:
    assert kind in (REMEMBER.request.model_fields["kind"].description or "")
