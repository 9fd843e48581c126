"""Run lines of a shell that call `brain`, without starting Python where that is possible.

A call runs in this process, by the entry point of the command line. Hooks end their process, and a
call that a server may answer looks for it before the command line is loaded: these run the whole
program in a fork of this process. Lines that need more of a shell, such as a loop, run in one.
"""

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

import pytest

from commonbrain.__main__ import main
from commonbrain.cli.main import run

PROGRAMS = "brain|curl|psql|createdb|pg_dump|pg_restore|sh deploy/backup/"
OPERATOR = re.compile(r"[();<>|&]+")
ASSIGNMENT = re.compile(r"([A-Z_]+)=(.*)", re.DOTALL)
VARIABLE = re.compile(r"\$[A-Z_]+")
SHOW_CODE = [";", "echo", "exit $?"]
SHELL_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A simple command, the variables set for it alone, and the command whose output it reads."""

    words: Sequence[str]
    environment: dict[str, str]
    source: Sequence[str] = ()


def run_line(line: str, *, is_served: bool) -> tuple[str, int]:
    """Return the output of a line and its exit code, the first that is not 0.

    Args:
        line: Calls of `brain` and of the tools that pages use, or `export NAME=VALUE`.
        is_served: Whether a server may answer calls.

    """
    line = re.sub(r"\buv run (?:--no-dev )?brain\b", "brain", line)
    if exported := re.fullmatch(r"export ([A-Z_]+)=(.*)", line):
        os.environ[exported[1]], code = _expand(exported[2])
        return "", code
    is_known = re.search(rf"(?:^|^[A-Z_]+=\S.* |\| |&& |\$\()(?:{PROGRAMS})\b", line)
    assert is_known, f"only brain, curl and the tools of Postgres are run here, not {line!r}"
    tokens = _tokens(line)
    shows_code = tokens[-3:] == SHOW_CODE
    calls = _calls(tokens[:-3] if shows_code else tokens)
    if calls is None:
        return in_shell(line)
    outputs, code = list[str](), 0
    for call in calls:
        output, code = _run_call(call, is_served=is_served)
        outputs.append(output)
        if code:
            break
    text = "".join(outputs)
    return (f"{text}exit {code}\n", 0) if shows_code else (text, code)


def _expand(value: str) -> tuple[str, int]:
    """Expand a value as a shell does, which may read the output of a call and a filter."""
    if (piped := re.fullmatch(r"\$\((brain [^|]+) \| ([^|]+)\)", value)) is None:
        return in_shell(f"printf %s {value}")
    output, code = run_here(shlex.split(piped[1]))
    if code:
        return output, code
    filtered, code = in_shell(piped[2], output)
    return filtered.rstrip("\n"), code


def _tokens(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    return list(lexer)


def _calls(tokens: Sequence[str]) -> list[Call] | None:
    """Return the calls that `&&` joins; None if the line uses more of the shell's language."""
    calls = list[Call]()
    for joined in _split(tokens, "&&"):
        *sources, words = _split(joined, "|")
        environment = dict[str, str]()
        while words and (assigned := ASSIGNMENT.fullmatch(words[0])):
            environment[assigned[1]], words = os.path.expandvars(assigned[2]), words[1:]
        words = [os.path.expandvars(word) if VARIABLE.fullmatch(word) else word for word in words]
        is_simple = (
            bool(words)
            and len(sources) <= 1
            and all(source[0] in {"echo", "printf"} for source in sources)
            and not any(OPERATOR.fullmatch(word) for word in (*joined,) if word != "|")
            and not any("$" in word for word in words)
        )
        if not is_simple:
            return None
        calls.append(
            Call(words=words, environment=environment, source=sources[0] if sources else ())
        )
    # A shell expands the names of files; calls of `brain` have none to expand.
    return calls if any(call.words[0] == "brain" for call in calls) else None


def _split(tokens: Sequence[str], operator: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == operator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _run_call(call: Call, *, is_served: bool) -> tuple[str, int]:
    if call.words[0] != "brain":
        return in_shell(shlex.join(call.words))
    source = in_shell(shlex.join(call.source))[0].encode() if call.source else b""
    is_whole = is_served or call.words[1:2] == ["hook"]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in call.environment.items():
            patch.setenv(name, value)
        return (run_forked if is_whole else run_here)(call.words, source)


def in_shell(line: str, source: str | None = None) -> tuple[str, int]:
    """Run a line in a shell, which reads a text if there is one."""
    shell = ["sh", "-c", line]
    ran = subprocess.run(
        shell,
        check=False,
        input=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SHELL_TIMEOUT_S,
    )
    return ran.stdout, ran.returncode


def run_here(words: Sequence[str], source: bytes = b"") -> tuple[str, int]:
    """Run the entry point of the command line in this process."""
    output, exited = io.StringIO(), SystemExit(0)
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        patch.setattr(sys, "argv", list(words))
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(source), "utf-8"))
        try:
            run()
        except SystemExit as exit_:
            exited = exit_
    return output.getvalue(), int(exited.code or 0)


def run_forked(words: Sequence[str], source: bytes) -> tuple[str, int]:
    """Run the whole program in a fork of this process, which has loaded what it needs."""
    if sys.platform != "linux":
        # Libraries of other systems do not outlive a fork.
        ran = subprocess.run(
            [sys.executable, "-m", "commonbrain", *words[1:]],
            check=False,
            input=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SHELL_TIMEOUT_S,
        )
        return ran.stdout.decode(), ran.returncode
    with TemporaryFile() as given, TemporaryFile() as output:
        given.write(source)
        given.seek(0)
        _, status = os.waitpid(_fork(words, given=given.fileno(), output=output.fileno()), 0)
        output.seek(0)
        return output.read().decode(), os.waitstatus_to_exitcode(status)


@dataclass(slots=True)
class Program:
    """A program that runs in a fork of this process until it is terminated."""

    pid: int
    output: IO[bytes]
    code: int | None = None

    def poll(self) -> int | None:
        """Return its exit code once it has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def communicate(self) -> bytes:
        """Return what it still writes until it ends."""
        return self.output.read()

    def end(self) -> None:
        """Terminate it and wait for its end."""
        with self.output:
            if self.poll() is None:
                os.kill(self.pid, signal.SIGTERM)
                self.communicate()
                os.waitpid(self.pid, 0)


def start_forked(words: Sequence[str]) -> Program:
    """Start the whole program in a fork of this process."""
    read_end, write_end = os.pipe()
    with TemporaryFile() as given:
        pid = _fork(words, given=given.fileno(), output=write_end)
    os.close(write_end)
    return Program(pid, os.fdopen(read_end, "rb"))


def _fork(words: Sequence[str], *, given: int, output: int) -> int:
    child = os.fork()
    if not child:
        _run_child(words, given, output)
    return child


def _run_child(words: Sequence[str], given: int, output: int) -> None:
    """Run the program with these files as its streams; never return into the tests."""
    code = 1
    try:
        for number, file in enumerate((given, output, output)):
            os.dup2(file, number)
        sys.argv = list(words)
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8")
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", write_through=True)
        main()
        code = 0
    except SystemExit as exited:
        code = int(exited.code or 0)
    except BaseException:  # noqa: BLE001 the tests must not go on in the child
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
