"""Holds the table of requirements and the tests to each other, both ways, by reading source.

Marks are found in the syntax tree, so that one test file run alone, or one worker of many, sees
the same marks as the whole suite.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tests.parts import FOLDERS_OF_TESTS
from tests.requirements import GROUPS, REQUIREMENTS, Adopted, Gap, NotApplicable, Requirement

ROOT = Path(__file__).parents[1]
# Contract suites ship with the package and run in whatever subclasses them, so their marks count.
TEST_FOLDERS = (*FOLDERS_OF_TESTS, ROOT / "src" / "commonbrain" / "testing")

EXAMPLE = """
@requirement("XX-01")
def no_mark_of_pytest(): ...

@pytest.mark.requirement("XX-02")
def test_function(): ...

@pytest.mark.requirement("XX-03", "XX-04")
class TestClass:
    @pytest.mark.skipif(True, reason="")
    @pytest.mark.requirement("XX-05")
    async def test_method(self): ...

@pytest.mark.requirement("XX-06")
def builder_that_never_runs(): ...

pytestmark = pytest.mark.requirement("XX-07")

@pytest.mark.requirement(*IDS)
def test_of_ids_out_of_sight(): ...
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One id as a test claims it; off a test, or not spelt out, it proves nothing."""

    place: str
    id: str
    is_on_a_test: bool


def test_every_line_of_every_group_has_one_row() -> None:
    faults = misnumbered(REQUIREMENTS, GROUPS)
    assert not faults, "\n".join(faults)


def test_every_sentence_is_whole_and_said_once() -> None:
    sentences = [row.sentence for row in REQUIREMENTS]
    assert [text for text in sentences if not text.endswith(".")] == []
    assert [text for text, times in Counter(sentences).items() if times > 1] == []


def test_marks_and_adopted_requirements_agree() -> None:
    faults = disagreements(REQUIREMENTS, marks_of_the_suite())
    assert not faults, "\n".join(faults)


def test_a_lost_a_repeated_and_an_unknown_line_are_named() -> None:
    rows = (Gap("XX-01 XX-03", "One."), NotApplicable("XX-03 YY-01", "Two."))
    assert misnumbered(rows, {"XX": 3}) == [
        "XX-02 has no row",
        "XX-03 has 2 rows",
        "YY-01 is not in any group",
    ]


def test_a_mark_without_adoption_and_an_adoption_without_mark_are_named() -> None:
    rows = (Adopted("XX-01 XX-02", "Both are built."), Gap("XX-03", "Missing."))
    marks = [
        Mark(place="a.py:1", id="XX-01", is_on_a_test=True),
        Mark(place="a.py:2", id="XX-02", is_on_a_test=False),
        Mark(place="a.py:3", id="XX-03", is_on_a_test=True),
        Mark(place="a.py:4", id="XX-04", is_on_a_test=True),
    ]
    assert disagreements(rows, marks) == [
        "a.py:2: the mark of XX-02 stands on no test, or is no literal",
        "a.py:3: XX-03 is Gap, and only Adopted ids are marked",
        "a.py:4: there is no requirement XX-04",
        "XX-02 is Adopted, and no test is marked with it",
    ]


def test_marks_are_read_from_tests_and_their_classes_and_misplaced_ones_are_seen() -> None:
    marks = marks_in(EXAMPLE, "x.py")
    assert [mark.id for mark in marks if mark.is_on_a_test] == ["XX-02", "XX-03", "XX-04", "XX-05"]
    assert [(mark.place, mark.id) for mark in marks if not mark.is_on_a_test] == [
        ("x.py:14", "XX-06"),
        ("x.py:17", "XX-07"),
        ("x.py:19", "*IDS"),
    ]


def ids_of(rows: Iterable[Requirement]) -> list[str]:
    """Each id as often as a row speaks for it."""
    return [requirement_id for row in rows for requirement_id in row.ids.split()]


def misnumbered(rows: Iterable[Requirement], groups: Mapping[str, int]) -> list[str]:
    """What keeps the rows from having each numbered line of each group exactly once."""
    rows_of = Counter(ids_of(rows))
    expected = [f"{group}-{n:02}" for group, count in groups.items() for n in range(1, count + 1)]
    lost = [f"{line} has no row" for line in expected if line not in rows_of]
    repeated = [f"{line} has {times} rows" for line, times in rows_of.items() if times > 1]
    unknown = [f"{line} is not in any group" for line in rows_of if line not in expected]
    return [*lost, *repeated, *unknown]


def disagreements(rows: Iterable[Requirement], marks: Iterable[Mark]) -> list[str]:
    """Marks that claim what is not adopted, then adopted ids that no test claims."""
    verdicts = {line: type(row) for row in rows for line in ids_of([row])}
    claims = list(marks)
    proved = {mark.id for mark in claims if mark.is_on_a_test}
    unfounded = [f"{mark.place}: {fault}" for mark in claims if (fault := fault_of(mark, verdicts))]
    unproved = [
        f"{line} is Adopted, and no test is marked with it"
        for line, decision in verdicts.items()
        if decision is Adopted and line not in proved
    ]
    return unfounded + unproved


def fault_of(mark: Mark, verdicts: Mapping[str, type[Requirement]]) -> str:
    """Why the mark proves nothing; empty where it holds."""
    if not mark.is_on_a_test:
        return f"the mark of {mark.id} stands on no test, or is no literal"
    if mark.id not in verdicts:
        return f"there is no requirement {mark.id}"
    if verdicts[mark.id] is not Adopted:
        return f"{mark.id} is {verdicts[mark.id].__name__}, and only Adopted ids are marked"
    return ""


def marks_of_the_suite() -> Iterator[Mark]:
    """Every mark in every test file, in the order of paths and lines."""
    for path in sorted(chain.from_iterable(folder.rglob("*.py") for folder in TEST_FOLDERS)):
        # The foreign clients that some tests drive are installed beside them.
        if "node_modules" in path.parts:
            continue
        source = path.read_text("utf-8")
        if "requirement" in source:
            yield from marks_in(source, path.relative_to(ROOT).as_posix())


def marks_in(source: str, name: str) -> list[Mark]:
    """The marks of one file in the order of lines; only a literal id is a proof."""
    nodes = list(ast.walk(ast.parse(source)))
    on_tests = [decorator for node in nodes for decorator in decorators_of_a_test(node)]
    calls = [node for node in nodes if isinstance(node, ast.Call) and is_mark(node)]
    return [
        mark_of(argument, place=f"{name}:{call.lineno}", is_on_a_test=call in on_tests)
        for call in sorted(calls, key=lambda call: call.lineno)
        for argument in call.args
    ]


def mark_of(argument: ast.expr, *, place: str, is_on_a_test: bool) -> Mark:
    match argument:
        case ast.Constant(value=str(line)):
            return Mark(place=place, id=line, is_on_a_test=is_on_a_test)
        case _:
            return Mark(place=place, id=ast.unparse(argument), is_on_a_test=False)


def is_mark(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr="requirement", value=owner):
            return ast.unparse(owner) in {"pytest.mark", "mark"}
        case _:
            return False


def decorators_of_a_test(node: ast.AST) -> list[ast.expr]:
    """What decorates a function or class that pytest runs, by itself or in a subclass."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if is_test(node):
            return node.decorator_list
        case _:
            return []


def is_test(node: ast.AST) -> bool:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name.startswith("test_")
        case ast.ClassDef(name=name, body=body):
            return name.startswith("Test") or any(map(is_test, body))
        case _:
            return False
