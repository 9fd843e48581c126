"""The columns of single kinds can be set on every transport."""

from pathlib import Path
from typing import Final

from commonbrain.api.operations.remember import REMEMBER, RememberRequest
from commonbrain.api.schemas import compact_schema
from commonbrain.client import Brain, DraftDetails
from commonbrain.ingestion.preparation import DraftFields
from commonbrain.model.kinds import KINDS, Kind

ROOT: Final = Path(__file__).parents[2]
MANAGED = {
    Kind.RULE: {"skill"},
    Kind.TASK: {"status", "lease_holder", "lease_until"},
    Kind.EVENT: {"recurrences"},
}
"""Columns that other operations set; the trigger of a skill has fields of its own."""
COLUMNS = {
    column
    for kind, policy in KINDS.items()
    for column in policy.columns
    # The operation message writes messages.
    if kind is not Kind.MESSAGE and column not in MANAGED.get(kind, ())
}


def test_python_names_every_column_of_a_kind_to_editors_and_type_checkers() -> None:
    assert set(DraftDetails.__annotations__) >= COLUMNS
    assert set(DraftFields.__annotations__) >= COLUMNS


def test_docs_and_help_of_remember_name_every_kind() -> None:
    domain = (ROOT / "docs" / "explanation" / "domain.md").read_text("utf-8")

    for kind in Kind:
        assert f"| {kind} |" in domain
        assert str(kind) in (Brain.remember.__doc__ or "")


def test_every_transport_can_set_the_columns_of_every_kind() -> None:
    assert set(REMEMBER.fields_of(None)) >= COLUMNS
    assert set(RememberRequest.model_json_schema()["properties"]) >= COLUMNS
    assert set(compact_schema(RememberRequest)["properties"]) >= COLUMNS
