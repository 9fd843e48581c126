"""Which tests run with which command: `just test` runs the core, `just test-server` a part, ...

A test belongs to the part that its mark `part` names, else to the part of its folder or package,
else to the part of the servers that it asks for, else to the core. A module's own mark is read from
its source, so that modules of other parts are not even imported.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
PACKAGES: Final = TESTS.parent / "packages"
FOLDERS_OF_TESTS: Final = (TESTS, *sorted(PACKAGES.glob("*/tests")))
CORE: Final = "core"
PARTS: Final[Mapping[str, str]] = {
    CORE: "one person, any number of agents: one file, the command line, MCP, hooks and the page",
    "server": "teams: HTTP, tenants, keys, login, quotas, Postgres, Redis, metrics, deployment",
    "import": "the formats of other systems",
    "learn": "trained ranking: training, registry, rollout",
    "causes": "causes that texts state",
    "adapters": "agent frameworks",
    "models": "embedders and rerankers that are not the built-in one",
    "evals": "evaluations and benchmarks",
    "distributed": "replicas, and stores distributed with Citus",
}
"""The parts, with what each is about."""
DOCS: Final = "docs"
"""The topic of the files that lie in no folder: docs, settings, rules of the code."""
FOLDERS: Final[Mapping[str, str]] = {
    "benchmarks": "evals",
    "browser": "browser",
    "clients": "clients",
    "packages": "packages",
}
"""Folders of which every test belongs to one part or has a command of its own."""
TOPICS: Final = (
    DOCS,
    *sorted({path.parent.name for path in TESTS.glob("*/test_*.py")} - set(FOLDERS)),
)
"""The topics of the core: a folder for each of its packages, and for contracts, faults, stories."""
SERVERS: Final[Mapping[str, str]] = {"postgres": "server"}
"""Fixtures that start a server, with the part of who asks for it."""
_OF_MODULE: Final = re.compile(r'^pytestmark = .*\bpart\("(\w+)"\)', re.MULTILINE)


def add_option(parser: pytest.Parser) -> None:
    """Offer the option that names a part."""
    parser.addoption(
        "--part",
        choices=[*PARTS, *TOPICS],
        help="Run the tests of one part, or of one topic of the core; without it, of all.",
    )


def files_with_tests() -> list[Path]:
    """List the files with tests, of the core and of all packages."""
    return sorted(path for folder in FOLDERS_OF_TESTS for path in folder.rglob("test_*.py"))


@cache
def part_of_module(path: Path) -> str | None:
    """Return the part that all tests of a file belong to; None if they say so one by one."""
    own = _OF_MODULE.search(path.read_text("utf-8"))
    if own is not None:
        return own[1]
    if path.is_relative_to(PACKAGES):
        return path.relative_to(PACKAGES).parts[0].removeprefix("commonbrain-")
    folders = path.relative_to(TESTS).parts[:-1]
    return FOLDERS.get(folders[0]) if folders else None


def topic_of(path: Path) -> str | None:
    """Return the topic of a file of the core: its folder; None in a package."""
    if not path.is_relative_to(TESTS):
        return None
    folders = path.relative_to(TESTS).parts[:-1]
    return folders[0] if folders else DOCS


def may_hold(path: Path, part: str) -> bool:
    """Return whether a file may hold a test of a part, as far as its source says."""
    text = path.read_text("utf-8")
    if f'part("{part}")' in text:
        return True
    whole = part_of_module(path)
    if whole is not None:
        return whole == part
    return part == CORE or any(name in text for name, of in SERVERS.items() if of == part)


def part_of(item: pytest.Item) -> str:
    """Return the part that a test belongs to."""
    mark = item.get_closest_marker("part")
    if mark is not None:
        return str(mark.args[0])
    whole = part_of_module(item.path)
    if whole is not None:
        return whole
    names = set[str](getattr(item, "fixturenames", ()))
    call = getattr(item, "callspec", None)
    values: Iterable[object] = call.params.values() if call is not None else ()
    names.update(value for value in values if isinstance(value, str))
    return next((part for name, part in SERVERS.items() if name in names), CORE)


class PartSelection:
    """The pytest hooks that run the tests of one part, or of one topic of the core."""

    def __init__(self, name: str) -> None:
        self._part = CORE if name in TOPICS else name
        self._topic = name if name in TOPICS else None

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out files and folders without a test of the part; they are not imported."""
        if collection_path.parent == TESTS and collection_path.name in FOLDERS:
            paths = collection_path.rglob("test_*.py")
        elif re.fullmatch(r"test_\w+\.py", collection_path.name):
            paths = iter([collection_path])
        else:
            return None
        return None if any(map(self._is_read, paths)) else True

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect tests of other parts in the files that were read."""
        others = [item for item in items if part_of(item) != self._part]
        if others:
            items[:] = [item for item in items if part_of(item) == self._part]
            config.hook.pytest_deselected(items=others)

    def _is_read(self, path: Path) -> bool:
        is_of_topic = self._topic is None or topic_of(path) == self._topic
        return is_of_topic and may_hold(path, self._part)
