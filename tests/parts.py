"""Which tests run with which command: `just test` runs the core, `just test-server` a part, ...

A test belongs to the part that its mark `part` names, else to the part of its folder or package,
else to the part of the servers that it asks for, else to the core. A module's own mark is read from
its source, so that modules of other parts are not even imported.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
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
TOPICS: Final[Mapping[str, str]] = {
    "text": "domain",
    "storage": "contracts adapters",
    "ingestion": """
        flows/attachments flows/bounds flows/duplicate_rules
        flows/embedding* flows/long_texts flows/normalise flows/assumptions flows/remember*
        flows/wrong_calls
    """,
    "retrieval": """
        flows/answered flows/retrievers flows/changes flows/episodes_in_recall flows/exact_recall
        flows/fading
        flows/get flows/guidance flows/journal flows/kind_filters flows/ledger flows/links
        flows/missing_models
        flows/listing flows/marks flows/pages_of_memories flows/parameters flows/passages
        flows/people flows/questions_of_time flows/recall flows/skills
        flows/source_turns flows/timeline flows/trained_models flows/tuning
        flows/proactive_recall flows/views
        doors/asking_about_time doors/nearest
    """,
    "history": """
        flows/audit flows/authority flows/bulk_edit flows/forget*
        flows/inherited_links flows/never_again flows/origins flows/provenance
        flows/reading_the_audit flows/retention flows/revise* flows/undo* doors/correcting
    """,
    "invalidation": "flows/cascade* flows/placing flows/settling flows/open_conflicts",
    "causality": "flows/chains_by_name flows/fields flows/trace",
    "coordination": """
        flows/boot flows/action_items flows/action_item_laws flows/handoffs flows/leases
        flows/messages* flows/session*
    """,
    "consolidation": "flows/consolidating flows/maintaining flows/reflect* flows/status",
    "jobs": """
        flows/detached_executor flows/job* flows/moving flows/own_worker doors/job_lines
        doors/working
    """,
    "transfer": "importers flows/exporting flows/import*",
    "security": "security flows/*secret*",
    "faults": "faults",
    "observability": "telemetry",
    "cli": "doors",
    "mcp": "doors/connections doors/early_calls doors/mcp doors/sessions doors/sharing",
    "hooks": "doors/hook*",
    "connect": "doors/connect* doors/brain_command",
    "page": "web",
    "stories": "stories machines",
    "docs": ".",
}
"""Topics of the core: folders, and files without `test_`; a file is of its most precise row."""
FOLDERS: Final[Mapping[str, str]] = {
    "benchmarks": "evals",
    "browser": "browser",
    "clients": "clients",
    "packages": "packages",
}
"""Folders of which every test belongs to one part or has a command of its own."""
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


@cache
def topic_of(path: Path) -> str | None:
    """Return the topic of a file of the core; None if no row names it."""
    if not path.is_relative_to(TESTS):
        return None
    place = path.relative_to(TESTS)
    name = place.with_name(path.stem.removeprefix("test_")).as_posix()
    fitting = [
        (len(pattern), topic)
        for topic, patterns in TOPICS.items()
        for pattern in patterns.split()
        if fnmatch(name, pattern) or place.parent.as_posix() == pattern
    ]
    return max(fitting)[1] if fitting else None


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
