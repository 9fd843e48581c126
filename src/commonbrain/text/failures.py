"""Failures of commands: what a program said went wrong, and whether two failures are the same.

Programs print what went wrong in lines of their own, among progress, source and stack frames. Such
a line is compared without what differs from run to run: numbers, addresses and folders. What it
proves depends on what it says:

- "cannot find `x`" names what is missing, which is the cause;
- "nil pointer dereference" names no cause: only the same message at the same place is the same;
- any other sentence gives the cause by its words, whatever the names in it.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Final

from commonbrain.model.values import dataclass
from commonbrain.text.patterns import lazy_pattern

OUTPUT_CHARS_MAX: Final = 100_000
"""Characters of an output that are read: a quarter from its start, the rest from its end."""
_LINE_CHARS_MAX: Final = 600
_LINES_MAX: Final = 24
"""Lines that say what went wrong, half from the start: later ones repeat the first."""
_FRAMES_MAX: Final = 2
"""Places in the code, the innermost, that an excerpt keeps."""
_COMMAND_CHARS_MAX: Final = 16_384
"""Characters of a command that are read."""
_FOLLOWING: Final = 6
"""Lines after an error in which javac names the symbol."""
_MARK: Final = "failure:"
"""Begins the keys by which failures are looked up."""
_TAILS_MAX: Final = 4
"""Errors that one line can quote, one within the other."""
_TAIL_WORDS_MIN: Final = 4
"""Words of such a quotation."""
_SAME: Final = 5.0
"""The least likeness of two lines that counts: about four words of their own, or a name and two."""
_SAME_ELSEWHERE: Final = 6.0
"""The same where they are of different projects."""
_WEIGHT_OF_NAME: Final = 3
"""Of a name in two equal lines, where a word counts 1."""
_NAMES_MIN: Final = 2
"""Names that lines about something missing must share if not all are the same."""
_KNOWN_MIN: Final = 3
"""Words and names that lines with different names must share."""

_ESCAPES: Final = lazy_pattern(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_LEAD: Final = lazy_pattern(
    r"^(?:[\s|│❯●×✕✖→>=*•]"  # noqa: RUF001 signs of tools
    r"|E(?=\s{2})|\[(?:ERROR|FATAL|error|SEVERE)\]|(?:ERROR|FATAL|SEVERE)(?=\s+\[)|npm (?:ERR!"
    r"|error)(?: code)?|#\d+ \d+\.\d+|\d+\.\d+(?= )|\d{4}[-/]\d\d[-/]\d\d[T ][\d:.,+Z-]+"
    r"|\d\d:\d\d:\d\d[.,]?\d*|(?:note|help|hint|Hint)(?=: ):|\[[a-z]+(?:\.[a-z_]+)+\]"
    r"|[\w.-]{1,60}-\d+\s+\||\d+:\d+\s+(?:error|warning)\s)+\s*"
)
"""Signs, times and tags that tools print before their lines."""
_PLACE: Final = lazy_pattern(
    r"^(?:[A-Za-z]:)?[\w.@/\\<>-]{1,200}\.\w{1,5}(?:[:(]\[?\d+(?:[:,]\d+)?[\])]*)+:?\s*(?:-\s*)?(?=\S"
    r")"
)
_GOAL: Final = lazy_pattern(r"^Failed to execute goal .{1,200}?on project [\w.-]+: ")
_SORTED: Final = lazy_pattern(
    r"(?:Caused by: |Uncaught |Unhandled |Nested exception: |Exception in thread \"[^\"]*\" )*"
    r"(?P<sort>(?:[A-Za-z_]\w*[.$])*[A-Z]\w*(?:Error|Exception|Failure|Fault|Panic|Violation"
    r"|Timeout|Interrupt)\w*|(?:[a-z_]\w*\.)+[A-Z]\w+|error(?:\[\w+\]|\s+[A-Z]{1,4}\d+)"
    r"|panic|fatal|FATAL|ERROR|Error|error|FAILED|Failure|failure)(?:\s*\[\w+\])?(?::| »"
    r"| --)\s+(?P<message>\S.*)"
)
"""An error with its type or code."""
_INFORMATIVE: Final = lazy_pattern(
    r"\b(?:not found|no such|cannot|can't|could not|couldn't|unable to|fail(?:ed|s)?|undefined"
    r"|denied|refused|missing|unexpected|invalid|unknown|(?:does|do|did|has|have|is|was|are|were"
    r"|must|should|may|can|will)(?: not|n't)|mismatch\w*|conflict\w*|already|out of|timed? ?out"
    r"|unreachable|expired|unauthorized|forbidden|unresolved|duplicate|exceed\w*|rejected"
    r"|disagree\w*|required?|must|only|multiple|violat\w+|race detected|data race"
    r"|no \w+ (?:running|found|available|matches)|removed|unsupported|incompatible|outdated"
    r"|out-of-date|stale|overwritten|locked|corrupt\w*|recursion|overflow|not \w+(?:ed|able)"
    r"|deadlock|leak\w*|run [`'\"]|please)\b",
    re.IGNORECASE,
)
"""Words of sentences that say what went wrong, or what to do."""
_NOISE: Final = lazy_pattern(
    r"\d+ (?:validation|failed|passed|errors?|problems?|tests?|actionable|packages?)\b"
    r"|Test (?:Files|Suites)\b|Summary \[|Found \d+ error|.{0,60}\(\d+ tests?\b|(?:Compiling"
    r"|Checking|Finished|Running|Download(?:ing|ed)|Installing|Collecting|Using cached"
    r"|Requirement already|Getting requirements|Building|Creating|Loading|Starting|Looking in"
    r"|Daemon|To honour) |\[\w+\] |\[\d+:|BUILD FAIL|(?:\w+ ){0,4}(?:test|build|compile|lint"
    r"|check)s? (?:run )?failed\b|Some tests failed|.{0,200}(?:PASSED|FAILED|ERROR"
    r"|SKIPPED)\s+\[\s*\d+%\]|.{0,200} (?:PASSED|FAILED)$|.{0,120}Time elapsed: |FAILED\b|FAIL\b"
    r"|FAILURE|Failed Tests|could not compile|process didn't exit|There (?:are|were) test failures"
    r"|Command failed|Execution failed for|Error: Process|Recipe\b|E?LIFECYCLE|Lifecycle script"
    r"|Failures:|failures:|Errors?:|COMPILATION ERROR|Compilation failed;|failed to solve"
    r"|test result|.{0,60}did not complete successfully|failed to push some|husky"
    r"|Test suite failed to run|linking with|ERROR (?:collecting|tests?)|command not found: $"
    r"|For (?:more info|further)|Please refer|this error originates|required (?:by|for) |\[?Help \d"
    r"|[Ww]arning:|[_=!⎯-]{3,}|\d+\s*\||\^|~+$|\$ |\+ |LC_ALL"
)
"""How lines begin that say nothing of their own."""
_CODE: Final = lazy_pattern(
    r"[{};]\s*$|^\s*(?:#|//|f?\"|f')|^\s*(?:def|class|import|from|func|fn|let|const|var|return|if"
    r"|for|assert|expect|export"
    r"|package|use|public|private)\b.*[({;:=]|=>|^\s*@\w+(?:\(|$)|^\s*[>+] ?\S"
)
_PATH: Final = lazy_pattern(
    r"(?<![\w.@+~/\\-])(?:~|[A-Za-z]:|<\w+>)?(?:(?:[/\\][\w.@+~-]+)+[/\\]?"
    r"|(?:[\w.@+~-]+[/\\])+[\w.@+~-]*)"
)
_NUMBER: Final = lazy_pattern(
    r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{17,}\b|\b(?=[a-f]*\d)[0-9a-f]{7,}\b"
    r"|(?<![A-Za-z_#\d])v?\d+(?:[.,:]\d+)*(?:ms|s|m|h|[KMG]i?B)?\b"
)
_SLASH: Final = lazy_pattern(r"[/\\]")
_GUESS: Final = lazy_pattern(r"\.* Did you mean\b.*")
_NAME: Final = lazy_pattern(
    r"(?<!\w)[`'\"‘“«]([^`'\"’”»]{1,120})[`'\"’”»]"  # noqa: RUF001 quotation marks
    r"|(?<![\w@])@?\w+(?:[./:_@-]+\w+)+(?:\(\))?|\b[a-z]+[A-Z]\w*"
    r"|\b[A-Z]\w*[a-z]\w*[A-Z]\w*|\b\w+\(\)|\*\w+|&\w+\{\}|(?<!\w)-l\w+"
    r"|\b[\w-]+(?= is not defined)|\b[\w-]+(?=: (?:command )?not found)|(?<=command not found: )\S+"
)
"""What a programmer named: quoted, dotted, in camel case."""
_NO_NAME: Final = lazy_pattern(
    r"[#\W]*|none|null|undefined|true|false|self|string|number|object|error|default|str|int|i\.e"
    r"|e\.g|tests?|main|src|lib"
)
_WORD: Final = lazy_pattern(r"[A-Za-z][A-Za-z']+")
_STOP: Final = frozenset(
    "the a an of to in on is are be was were not no for with from by at it its or and as this that"
    " than has have had does do did can could will would you your must should may might if so"
    " but".split()
)
_GENERIC: Final = lazy_pattern(
    r"nil (?:pointer|map)|null ?pointer|segmentation|core dumped|cannot read propert"
    r"|\bof (?:undefined|null)\b|nonetype|is null\b|is not (?:a function|iterable|callable"
    r"|subscriptable)|unhashable|\bindex out\b|out of (?:range|bounds)|list index|\bassert"
    r"|\bexpected\b|\bactual\b|\bto (?:equal|be|match|have)\b|should (?:be|equal)|unwrap|\bgot:?\b"
    r"|\bwant:?\b|\b(?:left|right): |timed? ?out|timeout|deadline|exited|returned non-zero|killed"
    r"|aborted|interrupted|something went|internal (?:server )?error|unknown error"
    r"|mismatched types|incompatible types|type mismatch|is not assignable|is possibly"
    r"|implicitly has an|cannot be converted|cannot be cast|borrow|moved value|live long enough"
    r"|lifetime|unused|never used|and not used|invalid syntax|unexpected (?:token|indent|end|eof)"
    r"|syntax ?error|outside a module|keyerror|divi(?:de|sion) by zero|race detected|data race"
    r"|all goroutines|connection (?:reset|refused|closed)|econn|broken pipe|no output|deprecat"
    r"|recursion|stack (?:overflow|size)|maximum call|out of memory|invalid (?:argument|literal)"
    r"|bad request|not equal|\bdiffer|constraint|violates|permission denied|expecting (?:value"
    r"|property)|could not convert|positional argument|already in use|unsupported operand"
    r"|too many (?:values|arguments)|not enough",
    re.IGNORECASE,
)
"""Errors without their cause: each can stand for any mistake at its place."""
_MISSING: Final = lazy_pattern(
    r"not found|no such|no module|cannot import name|cannot find|can't find|could not (?:find"
    r"|resolve|be found)|couldn't (?:find|resolve)|does not exist|doesn't exist|undefined:"
    r"|is not defined|cannot open|unable to (?:find|resolve|locate|load)|unresolved"
    r"|no (?:\w+ )?(?:named|matching|matches|attribute|member|field|method)|not in scope"
    r"|undeclared|unknown|missing|has no|is not (?:a member|recognized|installed)|not declared"
    r"|no(?:t| )exported|undefined (?:reference|symbol)",
    re.IGNORECASE,
)
"""What is not there: its name is the cause."""
_ADVICE: Final = lazy_pattern(
    r"\b(?:run|try|use|add|update|consider|install|set|specify|call)\b[^.]{0,20}[`'\"«]"
    r"|\bto (?:add|fix|update)\b|please",
    re.IGNORECASE,
)
"""What says what to do: that fixes it, whatever the name."""
_SCHEMA: Final = lazy_pattern(
    r"\b(?:column|relation|table)\b.*(?:does not exist|no such|unknown)"
    r"|(?:no such|unknown) (?:column|table)|unknown column",
    re.IGNORECASE,
)
"""A database that is behind its code, whatever the column: a migration is missing."""
_TESTS: Final = tuple(
    lazy_pattern(one)
    for one in (
        r"^(?:FAILED|ERROR) (?P<test>\S+::\S+)",
        r"^(?:ERROR|FAIL): (?P<test>\w+) \(",
        r"^_{3,} (?:ERROR \w+ \w+ of )?(?P<test>[\w.\[\]-]+) _{3,}$",
        r"^\s*--- FAIL: (?P<test>\S+)",
        r"^---- (?P<test>\S+) stdout ----",
        r"^test (?P<test>\S+) \.\.\. FAILED",
        r"^\s*FAIL\s+\[[^\]]*\] \S+ (?P<test>\S+)",
        r"^\s*● (?P<test>.+ › .+)$",  # noqa: RUF001 signs of tools
        r"^\s*(?:FAIL|×|❯)\s+\S+ > (?P<test>.+)$",  # noqa: RUF001 signs of tools
        r"^(?:\[ERROR\]\s+)?(?P<test>[\w.]*[A-Z]\w+\.\w+)(?::\d+| --| »)",
        r"^(?P<test>[A-Z]\w+ > \w+)\(\) FAILED",
    )
)
_PART: Final = lazy_pattern(r"::| > | › |\.")  # noqa: RUF001 signs of tools
_FRAMES: Final = tuple(
    (lazy_pattern(one), is_last)
    for one, is_last in (
        # Python names the innermost frame last, others first.
        (r'^\s*File "(?P<file>[^"]+)", line \d+, in (?P<function>\S+)', True),
        (r"^(?P<file>[\w./\\@-]+\.py):\d+: (?:in (?P<function>\w+))?", True),
        (
            r"^\s*(?:at|❯) (?:(?:async |new )?(?P<function>[\w.<>]+) )?"  # noqa: RUF001 signs of tools
            r"\(?(?P<file>[\w./@:\\-]+\.[cm]?[jt]sx?):\d+:\d+\)?",
            False,
        ),
        (r"^\s+(?P<file>/?[\w./@-]+\.go):\d+", False),
        (r"panicked at (?P<file>[\w./-]+\.rs):\d+", False),
        (r"^\s*(?:-->|at) (?P<file>[\w./-]+\.rs):\d+", False),
        (r"^\s+at (?P<function>[\w.$]+)\((?P<file>\w+\.(?:java|kt)):\d+\)", False),
        (r"^(?:\[ERROR\] )?(?:\./)?(?P<file>[\w./@-]+\.\w{1,5})[:(]\[?\d+", False),
    )
)
_FOREIGN: Final = lazy_pattern(
    r"site-packages|node_modules|/usr/lib|/usr/local/|/lib/python|\.cargo/registry|/rustc/|\.venv"
    r"|dist-packages|/\.?pyenv/|node:|/libexec/|toolcache|<frozen|/go/pkg/mod/"
    r"|^(?:java|javax|jdk|sun|kotlin|org\.(?:junit|apache|spring|hibernate|gradle|codehaus)"
    r"|com\.fasterxml|io\.netty|groovyjarjar)[.\w]*$"
)
"""Files and functions that are not the user's own."""


_PIPED: Final = lazy_pattern(
    r"(?<!\s)\s*(?:2>&1|2>/dev/null|\|\s*(?:tail|head|tee|cat|grep|less)\b[^|&;]*|>\s*\S+)"
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
    text = command[:_COMMAND_CHARS_MAX].strip()
    if shell := _SHELL.match(text):
        text = shell["command"].strip()
    text = _PIPED.sub("", _STATUS.sub("", text))
    text = _SET.sub("", _BEFORE.sub("", _STATUS.sub("", text).strip()))
    return " ".join(word for word in text.split() if not _QUIET_OPTION.match(word))


def command_folder(command: str) -> str:
    """Return the name of the folder into which a command goes first; empty if it goes into none."""
    text = command[:_COMMAND_CHARS_MAX].strip()
    if shell := _SHELL.match(text):
        text = shell["command"].strip()
    before = _BEFORE.match(_STATUS.sub("", text))
    path = before[0].replace(";", " ").replace("&&", " ").split()[-1] if before else ""
    return _SLASH.split(path.rstrip("/"))[-1]


_ASKING: Final = lazy_pattern(
    r"^(?:test|\[|\[\[|e?grep|rg|ag|diff|cmp|git (?:diff|grep|merge-base)|which|command -v|type|ls"
    r"|pgrep|false)(?:\s|$)"
)
"""Commands whose exit status 1 is an answer."""
_MISTYPED: Final = lazy_pattern(
    r"command not found|not a git command|unrecognized (?:arguments?|option)"
    r"|no such (?:sub)?command|unknown (?:option|flag|command|argument|shorthand)|invalid option"
    r"|missing script:|unexpected argument '|unknown lifecycle phase|file or directory not found:"
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
    return _MISTYPED.search(output[: OUTPUT_CHARS_MAX // 4]) is None


@dataclass(frozen=True, kw_only=True)
class FailureLine:
    """A line that says what went wrong."""

    printed: str
    """As it was printed."""
    text: str
    """Without what differs from run to run."""
    sort: str = ""
    """The type or code of the error, if the line has one."""

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the program's own."""
        each = (one[1] or one[0] for one in _NAME.finditer(self.text))
        bare = (one.strip("«»").casefold() for one in each)
        return frozenset(one for one in bare if not _NO_NAME.fullmatch(one))

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of the message, without names."""
        rest = _NAME.sub(" ", self.text).casefold()
        return frozenset(one for one in _WORD.findall(rest) if one not in _STOP)

    @cached_property
    def is_generic(self) -> bool:
        """Whether it gives no cause."""
        is_nameless = self.is_missing and not self.names and not _ADVICE.search(self.text)
        return is_nameless or _GENERIC.search(f"{self.sort} {self.text}") is not None

    @cached_property
    def is_missing(self) -> bool:
        """Whether it names something that is not there."""
        return _MISSING.search(f"{self.sort} {self.text}") is not None

    @cached_property
    def exact(self) -> str:
        """The printed line without folders, with its numbers."""
        return " ".join(_PATH.sub(_last_part, self.printed).split()).casefold()

    @property
    def mark(self) -> str:
        """A key that lines have in common if their words are the same."""
        return sha256(" ".join(sorted(self.words)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a failed command printed."""

    lines: tuple[FailureLine, ...]
    tests: frozenset[str] = frozenset()
    """Names of failed tests."""
    places: frozenset[str] = frozenset()
    """Innermost frames in own code, as "file:function"."""
    frames: tuple[str, ...] = ()
    """The printed lines of tests and places."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The lines without what differs from run to run."""
        return tuple(dict.fromkeys(line.text.casefold() for line in self.lines))


def read_failure(output: str) -> Failure | None:
    """Read what a failed command printed; None if no line says what went wrong."""
    text = output
    if len(output) > OUTPUT_CHARS_MAX:
        head = OUTPUT_CHARS_MAX // 4
        text = f"{output[:head]}\n{output[head - OUTPUT_CHARS_MAX :]}"
    raw = [one.rstrip() for one in _ESCAPES.sub("", text).splitlines()]
    whole = filter(None, map(_read_line, _joined(raw)))
    read = [part for line in whole for part in _with_tails(line)]
    unique: dict[str, FailureLine] = {}
    for line in read:
        unique.setdefault(line.text, line)
    lines = list(unique.values())
    if not lines:
        return None
    if len(lines) > _LINES_MAX:
        lines = [*lines[: _LINES_MAX // 2], *lines[-_LINES_MAX // 2 :]]
    tests = dict(_tests(raw))
    places = _places(raw)
    return Failure(
        lines=tuple(lines),
        tests=frozenset(tests),
        places=frozenset(places),
        frames=(*tests.values(), *places.values()),
    )


def excerpt(output: str, chars_max: int) -> str:
    """Return the lines that say most, as printed; `read_failure` reads them back.

    They end with the lines of the first failed tests and own frames.
    """
    failure = read_failure(output)
    if failure is None:
        return ""
    places = failure.frames[:_FRAMES_MAX]
    budget = chars_max - sum(len(one) + 1 for one in places)
    chosen: list[str] = []
    for line in sorted(failure.lines, key=lambda one: not one.sort):
        # What a line quotes is read from it again, and a secret keeps the word before it.
        if any(one.endswith(line.printed) for one in chosen):
            continue
        budget -= len(line.printed) + 1
        if budget >= 0 or not chosen:
            chosen.append(line.printed)
    return "\n".join(dict.fromkeys([*chosen, *places]))[:chars_max]


def marks(failure: Failure) -> tuple[str, ...]:
    """Return the keys by which earlier failures are looked up."""
    return tuple(dict.fromkeys(f"{_MARK}{line.mark}" for line in failure.lines if line.words))


def _joined(raw: Sequence[str]) -> Iterator[str]:
    """Yield lines, each with what programs print of the same error before or after it."""
    for at, line in enumerate(raw):
        following = raw[at + 1 : at + _FOLLOWING]
        if len(line) > _LINE_CHARS_MAX:
            continue
        if line.lstrip().startswith("thread '") and " panicked at " in line:
            message = line.partition(" panicked at '")[2].rpartition("', ")[0]
            yield f"panic: {message or ''.join(following[:1]).strip()}"
        elif line.endswith("error: cannot find symbol"):
            symbol = next((one.strip() for one in following if "symbol:" in one), "")
            yield f"{line} {symbol}" if symbol else ""
        elif " [type=" in line and at:
            # Pydantic names the field in the line before.
            yield f"{line.partition(' [type=')[0].strip()}: `{_LEAD.sub('', raw[at - 1])}`"
        else:
            yield line


def _with_tails(line: FailureLine) -> Iterator[FailureLine]:
    """Yield a line, and the errors that it quotes: programs put their own words before them."""
    yield line
    rest = line.printed
    for _ in range(_TAILS_MAX):
        _, separator, rest = rest.partition(": ")
        tail = FailureLine(printed=rest, text=normalise_line(rest))
        if not separator or len(tail.words) < _TAIL_WORDS_MIN:
            return
        yield tail


def _read_line(line: str) -> FailureLine | None:
    """Return what one line says of what went wrong; None if nothing."""
    led = _LEAD.sub("", line, count=1)
    placed = _PLACE.sub("", led, count=1)
    bare = _GOAL.sub("", _LEAD.sub("", placed, count=1), count=1)
    if typed := _SORTED.match(bare):
        message = typed["message"]
        if _NOISE.match(message):
            return None
        sort = typed["sort"].replace("$", ".").rpartition(".")[2]
        return FailureLine(printed=bare, text=normalise_line(message), sort=sort)
    is_placed = placed != led
    if not bare or _NOISE.match(bare) or _CODE.search(bare):
        return None
    if not is_placed and not _INFORMATIVE.search(bare):
        return None
    text = normalise_line(bare)
    # What is mostly numbers is a measurement.
    is_message = text.count(" ") > max(1, 2 * text.count("#"))
    return FailureLine(printed=bare, text=text) if is_message else None


def normalise_line(line: str) -> str:
    """Return a line without what differs from run to run."""
    text = _NUMBER.sub("#", _PATH.sub(_last_part, _GUESS.sub("", line)))
    return " ".join(text.split()).rstrip(" .:,;")


def _last_part(path: re.Match[str]) -> str:
    parts = [one for one in _SLASH.split(path[0]) if len(_WORD.findall(one)) > 0]
    return f"«{parts[-1]}»" if parts else ""


def _tests(raw: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of failed tests, each with its line."""
    for line in raw:
        if len(line) > _LINE_CHARS_MAX:
            continue
        for kind in _TESTS:
            if match := kind.search(line):
                yield _PART.split(match["test"].partition("[")[0])[-1].strip(), line
                break


def _places(raw: Sequence[str]) -> dict[str, str]:
    """Return the innermost frame in own code, with its lines."""
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for before, line in pairwise(["", *raw]):
        for kind, is_last in _FRAMES if len(line) <= _LINE_CHARS_MAX else ():
            match = kind.search(line)
            if match is None:
                continue
            function, lines = match.groupdict().get("function") or "", line
            if line.startswith("\t") and ".go:" in line and before.endswith(")"):
                # Go prints the function in the line before.
                function = before.rpartition("(")[0].rpartition(".")[2]
                lines = f"{before}\n{line}"
            if not _FOREIGN.search(match["file"]) and not _FOREIGN.search(function):
                place = {f"{_SLASH.split(match['file'])[-1]}:{function}": lines}
                last, first = (place, first) if is_last else (last, first or place)
            break
    return last or first


def similarity(failure: Failure, earlier: Failure, *, same_project: bool) -> float:
    """Return how like two failures are: 0 if they are different ones, else from 5 on."""
    is_near = same_project and _is_near(failure, earlier)
    best = max(
        (
            _likeness(line, other, is_near=is_near, same_project=same_project)
            for line in failure.lines
            for other in earlier.lines
        ),
        default=0.0,
    )
    return best if best >= (_SAME if same_project else _SAME_ELSEWHERE) else 0.0


def _is_near(failure: Failure, earlier: Failure) -> bool:
    """Return whether two failures are at the same place, or else in the same test."""
    if failure.places and earlier.places:
        return not failure.places.isdisjoint(earlier.places)
    return not failure.tests.isdisjoint(earlier.tests)


def _likeness(line: FailureLine, other: FailureLine, *, is_near: bool, same_project: bool) -> float:
    if line.words != other.words or (line.sort.startswith("error[") and line.sort != other.sort):
        return 0
    if line.is_generic and not (is_near and line.exact == other.exact):
        return 0
    common = line.names & other.names
    given = 2 * same_project + 2 * bool(line.sort)
    if line.text.casefold() == other.text.casefold():
        missing = 2 if line.is_missing else 0
        return len(line.words) + _WEIGHT_OF_NAME * len(line.names) + missing + given
    if line.is_missing and not _ADVICE.search(line.text):
        if _SCHEMA.search(line.text):
            return _SAME if same_project else 0
        if not line.names <= other.names and len(common) < _NAMES_MIN:
            return 0
    known = len(line.words) + len(common)
    return known + len(common) + given if known >= _KNOWN_MIN else 0
