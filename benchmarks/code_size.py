"""The ledger and the walk that one call takes through the code, and the goals of open issues."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Annotated, Any, Final

import grimp
import typer
from sqlalchemy import Engine, event

import commonbrain
from benchmarks.corpus import drafts, questions
from benchmarks.ledger import GOALS, Goal, measure_entries, write_ledger
from tests.test_vocabulary import find_retired

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = Path(commonbrain.__file__).parent
SHORT_LINES: Final = 50
"""A file with fewer lines counts as short."""

STORE_SIZE: Final = 120
"""Memories of the walked store: from 60 on a recall finds more than it returns, and the calls that
it makes hardly grow any more."""
QUESTIONS: Final = 5
"""Calls depend on what is found, so the recall with the median number of calls is reported."""

# Runs the console script as the shell would, and lists what it imported when it ends.
ENTRY: Final = """
import atexit, pathlib, sys
from importlib.metadata import entry_points

listing, *sys.argv = sys.argv[1:]
atexit.register(lambda: pathlib.Path(listing).write_text("\\n".join(sys.modules)))
(entry,) = entry_points(group="console_scripts", name="brain")
entry.load()()
"""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number and its goal; a goal of None is for information only."""

    name: str
    now: int
    goal: int | None = None

    @property
    def is_reached(self) -> bool | None:
        """Whether the number is at or below its goal."""
        return None if self.goal is None else self.now <= self.goal

    def line(self) -> str:
        """Render one row of the table."""
        goal = "" if self.goal is None else f"<= {self.goal:,}"
        mark = "reached" if self.is_reached else ""
        return f"{self.name:<52} {self.now:>8,} {goal:>10}  {mark}".rstrip()


@dataclass(slots=True)
class Walk:
    """Counts the calls of functions in commonbrain's files while `watch` runs, in all threads.

    A generator counts once for every time it is resumed, as `sys.setprofile` reports it.
    """

    calls: Counter[CodeType] = field(default_factory=Counter[CodeType])
    statements: int = 0
    """SQL statements, each BEGIN too; those of triggers and full-text tables are not counted."""
    is_watching: bool = False
    prefix: str = f"{PACKAGE}{os.sep}"

    def watch(self, action: Callable[[], object]) -> None:
        """Run the action once, counting."""
        self.is_watching = True
        sys.setprofile(self.profile)
        try:
            action()
        finally:
            sys.setprofile(None)
            self.is_watching = False

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Count one event of the profiler."""
        if (
            self.is_watching
            and event == "call"
            and frame.f_code.co_filename.startswith(self.prefix)
        ):
            self.calls[frame.f_code] += 1

    def note_statement(self, statement: str) -> None:
        """Count a statement that SQLite runs; it reports those within another as comments."""
        is_end = statement.startswith(("COMMIT", "ROLLBACK"))
        self.statements += self.is_watching and not is_end and not statement.startswith("--")

    @property
    def modules(self) -> int:
        """Distinct source files in which a function ran."""
        return len({code.co_filename for code in self.calls})


def call_measures(folder: Path) -> Iterable[Measure]:
    """Walk through warm recalls and a warm remember of an open, embedded store."""
    queries = questions(QUESTIONS, of=STORE_SIZE)
    recalls, remember = {question: Walk() for question in queries}, Walk()
    walks = (*recalls.values(), remember)

    def profile(frame: FrameType, event: str, argument: object) -> None:
        for walk in walks:
            walk.profile(frame, event, argument)

    def trace_statements(connection: Any, _: object) -> None:  # noqa: ANN401 the driver's
        connection.set_trace_callback(note_statement)

    def note_statement(statement: str) -> None:
        for walk in walks:
            walk.note_statement(statement)

    event.listen(Engine, "connect", trace_statements)
    # Threads that start from here on report to all; only the one that watches counts.
    threading.setprofile(profile)
    try:
        with commonbrain.open(folder / "walk.db") as brain:
            for draft in drafts(STORE_SIZE):
                brain.remember(draft)
            # Not a question that is watched: a cache of answers must not shorten the walk.
            brain.recall("What do we use?")
            for question, walk in recalls.items():
                walk.watch(partial(brain.recall, question))
            remember.watch(partial(brain.remember, "Backups are kept for a year", kind="fact"))
    finally:
        threading.setprofile(None)
        event.remove(Engine, "connect", trace_statements)
    recall = sorted(recalls.values(), key=lambda walk: walk.calls.total())[QUESTIONS // 2]
    yield Measure("modules executed by a warm recall", recall.modules, 30)
    yield Measure("functions executed by that recall", len(recall.calls), 220)
    yield Measure("Python calls of that recall", recall.calls.total(), 1_500)
    yield Measure("SQL statements of that recall", recall.statements, 12)
    yield Measure("modules executed by a warm remember", remember.modules, 36)
    yield Measure("functions executed by that remember", len(remember.calls))
    yield Measure("Python calls of that remember", remember.calls.total())
    yield Measure("SQL statements of that remember", remember.statements)


def import_measures(folder: Path) -> Iterable[Measure]:
    """Run the command and count the modules of commonbrain that it imported."""
    remember = imported_modules(folder, "remember", "Deploys happen on Friday")
    version = imported_modules(folder, "--version")
    yield Measure("modules imported by `brain remember`", remember, 150)
    yield Measure("modules imported by `brain --version`", version, 12)


def imported_modules(folder: Path, *arguments: str) -> int:
    """Count the modules of commonbrain that one run of the command imports."""
    listing = folder / "modules.txt"
    command = [sys.executable, "-c", ENTRY, str(listing), "brain", *arguments]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 our own entry point
    names = listing.read_text("utf-8").split()
    return sum(1 for name in names if name.partition(".")[0] == "commonbrain")


def file_measures() -> Iterable[Measure]:
    """Count files and folders."""
    files = sorted(PACKAGE.rglob("*.py"))
    folders = Counter(path.parent for path in files)
    texts = {path: path.read_text("utf-8") for path in files}
    short = [path for path, text in texts.items() if len(text.splitlines()) < SHORT_LINES]
    named = [path for path in short if path.name != "__init__.py"]
    yield Measure("Python files in the fullest folder of the core", max(folders.values()), 25)
    yield Measure(f"files under {SHORT_LINES} lines, without __init__", len(named), 25)
    yield Measure(f"files under {SHORT_LINES} lines, with __init__", len(short))


def ledger_measures() -> Iterable[Measure]:
    """Yield the rows of the ledger, with the goals of the open issues."""
    for entry in measure_entries():
        goal = GOALS.get(entry.name, Goal())
        yield Measure(f"{entry.name}: code lines", entry.code_lines, goal.code_lines)
        yield Measure(f"{entry.name}: files", entry.files, goal.files)
        yield Measure(f"{entry.name}: dependencies", entry.dependencies, goal.dependencies)


def lone_imports() -> list[str]:
    """Name the modules that exactly one module imports, which is in the same package."""
    graph = grimp.build_graph("commonbrain", cache_dir=None)
    lone: list[str] = []
    for module in sorted(graph.modules):
        importers = graph.find_modules_that_directly_import(module)
        parents = {importer.rpartition(".")[0] for importer in importers}
        if len(importers) == 1 and parents == {module.rpartition(".")[0]}:
            lone.append(module)
    return lone


def text_measures() -> Iterable[Measure]:
    """Count retired words, the words of the documentation and the lines of the README."""
    yield Measure("retired words in identifiers and visible texts", len(find_retired()), 0)
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "generated" not in path.parts]
    words = sum(len(page.read_text("utf-8").split()) for page in pages)
    readme = (ROOT / "README.md").read_text("utf-8").splitlines()
    yield Measure("words of docs", words, 35_000)
    yield Measure("lines of README", len(readme), 200)


def isolate(folder: Path) -> None:
    """Let no setting of this shell change what is measured, nor a measurement the user's store."""
    for name in [name for name in os.environ if name.startswith("COMMONBRAIN_")]:
        del os.environ[name]
    os.environ["COMMONBRAIN_STORE"] = str(folder / "command.db")
    os.environ["COMMONBRAIN_STATE"] = str(folder / "state")


def main(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Only write LEDGER.md.")] = False,
) -> None:
    """Print the ledger and the walk of one call, with the goals of the open issues."""
    if write:
        write_ledger()
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        isolate(folder)
        measures = [
            *ledger_measures(),
            *call_measures(folder),
            *import_measures(folder),
            *file_measures(),
            Measure("modules imported by one sibling alone", len(lone_imports()), 40),
            *text_measures(),
        ]
    if as_json:
        rows = [asdict(measure) | {"is_reached": measure.is_reached} for measure in measures]
        print(json.dumps(rows, indent=2))
        return
    print(f"{'':<52} {'now':>8} {'goal':>10}")
    for measure in measures:
        print(measure.line())


if __name__ == "__main__":
    typer.run(main)
