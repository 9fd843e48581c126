"""The generated reference leaves out nothing, and is the same wherever it is made."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from commonbrain.api.errors import ERRORS
from commonbrain.api.operations import OPERATIONS, Transport, load_operations
from commonbrain.config import Settings
from commonbrain.model import limits
from commonbrain.model.kinds import ALIASES, KINDS
from docs.reference import generate
from docs.reference.generate import (
    PAGES,
    commands_page,
    errors_page,
    kinds_page,
    limits_page,
    operations_page,
    rest_page,
    settings_page,
    write,
)

GENERATE = Path(generate.__file__)


def test_every_operation_is_listed_with_its_request_and_reply() -> None:
    page = operations_page()
    for operation in load_operations():
        _, rest = page.split(f"\n## {operation.name}\n")
        section = rest.partition("\n## ")[0]
        replied = operation.reply_adapter.json_schema(mode="serialization")["properties"]
        for field in (*operation.request.model_fields, *replied):
            assert f"| `{field}` |" in section


def test_every_command_is_listed_with_its_arguments_and_options() -> None:
    page = commands_page()
    grouped = {one.name for operation in load_operations() for one in operation.commands}
    for name in ("import", "mcp", *grouped):
        assert f"\n## brain {name}\n" in page
    for operation in (row.load() for row in OPERATIONS if row.name in row.commands):
        _, rest = page.split(f"\n## brain {operation.name}\n")
        section = rest.partition("\n## ")[0]
        fields = operation.fields_of(None)
        # Every command takes --json, --yes where a preview asks for a yes, --file for several, and
        # --csv for a table.
        asks = "confirm" in fields or operation.preview is not None
        more = 1 + asks + (operation.batch_field is not None) + (operation.to_csv is not None)
        assert section.count("\n| `") == len(fields) + more
        assert "| `--json` |" in section
    assert "| `--store` or `COMMONBRAIN_STORE` | no | The store: a file or a URL. |" in page
    assert "| `--tag`, any number of times | no | A keyword to find it by |" in page
    assert "completion" not in page


def test_every_path_of_the_server_is_listed() -> None:
    page = rest_page()
    for operation in (one for one in load_operations() if Transport.REST in one.transports):
        assert f"| `POST /v1/{operation.name}` | `{operation.role}` |" in page
    for path in ("/v1/memories/{id}", "/v0/memory/{id}", "/mcp", "/readyz", "/openapi.json"):
        assert path in page


def test_every_kind_and_alias_is_listed_with_its_columns() -> None:
    page = kinds_page()
    for kind, policy in KINDS.items():
        [row] = re.findall(rf"^\| `{kind}` \|.*", page, re.MULTILINE)
        assert all(f"`{column}`" in row for column in policy.columns)
        assert str(policy.salience) in row
    for alias, kind in ALIASES.items():
        assert f"| `{alias}` | `{kind}` |" in page


def test_kinds_that_decay_are_listed_with_their_half_life() -> None:
    page = kinds_page()
    assert re.search(r"`fact`.* 7 days \| never", page)
    assert re.search(r"`event`.* 48 hours \| never", page)
    assert re.search(r"`incident`.* never \| 90 days", page)


def test_every_setting_is_listed_with_its_variable_and_its_purpose(
    subtests: pytest.Subtests,
) -> None:
    page = settings_page()
    for name, field in Settings.model_fields.items():
        with subtests.test(setting=name):
            [row] = re.findall(rf"^\| `COMMONBRAIN_{name.upper()}` \|.*", page, re.MULTILINE)
            assert row.endswith(f" {field.description} |")


def test_settings_are_listed_with_their_bounds() -> None:
    page = settings_page()
    assert "| `1` | integer from 1 to 64 |" in page
    assert "| `30.0` | number above 0 to 600 |" in page
    assert "| `full` | `full`, `normal` |" in page
    assert "| not set | string of at most 128 characters |" in page


def test_every_error_is_listed_with_its_codes() -> None:
    page = errors_page()
    for fault in ERRORS:
        name, code = fault.error.__name__, fault.error.default_code
        assert f"| `{name}` | `{code}` | {fault.exit_code} | {fault.http_status} |" in page


def test_every_limit_is_listed_with_its_value() -> None:
    page = limits_page()
    names = [name for name, limit in vars(limits).items() if isinstance(limit, int | float)]
    assert len(names) == page.count("| `")
    for name in names:
        assert f"| `{name}` | {getattr(limits, name):,} |" in page


def test_every_row_of_a_table_has_as_many_cells() -> None:
    for draw in PAGES.values():
        for table in re.findall(r"(?:^\|.*\n?)+", draw(), re.MULTILINE):
            columns = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
            assert len(columns) == 1, table


def test_pages_are_the_same_in_every_process_and_name_no_machine(tmp_path: Path) -> None:
    # Sets of names are ordered by their hashes, which differ from process to process.
    elsewhere = tmp_path / "elsewhere"
    subprocess.run(
        [sys.executable, GENERATE, elsewhere],
        env=os.environ | {"PYTHONHASHSEED": "7", "HOME": str(tmp_path)},
        check=True,
        capture_output=True,
    )
    write(tmp_path / "here")
    for name in PAGES:
        page = (tmp_path / "here" / name).read_text()
        assert page == (elsewhere / name).read_text()
        assert str(Path.home()) not in page
