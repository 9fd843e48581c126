"""Which engine a store has, and what a command says that the engine cannot do."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from commonbrain.cli.main import app
from commonbrain.model.errors import InvalidInputError


def output_of(*words: str) -> str:
    """Give what a command says."""
    return CliRunner().invoke(app, words, catch_exceptions=False).stdout


def test_url_that_no_engine_opens_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidInputError, match="opens a store at otherdb://") as missing:
        output_of("--store", "otherdb://ann:s3cret@localhost/brain", "store", "upgrade")

    assert "postgresql://" in missing.value.hint
    assert "s3cret" not in f"{missing.value} {missing.value.hint}"


def test_store_in_a_file_is_not_upgraded_by_hand(tmp_path: object) -> None:
    with pytest.raises(InvalidInputError, match="when it is opened"):
        output_of("--store", f"{tmp_path}/brain.db", "store", "upgrade")


def test_url_of_a_store_is_not_written_into_the_file_of_a_client() -> None:
    url = "postgresql://ann:s3cret@localhost/brain"
    with pytest.raises(InvalidInputError, match="may hold a password") as refusal:
        output_of("--store", url, "connect", "cursor", "--dry-run")

    assert "s3cret" not in f"{refusal.value} {refusal.value.hint}"


def test_restore_of_a_server_names_the_tool_of_postgres() -> None:
    with pytest.raises(InvalidInputError, match="pg_restore") as refusal:
        output_of("--store", "postgresql://localhost/brain", "restore", "copy.db", "--yes")

    assert refusal.value.code == "restore_unsupported"


def test_store_in_a_file_is_not_distributed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="stays on one machine"):
        output_of("--store", f"{tmp_path}/brain.db", "store", "distribute", "--dry-run")
