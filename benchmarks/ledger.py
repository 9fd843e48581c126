"""The ledger: how many code lines, files and dependencies each package and distribution has.

`LEDGER.md` holds the numbers, and `tests/test_size.py` holds the code to them.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

ROOT: Final = Path(__file__).parents[1]
LEDGER: Final = ROOT / "LEDGER.md"
CORE: Final = "commonbrain"
CORE_FOLDER: Final = "src/commonbrain"
COLUMNS: Final = 100
"""The width of a line of Python here; in other files a longer line counts as several."""
COUNTED_SUFFIXES: Final = frozenset(
    {
        *(".py", ".html", ".css", ".js", ".mjs", ".ts", ".svg", ".jinja", ".mako", ".sql"),
        *(".txt", ".json", ".jsonl", ".toml", ".csv", ".yaml", ".yml"),
    }
)
SKIPPED_FOLDERS: Final = frozenset({"generated"})
"""What a program wrote."""
_NO_CODE: Final = {tokenize.COMMENT, tokenize.ENDMARKER, tokenize.NEWLINE, tokenize.NL}
COMMENT: Final = re.compile(r"//|/?\*|<!--|\{#")
"""How a line begins that holds only a comment, in templates, styles and scripts."""
HEADING: Final = """\
# Ledger

The size of all that ships. A change that lowers a number lowers it here in the same commit; a
change that raises one raises it here, and the commit's message says why. `uv run just measure
--write` writes the table, and `tests/test_size.py` fails if a number is not exact.

- **Code lines**: Python without blank lines, comments and docstrings; other files (templates,
  scripts, styles, tables of words and patterns) without blank lines and comments, a line again for
  every 100 columns, and a row of a `.jsonl` once. Models and generated files do not count.
- **Dependencies**: what a distribution always installs; for a package of the core, the libraries
  that it imports.
- `commonbrain/*.py` are the files outside of packages.

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row of the ledger."""

    name: str
    code_lines: int
    files: int
    dependencies: int

    def __str__(self) -> str:
        name = f"`{self.name}`"
        return (
            f"| {name:<28} | {self.code_lines:>10,} | {self.files:>5} | {self.dependencies:>12} |"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The most that an open issue allows a row to have; None is for no goal."""

    code_lines: int | None = None
    files: int | None = None
    dependencies: int | None = None


GOALS: Final[Mapping[str, Goal]] = MappingProxyType(
    {
        # A step: in the end the core has 45,000 lines.
        "commonbrain": Goal(code_lines=52_000, files=360, dependencies=20),
        "commonbrain-server": Goal(code_lines=8_500),
        "commonbrain-import": Goal(code_lines=4_800),
        "commonbrain-learn": Goal(code_lines=2_900),
        "commonbrain-adapters": Goal(code_lines=1_500),
        "commonbrain-evals": Goal(code_lines=7_200),
        "commonbrain/retrieval": Goal(code_lines=3_900),
    }
)


def measure_entries(root: Path = ROOT) -> list[Entry]:
    """Count the distributions and the packages of the core, in the order of the ledger."""
    paths = _tracked_files(root)
    folders = {CORE: CORE_FOLDER}
    for project in sorted((*root.glob("packages/*"), *root.glob("clients/*"))):
        if any((project / name).exists() for name in ("pyproject.toml", "package.json")):
            folder = project.relative_to(root).as_posix()
            folders[folder.removeprefix("packages/")] = f"{folder}/src"
    distributions = [
        _entry(name, _under(paths, root / folder), dependencies=_hard_dependencies(root, folder))
        for name, folder in folders.items()
    ]
    return [*distributions, *_core_entries(_under(paths, root / CORE_FOLDER), root / CORE_FOLDER)]


def _core_entries(paths: Iterable[Path], core: Path) -> Iterator[Entry]:
    packages: dict[str, list[Path]] = {}
    for path in paths:
        package, *inside = path.relative_to(core).parts
        packages.setdefault(package if inside else "*.py", []).append(path)
    for package, files in sorted(packages.items()):
        libraries = len(imported_libraries(path for path in files if path.suffix == ".py"))
        yield _entry(f"{CORE}/{package}", files, dependencies=libraries)


def _entry(name: str, paths: Iterable[Path], *, dependencies: int) -> Entry:
    files = list(paths)
    lines = sum(count_lines(path) for path in files)
    return Entry(name=name, code_lines=lines, files=len(files), dependencies=dependencies)


def _tracked_files(root: Path) -> list[Path]:
    """List what Git has or would add, which leaves fetched models and scripts out."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others"]
    listing = subprocess.run(  # noqa: S603 our own arguments
        [*command, "--exclude-standard", "--", "src", "packages", "clients"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = {root / name for name in listing.split("\0") if name}
    return sorted(
        path
        for path in paths
        if path.suffix in COUNTED_SUFFIXES
        and not SKIPPED_FOLDERS & set(path.relative_to(root).parts)
        and path.exists()
    )


def _under(paths: Iterable[Path], folder: Path) -> list[Path]:
    return [path for path in paths if path.is_relative_to(folder)]


def _hard_dependencies(root: Path, folder: str) -> int:
    project = root / folder.removesuffix(f"/{CORE}").removesuffix("src")
    if (project / "pyproject.toml").exists():
        described = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))
        return len(described["project"].get("dependencies", ()))
    described = json.loads((project / "package.json").read_text("utf-8"))
    return len(described.get("dependencies", ()))


def imported_libraries(paths: Iterable[Path]) -> set[str]:
    """Name the top-level modules that files import, without the standard library and our own."""
    names = set[str]().union(*(_read_python(path)[1] for path in paths))
    return {name for name in names - sys.stdlib_module_names if name != CORE}


def count_lines(path: Path) -> int:
    """Count the code lines of a file."""
    if path.suffix == ".py":
        return _read_python(path)[0]
    text = path.read_text("utf-8")
    if path.suffix == ".jsonl":
        return sum(1 for line in text.splitlines() if line.strip())
    return text_lines(text)


@cache
def _read_python(path: Path) -> tuple[int, frozenset[str]]:
    return read_python(path.read_text("utf-8"))


def read_python(source: str) -> tuple[int, frozenset[str]]:
    """Count the lines that hold code, and name the top-level modules that are imported.

    No code are blank lines, comments and docstrings, of attributes too.
    """
    rows = source.split("\n")
    seems_code = [bool(text := row.strip()) and not text.startswith("#") for row in rows]
    lines = {number for number, is_code in enumerate(seems_code, start=1) if is_code}
    docstrings, within = set[int](), set[int]()
    imported = set[str]()
    for node in _informative_nodes(ast.parse(source), seems_code):
        # By class: patterns would take several times as long for a million nodes.
        if isinstance(node, ast.Constant | ast.JoinedStr):
            if isinstance(node, ast.JoinedStr):
                within.update(map(id, node.values))
            if node.lineno != node.end_lineno and id(node) not in within:
                lines |= _lines_of_text(node, rows)
        elif isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                docstrings |= _span(node)
        elif isinstance(node, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported.add(node.module.partition(".")[0])
    return len(lines - docstrings), frozenset(imported)


def _informative_nodes(tree: ast.AST, seems_code: Sequence[bool]) -> Iterator[ast.AST]:
    """Walk a tree without expressions all of whose lines seem to be code, as nearly all do."""
    count_before = [0, *accumulate(map(int, seems_code))]
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.expr):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            if count_before[last] - count_before[first] == last - first:
                continue
        yield node
        for name in node._fields:
            child = getattr(node, name, None)
            if isinstance(child, list):
                ahead += [one for one in cast("list[object]", child) if isinstance(one, ast.AST)]
            elif isinstance(child, ast.AST):
                ahead.append(child)


def _lines_of_text(node: ast.expr, rows: Sequence[str]) -> set[int]:
    """Return the lines of a text: blank ones too, but no comments between its pieces."""
    first, *others = rows[node.lineno - 1 : node.end_lineno]
    others[-1] = others[-1].encode()[: node.end_col_offset].decode()
    source = "\n".join([f"({first.encode()[node.col_offset :].decode()}", *others, ")"])
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return {node.lineno - 1 + line for line in lines if line <= len(others) + 1}


def _span(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def text_lines(text: str) -> int:
    """Count lines that are neither blank nor a comment, again for every 100 columns."""
    lines = (line.strip() for line in text.splitlines())
    return sum(ceil(len(line) / COLUMNS) for line in lines if line and not COMMENT.match(line))


def render_ledger(entries: Iterable[Entry]) -> str:
    """Render the page."""
    head = f"| {'':<28} | code lines | files | dependencies |"
    rule = f"| {'-' * 28} | {'-' * 9}: | {'-' * 4}: | {'-' * 11}: |"
    return HEADING + "\n".join([head, rule, *map(str, entries)]) + "\n"


def write_ledger() -> None:
    """Write the ledger anew."""
    LEDGER.write_text(render_ledger(measure_entries()), "utf-8")


def ledger_changes(recorded: str, entries: Iterable[Entry]) -> list[str]:
    """Describe how a ledger differs from what was counted, with the line to write for each."""
    rows = [line for line in recorded.splitlines() if line.startswith("| `")]
    by_name = {line.split("`")[1]: line for line in rows}
    expected = {entry.name: str(entry) for entry in entries}
    changed = [
        f"write: {line}\n  over: {by_name.get(name, '(no line)')}"
        for name, line in expected.items()
        if by_name.get(name) != line
    ]
    return [*changed, *(f"delete: {by_name[name]}" for name in by_name if name not in expected)]
