"""Failures: what a program said went wrong, and which two are the same."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.text.failures import (
    OUTPUT_CHARS_MAX,
    command_key,
    excerpt,
    is_failure,
    marks,
    read_failure,
    similarity,
)

PYTEST = """\
E   ModuleNotFoundError: No module named '{name}'
FAILED tests/test_{name}.py::test_loads - ModuleNotFoundError: No module named '{name}'
"""
NIL = """\
--- FAIL: {test} (0.00s)
panic: runtime error: invalid memory address or nil pointer dereference [recovered]
shop/internal/cart.(*Cart).{function}(0xc000112{n}, 0x0)
\t/home/{user}/shop/internal/cart/cart.go:{n} +0x22
"""
SAME = {
    "what is missing has the same name": (
        PYTEST.format(name="rasterio"),
        'Traceback (most recent call last):\n  File "C:\\work\\warp.py", line 3, in <module>\n'
        "ModuleNotFoundError: No module named 'rasterio'\n",
    ),
    "a sentence of the tool, whatever it names": (
        "a/money.go:7:2: missing go.sum entry for module providing package"
        " github.com/shop/decimal (imported by ledger/a); to add:\n",
        "b/api.go:12:2: missing go.sum entry for module providing package"
        " k8s.io/client-go/rest (imported by kube/b); to add:\n",
    ),
    "what a tool says to do": (
        "[ERROR] Run 'mvn spotless:apply' to fix these violations.\n",
        "pre-push: checking\n[ERROR] Run 'mvn spotless:apply' to fix these violations.\nerror\n",
    ),
    "in a container, with its time and step": (
        "#7 2.914 npm error Missing: web-push@3.6.7 from lock file\n#7 2.914 npm error `npm ci` can"
        " only install packages when your package.json and package-lock.json are in sync.\n",
        "npm ERR! `npm ci` can only install packages when your package.json and package-lock.json"
        " are in sync.\n",
    ),
    "an error that another program quotes": (
        "start: open store: cannot decrypt the first page of this old database\n",
        "Error: cannot decrypt the first page of this old database\n",
    ),
}
OTHER = {
    "another name is missing": (PYTEST.format(name="rasterio"), PYTEST.format(name="shapely")),
    "a message that tells no cause, at another place": (
        NIL.format(test="TestAdd", function="Add", n=19, user="ana"),
        NIL.format(test="TestDrop", function="Drop", n=40, user="ana"),
    ),
    "a test with another value": (
        "FAILED t.py::test_sum - ...\nE   AssertionError: expected a total of 3, got 4\n",
        "FAILED t.py::test_sum - ...\nE   AssertionError: expected a total of 9, got 2\n",
    ),
    "summaries that every failure has": (
        "E   ValueError: the rate is negative\n==== 1 failed, 3 passed in 0.2s ====\n"
        "make: *** [Makefile:3: test] Error 1\n",
        "E   TypeError: dates have no zone\n==== 1 failed, 9 passed in 4.2s ====\n"
        "make: *** [Makefile:3: test] Error 1\n",
    ),
    "another code of the compiler": (
        "error[E0277]: the trait bound `A: Handler` is not satisfied\n",
        "error[E0599]: the trait bound `A: Handler` is not satisfied\n",
    ),
}


def likeness(first: str, second: str, *, same_project: bool = True) -> float:
    one, two = read_failure(first), read_failure(second)
    assert one is not None
    assert two is not None
    return similarity(one, two, same_project=same_project)


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_same_failure_is_looked_up_and_known_whatever_the_run(pair: tuple[str, str]) -> None:
    one, two = map(read_failure, pair)

    assert one is not None
    assert two is not None
    assert not {*marks(one)}.isdisjoint(marks(two))
    assert likeness(*pair) > 0
    assert likeness(*pair, same_project=False) > 0


@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER)
def test_other_failure_is_not_taken_for_one(pair: tuple[str, str]) -> None:
    assert likeness(*pair) == 0


def test_message_without_a_cause_is_the_same_failure_at_the_same_place_of_a_project() -> None:
    pair = (
        NIL.format(test="TestAdd", function="Add", n=19, user="ana"),
        NIL.format(test="TestAddTwice", function="Add", n=23, user="ben"),
    )

    assert likeness(*pair) > 0
    assert likeness(*pair, same_project=False) == 0


@given(
    folder=st.from_regex(r"/[a-z]{1,8}(/[a-z]{1,8}){0,3}", fullmatch=True),
    line=st.integers(1, 9999),
    address=st.from_regex(r"0x[0-9a-f]{8,12}", fullmatch=True),
)
def test_folders_numbers_and_addresses_do_not_count(folder: str, line: int, address: str) -> None:
    def output(folder: str, line: int, address: str) -> str:
        return (
            f'  File "{folder}/shop/orders.py", line {line}, in settle\n'
            f"OrderError: {folder}/shop/orders.db is locked by the writer at {address}\n"
        )

    one = read_failure(output(folder, line, address))
    two = read_failure(output("/home/ana", 1, "0x7f3c1a9be4d0"))

    assert one is not None
    assert two is not None
    assert marks(one) == marks(two)
    assert one.places == two.places
    assert similarity(one, two, same_project=False) > 0


@pytest.mark.parametrize(
    "output", [text for pair in (*SAME.values(), *OTHER.values()) for text in pair]
)
def test_excerpt_is_read_as_the_output_is(output: str) -> None:
    whole, part = read_failure(output), read_failure(excerpt(output, 1000))

    assert whole is not None
    assert part is not None
    assert {*part.texts} == {*whole.texts}
    assert (part.places, part.tests) == (whole.places, whole.tests)


@given(st.text(max_size=300), st.integers(1, 400))
def test_excerpt_of_any_output_is_as_short_as_it_must_be(output: str, chars: int) -> None:
    assert len(excerpt(output, chars)) <= chars


@pytest.mark.parametrize("output", ["", "all 12 tests passed\n", "\x1b[31m\x1b[0m\n", "\0" * 50])
def test_output_without_an_error_is_no_failure(output: str) -> None:
    assert read_failure(output) is None


@pytest.mark.parametrize(
    "unit",
    [
        "a/",
        "error: ",
        "x.y:",
        "'",
        "at a (",
        'File "',
        "FAIL: t > ",
        "[ERROR] ",
        "Caused by: ",
        "»",
    ],
)
def test_hostile_output_takes_no_more_than_its_length(unit: str) -> None:
    def seconds(repeats: int) -> float:
        lines = "\n".join([unit * 60] * repeats)
        began = process_time()
        read_failure(f"{lines}\n{unit * OUTPUT_CHARS_MAX}")
        return process_time() - began

    # Four times the lines: a reading in quadratic time would take sixteen times as long.
    assert seconds(800) < 12 * max(seconds(200), 0.02)


@pytest.mark.parametrize(
    "command",
    ["make " + " " * 60_000 + "x", "\n" * 60_000 + "x", "A=b " * 15_000, "2>&1 " * 12_000],
)
def test_hostile_command_is_read_at_once(command: str) -> None:
    began = process_time()
    command_key(command)
    is_failure(command, 1, output="")

    # In quadratic time it would take minutes.
    assert process_time() - began < 2


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("cd web && npm test -- --run 2>&1 | tail -40", "npm test"),
        ("set -o pipefail; pytest -q tests/test_a.py | tee log", "pytest tests/test_a.py"),
        ("bash -lc 'TZ=UTC go test ./...'", "go test ./..."),
        ("cargo test; exit ${PIPESTATUS[0]}", "cargo test"),
    ],
)
def test_command_is_known_in_its_wrappings(command: str, key: str) -> None:
    assert command_key(command) == key


@pytest.mark.parametrize(
    ("command", "code", "output", "is_one"),
    [
        ("pytest", 1, "E   assert 1 == 2", True),
        ("pytest", 0, "error: in a log", False),
        ("grep -rn settle src", 1, "", False),
        ("test -f setup.cfg", 1, "", False),
        ("pytets", 127, "pytets: command not found", False),
        ("npm run bulid2", 1, 'npm error Missing script: "bulid2"', False),
        ("sleep 100", 130, "", False),
    ],
)
def test_what_counts_as_a_failure(command: str, code: int, output: str, *, is_one: bool) -> None:
    assert is_failure(command, code, output=output) is is_one
