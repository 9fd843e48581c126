"""Limits of the code style: sizes, parameters, names, docstrings, loose ends."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median, quantiles

from commonbrain.retrieval.retrieve import RETRIEVERS
from tests.parts import FOLDERS_OF_TESTS

ROOT = Path(__file__).parents[1]
TEST_FOLDERS = (*FOLDERS_OF_TESTS, ROOT / "benchmarks")
SOURCE = [
    path
    for folder in (ROOT / "src", ROOT / "packages")
    for path in sorted(folder.rglob("*.py"))
    if not any(path.is_relative_to(tests) for tests in TEST_FOLDERS)
]
SKIPPED = {".venv", "build", "generated"}
FILES = [path for path in SOURCE if not SKIPPED & set(path.parts)]
WRITTEN = [
    ROOT / "conftest.py",
    *(path for folder in TEST_FOLDERS for path in sorted(folder.rglob("*.py"))),
]
# The foreign clients that some tests drive are installed beside them.
TESTS = [path for path in WRITTEN if "node_modules" not in path.parts]

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 600
PARAMETERS_MAX = 6
CREWAI = "packages/commonbrain-adapters/src/commonbrain_adapters/crewai.py"
SERVE = "packages/commonbrain-server/src/commonbrain_server/cli.py"
POSITIONAL_MAX = 2
SUMMARY_COLUMNS_MAX = 96
BANNED_NAMES = {"utils", "helpers", "manager", "base", "common", "misc", "core", "lib"}

BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
"""The fields of statements that contain statements."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """A function, without the tree that it was read from, which takes 100 times the memory."""

    path: Path
    name: str
    line: int
    is_method: bool
    code_lines: int
    """Lines that hold code: no blank line, no comment, no docstring."""
    positional: int
    """Parameters that may be given by place, without `self`."""
    keywords: int

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} {self.name}"


@dataclass(frozen=True, slots=True)
class Module:
    path: Path
    summaries: tuple[str, ...]
    """First lines of all docstrings, its own first; empty where there is none."""
    functions: tuple[FunctionFacts, ...]


@cache
def modules() -> tuple[Module, ...]:
    return tuple(map(read_module, FILES))


def read_module(path: Path) -> Module:
    text = path.read_text("utf-8")
    nodes = list(statements(ast.parse(text)))
    methods = {id(item) for node in nodes if isinstance(node, ast.ClassDef) for item in node.body}
    lines = text.splitlines()
    return Module(
        path,
        tuple(
            (ast.get_docstring(node) or "").partition("\n")[0]
            for node in nodes
            if isinstance(node, ast.Module | ast.ClassDef | Function)
        ),
        tuple(
            read_function(path, node, lines=lines, is_method=id(node) in methods)
            for node in nodes
            if isinstance(node, Function)
        ),
    )


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Walk a module without its expressions, which contain no function and are most of it."""
    ahead: list[ast.AST] = [tree]
    while ahead:
        node = ahead.pop(0)
        yield node
        for field in BLOCKS:
            ahead += getattr(node, field, ())


def read_function(
    path: Path, function: Function, *, lines: list[str], is_method: bool
) -> FunctionFacts:
    body = function.body
    first = body[1] if ast.get_docstring(function) and len(body) > 1 else body[0]
    inside = [line.strip() for line in lines[first.lineno - 1 : function.end_lineno]]
    given = function.args
    names = [arg.arg for arg in (*given.posonlyargs, *given.args)]
    return FunctionFacts(
        path=path,
        name=function.name,
        line=function.lineno,
        is_method=is_method,
        code_lines=sum(1 for line in inside if line and not line.startswith("#")),
        positional=len(names) - (is_method and names[:1] in (["self"], ["cls"])),
        keywords=len(given.kwonlyargs),
    )


def functions() -> Iterator[FunctionFacts]:
    for module in modules():
        yield from module.functions


def test_functions_are_short() -> None:
    long = [one.place for one in functions() if one.code_lines > FUNCTION_LINES_MAX]

    assert not long


def test_files_are_short() -> None:
    paths = (*FILES, *TESTS)
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in paths
    }

    # The class of the library, one documented method per operation, is read by its index.
    sizes.pop("src/commonbrain/client.py")

    assert {path: size for path, size in sizes.items() if size > FILE_LINES_MAX} == {}


def test_parameters_are_few_and_named_after_the_second() -> None:
    def is_crowded(one: FunctionFacts) -> bool:
        # Python calls the first sort by place, pytest the second by name.
        is_called_so = re.fullmatch(r"__\w+__|test_\w+", one.name) is not None
        # Public methods spell out what editors show, and commands what their help shows; the
        # parameters of a storage are CrewAI's.
        spelled_out = ("src/commonbrain/client.py", "src/commonbrain/cli/main.py", SERVE, CREWAI)
        if one.place.startswith(spelled_out):
            return False
        is_wordy = one.positional > POSITIONAL_MAX and not is_called_so
        return one.positional + one.keywords > PARAMETERS_MAX or is_wordy

    crowded = [one.place for one in functions() if is_crowded(one)]

    assert not crowded


def test_summaries_are_one_short_sentence() -> None:
    summaries = [(one.path, summary) for one in modules() for summary in one.summaries]

    assert [where for where, summary in summaries if len(summary) > SUMMARY_COLUMNS_MAX] == []


def test_every_module_has_a_caption() -> None:
    bare = [one.path for one in modules() if not one.summaries[0]]

    assert not bare


def test_no_module_has_a_vague_name() -> None:
    assert [path for path in FILES if BANNED_NAMES & {path.stem, path.parent.name}] == []


def test_every_repository_method_is_called() -> None:
    """A query that nothing calls is what is left of a forgotten row, such as a retriever's."""
    called = set(re.findall(r"\.(\w+)\b", "\n".join(one.read_text("utf-8") for one in FILES)))
    methods = {
        one.name
        for one in functions()
        if one.path.parent.name == "repositories" and one.is_method and not one.name.startswith("_")
    }

    assert methods
    assert methods <= called


def test_every_retriever_is_documented() -> None:
    page = (ROOT / "docs" / "explanation" / "retrieval.md").read_text("utf-8")

    assert [name for name in RETRIEVERS if f"`{name}`" not in page] == []


def test_nothing_is_left_for_later() -> None:
    loose = re.compile(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b|pragma: no cover")
    marked = [path for path in FILES if loose.search(path.read_text("utf-8"))]

    assert not marked


def test_broad_excepts_are_only_where_foreign_code_raises_anything() -> None:
    # The embedding runtimes raise bare exceptions; a server and a worker must outlive one call, and
    # a client whatever its hook meets; what notes a call lets through whatever ended it;
    # a hook that another process runs must get an answer;
    # the log takes what any caller gave, and must never break the call that logs; a learnt model
    # raises what its library does, and a desktop notification whatever its system does; clients
    # that wait until the SDK is loaded must get whatever stopped it; a damaged pickle raises what
    # its opcodes lead to.
    allowed = {
        "onnx_runtime.py",
        "server.py",
        "write_behind.py",
        "runner.py",
        "worker.py",
        "dispatch.py",
    }
    allowed |= {"factory.py", "proxy.py", "app.py", "logs.py", "threads.py", "actions.py"}
    allowed |= {"tool_calls.py", "shared_server.py", "qdrant_points.py", "child_process.py"}
    broad = re.compile(r"except(?:\s+(?:Base)?Exception\b|\s*:)")
    names = {path.name for path in FILES if broad.search(path.read_text("utf-8"))}

    assert names <= allowed


def test_tests_do_not_sleep_or_patch_our_code() -> None:
    forbidden = re.compile(
        r"time\.sleep|anyio\.sleep|asyncio\.sleep|unittest\.mock|setattr\(\s*commonbrain"
    )
    shipped = [path for path in FILES if "testing" in path.parts]
    guilty = [
        p for p in (*TESTS, *shipped) if p != Path(__file__) and forbidden.search(p.read_text())
    ]

    assert not guilty


def test_the_typical_function_is_small(record_property: Callable[[str, object], None]) -> None:
    sizes = [one.code_lines for one in functions()]
    middle, p95 = median(sizes), quantiles(sizes, n=20)[-1]
    record_property("function lines, median and p95", f"{middle} / {p95}")

    assert middle <= 8
    assert p95 <= 38
