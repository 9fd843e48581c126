"""Failed commands: the errors that a program printed, and whether two failures are the same.

Tools print an error on a line of its own: a type or code, and a message. Paths, numbers and
addresses differ from run to run and are left out. Names of modules, types and files stay: they
tell one cause from another.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from commonbrain.model.values import dataclass
from commonbrain.text.patterns import lazy_pattern

_HEAD_CHARS: Final = 16_000
_TAIL_CHARS: Final = 48_000
"""A long output is read at both ends, which takes a few milliseconds."""
_LINE_CHARS_MAX: Final = 1500
"""A longer line is data."""
_NORMAL_CHARS_MAX: Final = 400
_LINES_MAX: Final = 12
_NAMES_MAX: Final = 5
"""Tests and files of one failure."""
_MARK: Final = "failure:"
"""No topic found in a text begins with it."""

_ANSI: Final = lazy_pattern(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_LEAD: Final = lazy_pattern(
    r"^(?:[\s|│❯●×✕✖→>=]|E(?=\s{2,})|\[(?:ERROR|error|FATAL)\]"  # noqa: RUF001 signs of tools
    r"|npm (?:ERR!|error)|#\d+ [\d.]+ |(?:note|help):|\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+"
    r"|\d\d:\d\d:\d\d[.,]?\d*)+\s*"
)
"""Signs, times and steps that tools print before their lines."""
_PLACE: Final = lazy_pattern(r"^(?:[\w.@/\\-]+\.\w{1,5})[:(]\d+(?:[:,]\d+)?\)?:?\s*(?:-\s*)?(?=\S)")
_PATH: Final = lazy_pattern(
    r"(?<![\w.])(?:~|[A-Za-z]:)?(?:[/\\][\w.@+~-]+)+[/\\]?|(?:[\w.@+~-]+/)+(?=[\w.@+~-]+)"
)
_NUMBER: Final = lazy_pattern(
    r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{17,}\b|\b(?=[a-f]*\d)[0-9a-f]{7,}\b"
    r"|(?<![A-Za-z_#])\d+(?:[.,:]\d+)*(?:ms|s|m|h|[KMG]i?B)?\b"
)
_TYPED: Final = lazy_pattern(
    r"^(?:Caused by: |Uncaught |Unhandled )*(?:(?:[\w$]+[.$])+)?"
    r"(?P<sort>[A-Z]\w*(?:Error|Exception|Failure)\w*|(?<=[a-z]\.)[A-Z]\w+|error\[\w+\]"
    r"|error TS\d+|panic|panicked|fatal|FATAL|ERROR|Error|error)(?:\s*\[\w+\])?:\s*(?P<message>.*)$"
)
_SUMMARY: Final = lazy_pattern(
    r"^(?:\d+ (?:failed|passed|errors?)\b|BUILD FAIL|Tests?:|Test Files|Failed to execute goal"
    r"|could not compile|test failed|aborting due to|There (?:are|were) test failures"
    r"|Process completed|Command failed|exit status|code ELIFECYCLE|Lifecycle script"
    r"|A complete log|Re-run Maven|To see the full stack|For more information|Failures:|Errors:"
    r"|Tests run:|COMPILATION ERROR|\[?Help \d|recipe for target|\*\*\* \[|warning:|\(?use `--"
    r"|Found \d+ errors?|build failed|Execution failed for task|process didn't exit"
    r"|Some tests failed|FAILED \(|Test suite failed|Jest (?:encountered|failed)|failed to solve"
    r"|linking with|Failed to load ApplicationContext|.*did not complete successfully"
    r"|.*exit (?:status|code)|failed to push|Error creating bean|.*required by|ELIFECYCLE)",
    re.IGNORECASE,
)
"""Lines that say that something failed, and not what."""
_WORDED: Final = lazy_pattern(
    r"\b(?:not found|no such|cannot|can't|could not|couldn't|unable to|failed to|undefined|denied"
    r"|refused|missing|unexpected|invalid|unknown|does not exist|doesn't exist|is not|mismatch"
    r"|conflict|already exists|out of memory|timed? ?out|unreachable|expired|unauthorized"
    r"|forbidden|unresolved|duplicate|exceeded|rejected|disagrees?|required|must be|data race)\b",
    re.IGNORECASE,
)
_TESTS: Final = tuple(
    lazy_pattern(one)
    for one in (
        r"^FAILED (?P<test>\S+::\S+)",
        r"^(?:ERROR|FAIL): (?P<test>\w+) \(",
        r"^_{3,} (?:ERROR \w+ \w+ of )?(?P<test>[\w.\[\]-]+) _{3,}$",
        r"^\s*--- FAIL: (?P<test>\S+)",
        r"^---- (?P<test>\S+) stdout ----",
        r"^test (?P<test>\S+) \.\.\. FAILED",
        r"^\s*● (?P<test>.+)$",
        r"^\s*FAIL\s+\S+ > (?P<test>.+)$",
        r"^(?:\[ERROR\]\s+)?(?P<test>[A-Z]\w+\.\w+)(?::\d+| --| »)",
    )
)
_FRAMES: Final = tuple(
    lazy_pattern(one)
    for one in (
        r'^\s*File "(?P<file>[^"]+)", line \d+',
        r"^(?P<file>[\w./@-]+\.py):\d+: ",
        r"^\s*(?:at|❯) (?:.*\()?(?P<file>[\w./@:\\-]+\.[cm]?[jt]sx?):\d+:\d+\)?",  # noqa: RUF001 signs of tools
        r"^\s+(?P<file>/?[\w./@-]+\.go):\d+",
        r"panicked at (?P<file>[\w./-]+\.rs):\d+",
        r"^\s*--> (?P<file>[\w./-]+):\d+",
        r"^\s+at [\w.$]+\((?P<file>\w+\.(?:java|kt)):\d+\)",
        r"^(?:\[ERROR\] )?(?:\./)?(?P<file>[\w./@-]+\.\w{1,5})[:(]\[?\d+",
    )
)
_FOREIGN: Final = lazy_pattern(
    r"site-packages|dist-packages|node_modules|/usr/lib|/usr/local/|/lib/python|\.cargo/registry"
    r"|/rustc/|\.venv|/pyenv/|internal/"
)
_NAME: Final = lazy_pattern(
    r"[`'\"‘“«]([^`'\"’”»]{2,80})[`'\"’”»]|\b\w+(?:[./:_-]\w+)+\b|\b[a-z]+[A-Z]\w*"  # noqa: RUF001 quotation marks
    r"|\b[A-Z]\w*[a-z]\w*[A-Z]\w*"
)
_NAME_SIGN: Final = "§"
_NAME_SIGNS: Final = lazy_pattern(r"§(?:[\s,.:/()'`\"-]*§)+")
_WORD: Final = lazy_pattern(r"[a-z][a-z']+")
_STOP_WORDS: Final = frozenset(
    "the a an of to in on is are be was not no for with from by at it or and as this that than has"
    " have had does do did can could will would you your must should may might if its error".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a failed command printed."""

    lines: tuple[str, ...]
    """The lines that tell the error, normalised, the most telling first."""
    tests: tuple[str, ...] = ()
    """Names of failed tests."""
    files: tuple[str, ...] = ()
    """Names of the project's files that the output points to, without folders."""


class _Line(NamedTuple):
    is_typed: bool
    normal: str
    written: str


_PIPED: Final = lazy_pattern(
    r"\s*(?:2>&1|2>/dev/null|\|\s*(?:tail|head|tee|cat|grep|less)\b[^|&;]*|>\s*\S+)"
)
_STATUS: Final = lazy_pattern(r"^\s*set -o pipefail\s*(?:;|&&)\s*|;\s*exit \S+\s*$")
_SHELL: Final = lazy_pattern(r"""^(?:/\S+/)?(?:ba|z)?sh -l?c (['"])(?P<command>.*)\1$""", re.DOTALL)
_BEFORE: Final = lazy_pattern(r"^(?:cd\s+\S+\s*(?:&&|;)\s*)+")
_SET: Final = lazy_pattern(r"^(?:env\s+)?(?:[A-Za-z_]\w*=\S+\s+)+")
_QUIET_OPTION: Final = lazy_pattern(
    r"^-(?:q|v|x|s|vv|qq)$|^--(?:quiet|verbose|no-header|color\S*|run)$|^--$"
)


def command_key(command: str) -> str:
    """Return what is run again when a command is: without folder, pipes and variables."""
    text = command.strip()
    if shell := _SHELL.match(text):
        text = shell["command"].strip()
    text = _PIPED.sub("", _STATUS.sub("", text))
    text = _SET.sub("", _BEFORE.sub("", _STATUS.sub("", text).strip()))
    return " ".join(word for word in text.split() if not _QUIET_OPTION.match(word))


_ASKING: Final = lazy_pattern(
    r"^(?:test|\[|\[\[|e?grep|rg|ag|diff|cmp|git (?:diff|grep|merge-base)|which|command -v|type|ls"
    r"|pgrep|false)(?:\s|$)"
)
"""Commands whose exit status 1 is an answer."""
_MISTYPED: Final = lazy_pattern(
    r"command not found|not a git command|unrecognized (?:arguments?|option)"
    r"|no such (?:sub)?command|unknown (?:option|flag|command|argument|shorthand)"
    r"|invalid option|missing script:"
    r"|unexpected argument '|unknown lifecycle phase|file or directory not found:"
    r"|is not recognized as an internal",
    re.IGNORECASE,
)
_EXITS_OF_CALLERS: Final = frozenset({126, 127, 130, 137, 143})
"""Not found, not executable, interrupted or killed."""


def is_failure(command: str, exit_code: int, *, output: str) -> bool:
    """Return whether a command failed at its work: it was neither mistyped nor interrupted."""
    if exit_code == 0 or exit_code in _EXITS_OF_CALLERS:
        return False
    if exit_code == 1 and _ASKING.match(command_key(command)):
        return False
    return _MISTYPED.search(output[:_HEAD_CHARS]) is None


def read_failure(output: str) -> Failure | None:
    """Read what a failed command printed; None if no error stands out."""
    printed = _printed_lines(output)
    lines = _error_lines(printed)
    if not lines:
        return None
    return Failure(
        lines=tuple(one.normal for one in lines),
        tests=tuple(dict.fromkeys(_tests(printed)))[:_NAMES_MAX],
        files=tuple(dict.fromkeys(_files(printed)))[:_NAMES_MAX],
    )


def excerpt(output: str, chars_max: int) -> str:
    """Return the telling lines as they were printed, the most telling first.

    Lines with failed tests and own files follow, so that reading the excerpt gives what reading the
    output gives.
    """
    printed = _printed_lines(output)
    errors = [one.written for one in _error_lines(printed)]
    places = (line for line in printed if any(_tests([line])) or any(_files([line])))
    chosen: list[str] = []
    for line in dict.fromkeys((*errors, *places)):
        if len(line) + 1 > chars_max:
            break
        chosen.append(line)
        chars_max -= len(line) + 1
    if not chosen and errors:
        return errors[0][:chars_max]
    return "\n".join(chosen)


def marks(failure: Failure) -> tuple[str, ...]:
    """Return the exact keys under which memories of a failure are looked up."""
    keys = [*failure.lines, *map(_template, failure.lines), *failure.tests]
    return tuple(f"{_MARK}{_digest(key)}" for key in dict.fromkeys(keys))


def similarity(
    failure: Failure, earlier: Failure, *, same_project: bool, rarity: Mapping[str, float]
) -> float:
    """Return how surely two failures are the same, 0..1; 0 is another failure.

    Args:
        failure: the failure at hand.
        earlier: one whose fix is known.
        same_project: whether both are of one project.
        rarity: of the marks of the failure, 0..1; 1 is the mark of one memory.

    """
    shared = bool({*failure.tests} & {*earlier.tests}) + bool({*failure.files} & {*earlier.files})
    exact = [
        _weight(line) * rarity.get(f"{_MARK}{_digest(line)}", 1) + same_project
        for line in failure.lines
        if line in earlier.lines
        and _weight(line) >= (_WEIGHT_NEAR if same_project and shared else _WEIGHT_APART)
    ]
    if exact:
        return min((10 + max(exact) + shared) / 30, 1.0)
    templates = {_template(line) for line in earlier.lines}
    alike = [
        len(words)
        for line in failure.lines
        if (template := _template(line)) in templates
        and (words := _content(template))
        and (
            len(words) >= _WORDS_APART
            or (len(words) >= _WORDS_NEAR and same_project and shared and _NAME_SIGN in template)
        )
    ]
    return min((max(alike) + shared + same_project) / 30, 1.0) if alike else 0.0


_WORDS_APART: Final = 6
"""Words of a message without names that make it the same one anywhere."""
_WORDS_NEAR: Final = 4
"""The same in one project, if a test or a file is the same, too."""


_WEIGHT_APART: Final = 6
_WEIGHT_NEAR: Final = 2
"""The weight of an exact line that is enough, anywhere and with the same test or file."""


def _weight(line: str) -> int:
    return len(_content(line)) + 3 * len(_names(line))


def _printed_lines(output: str) -> list[str]:
    if len(output) > _HEAD_CHARS + _TAIL_CHARS:
        output = f"{output[:_HEAD_CHARS]}\n{output[-_TAIL_CHARS:]}"
    return [line.rstrip() for line in _ANSI.sub("", output).splitlines()]


def _error_lines(printed: Sequence[str]) -> list[_Line]:
    by_text: dict[str, _Line] = {}
    for place, line in enumerate(printed):
        if len(line) > _LINE_CHARS_MAX or len(by_text) >= 4 * _LINES_MAX:
            continue
        one = _read_line(line, next(iter(printed[place + 1 : place + 2]), ""))
        if one is not None and one.normal:
            by_text.setdefault(one.normal, one)
    return sorted(by_text.values(), key=lambda one: not one.is_typed)[:_LINES_MAX]


def _read_line(line: str, following: str) -> _Line | None:
    bare = _PLACE.sub("", _LEAD.sub("", line), count=1)
    typed = _TYPED.match(bare)
    if typed:
        message = typed["message"]
    elif "panicked at" in bare:
        message, bare = following, f"panicked: {following.strip()}"
    elif _WORDED.search(bare):
        message = bare
    else:
        return None
    if not message.strip() or _SUMMARY.match(message) or _SUMMARY.match(bare):
        return None
    is_typed = typed is not None or bare.startswith("panicked: ")
    return _Line(is_typed, normalise_line(message), bare[:_NORMAL_CHARS_MAX])


def normalise_line(line: str) -> str:
    """Return a line without what differs from run to run, in lower case."""
    line = _PATH.sub(_last_part, line[:_NORMAL_CHARS_MAX])
    return " ".join(_NUMBER.sub("#", line).split()).casefold()


def _last_part(path: re.Match[str]) -> str:
    text = path[0].replace("\\", "/")
    return "" if text.endswith("/") else text.rpartition("/")[2]


def _tests(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        for kind in _TESTS:
            if one := kind.search(line):
                name = one["test"].rpartition("::")[2].rpartition(" > ")[2]
                yield normalise_line(name).partition("[")[0]
                break


def _files(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        for kind in _FRAMES:
            if (one := kind.search(line)) and not _FOREIGN.search(one["file"]):
                yield one["file"].replace("\\", "/").rpartition("/")[2]
                break


def _names(line: str) -> set[str]:
    return {one[1] or one[0] for one in _NAME.finditer(line)}


def _template(line: str) -> str:
    return _NAME_SIGNS.sub(_NAME_SIGN, _NAME.sub(_NAME_SIGN, line))


def _content(line: str) -> set[str]:
    return {str(word) for word in _WORD.findall(line)} - _STOP_WORDS


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
