"""The sizes of packages and distributions are those of the ledger, and what the ledger counts."""

from pathlib import Path

import pytest

from benchmarks.ledger import (
    GOALS,
    LEDGER,
    Entry,
    count_lines,
    imported_libraries,
    ledger_changes,
    measure_entries,
    read_python,
    render_ledger,
    text_lines,
)

ADVICE = """LEDGER.md does not have the sizes of this code. Run `uv run just measure --write`, or
{changes}
If a number rises, the message of the commit says why."""


def test_ledger_has_the_sizes_of_the_code(subtests: pytest.Subtests) -> None:
    recorded = LEDGER.read_text("utf-8")
    entries = measure_entries()
    changes = ledger_changes(recorded, entries)

    assert not changes, ADVICE.format(changes="\n".join(changes))
    with subtests.test("its text is what the command writes"):
        assert recorded == render_ledger(entries)


def test_goals_are_of_rows_or_of_distributions_to_come() -> None:
    to_come = {f"commonbrain-{name}" for name in ("server", "import", "learn", "adapters")}
    recorded = LEDGER.read_text("utf-8")

    assert {name for name in GOALS.keys() - to_come if f"| `{name}` " not in recorded} == set()


def test_change_of_the_ledger_names_the_line_to_write() -> None:
    small = Entry(name="commonbrain/api", code_lines=10, files=1, dependencies=0)
    large = Entry(name="commonbrain/api", code_lines=11, files=1, dependencies=0)
    other = Entry(name="commonbrain/web", code_lines=1, files=1, dependencies=0)
    page = render_ledger([small])

    assert ledger_changes(page, [small]) == []
    assert ledger_changes(page, [large]) == [f"write: {large}\n  over: {small}"]
    assert ledger_changes(page, [small, other]) == [f"write: {other}\n  over: (no line)"]
    assert ledger_changes(page, []) == [f"delete: {small}"]


def test_code_lines_leave_out_blank_lines_comments_and_docstrings() -> None:
    source = '"""Doc."""\n\n# Comment.\nx = 1  # why\n"""Of x."""\ny = """a\nb"""\n'

    assert read_python(source)[0] == 3
    assert read_python('x = (\n    "a"\n    # Comment.\n    f"""b\n\n# {1}"""\n)\n')[0] == 6


def test_text_lines_leave_out_blank_lines_and_comments_and_fold_long_lines() -> None:
    assert text_lines("") == 0
    assert text_lines("<p>\n\n  <!-- why -->\n</p>\n") == 2
    assert text_lines("// why\n/* why */\na { }\n") == 1
    assert text_lines(f"{'x' * 100}\n") == 1
    assert text_lines(f"{'x' * 101}\n") == 2


def test_rows_of_a_table_count_once_each(tmp_path: Path) -> None:
    table = tmp_path / "days.jsonl"
    table.write_text(f'"{"x" * 500}"\n\n"y"\n')

    assert count_lines(table) == 2


def test_libraries_are_neither_of_python_nor_our_own(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import json, numpy.linalg\n"
        "from sqlalchemy.orm import Session\n"
        "from commonbrain.model import ids\n"
        "from . import other\n"
    )

    assert imported_libraries([module]) == {"numpy", "sqlalchemy"}
