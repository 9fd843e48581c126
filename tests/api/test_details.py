"""Docs and help name every kind, and unknown columns are refused."""

from pathlib import Path
from typing import Final

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.service import Remember
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind

ROOT: Final = Path(__file__).parents[2]


def test_docs_and_help_of_remember_name_every_kind() -> None:
    domain = (ROOT / "docs" / "explanation" / "domain.md").read_text("utf-8")

    for kind in Kind:
        assert f"| {kind} |" in domain
        assert str(kind) in (Remember.__call__.__doc__ or "")


def test_argument_that_is_neither_of_a_memory_nor_of_a_kind_is_refused(brain: Brain) -> None:
    with pytest.raises(InvalidInputError, match="colour"):
        brain.remember("The kettle is blue", kind="fact", colour="blue")
