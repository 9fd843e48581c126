"""Runs a command in a process that already serves the store, which saves a second of loading.

Imports must be fast: only the standard library and what a hook imports too.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO

from commonbrain.api.errors import EXIT_INTERRUPTED, describe_error
from commonbrain.model.errors import InterruptedCallError
from commonbrain.runtime.callers import (
    CommandLine,
    describe_process,
    parse_command_line,
    store_socket,
)
from commonbrain.runtime.local_socket import ask
from commonbrain.text.private_parts import without_private

_TIMEOUT_S: Final = 600.0
"""Longer than a command waits for a locked store."""
_DECLINED: Final = frozenset({"--", "--help", "-h", "--version"})
"""Words with which a command runs here; the parser would drop `--`."""
REPEATABLE: Final = frozenset(
    {
        *("audit", "get", "list", "recall", "recalls", "review", "status", "timeline"),
        "why-failed",
        "trace",
        *("agent list", "job list", "job show", "key list"),
        *("message delegated", "message history", "message inbox", "message threads"),
        *("model guards", "model list", "model show"),
        *("session list", "session notes", "skill list", "skill show", "skill test"),
        *("task list", "tenant list", "tenant refusals", "tenant show", "tenant usage"),
    }
)
"""Commands, or groups of them, that change nothing that matters, so they may run twice."""
_COLOUR_VARIABLES: Final = frozenset(
    {"COLORTERM", "FORCE_COLOR", "NO_COLOR", "TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
)
"""The variables by which Rich chooses colours."""
EXIT_STOPPED: Final = 130
"""The exit code after Ctrl-C, as shells have it."""
_COLUMNS, _LINES = 80, 25
"""The size that Rich assumes where there is no terminal."""


def forward_command(words: Sequence[str]) -> int | None:
    """Let a process that serves the store run a command; return the exit code.

    None if there is none or it declines: then nothing was done.
    """
    line = parse_command_line(words, os.environ)
    if line is None or _DECLINED & set(words) or "_BRAIN_COMPLETE" in os.environ:
        return None
    path = store_socket(line.store, os.environ)
    if path is None or os.environ.get("COMMONBRAIN_SECRETS_DIR"):
        # The files may name the agent and the session.
        return None
    try:
        return _ask(path, line)
    except KeyboardInterrupt:
        return EXIT_STOPPED
    except BrokenPipeError:
        # Nobody reads the output any more, and Python would report it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _ask(path: Path, line: CommandLine) -> int | None:
    was_sent = False

    def note_sent() -> None:
        nonlocal was_sent
        was_sent = True

    answer = ask(path, _request(line), timeout_s=_TIMEOUT_S, on_sent=note_sent)
    if answer is None:
        if not was_sent or {line.words[0], " ".join(line.words[:2])} & REPEATABLE:
            return None
        _print_lost(as_json="--json" in line.words)
        return EXIT_INTERRUPTED
    if "code" not in answer:
        return None
    _write(sys.stdout, answer["out"])
    _write(sys.stderr, answer["err"])
    return int(answer["code"])


def _print_lost(*, as_json: bool) -> None:
    error = InterruptedCallError(
        "The process that ran the command did not answer; the command may have been carried out.",
        hint="Check whether it was; if not, run it again.",
    )
    if as_json:
        _write(sys.stdout, json.dumps({"error": describe_error(error)}) + "\n")
    else:
        _write(sys.stderr, f"{error.code}: {error.message}\n{error.hint}\n")


def _request(line: CommandLine) -> dict[str, Any]:
    columns, lines = _terminal_size()
    return {
        "kind": "command",
        "words": [without_private(word) for word in line.words],
        **line.identity,
        **describe_process(),
        "is_interactive": _is_terminal(sys.stdin) and _is_terminal(sys.stdout),
        "terminal": {
            "columns": columns,
            "lines": lines,
            "shows_out": _is_terminal(sys.stdout),
            "shows_err": _is_terminal(sys.stderr),
            "environment": {name: os.environ[name] for name in _COLOUR_VARIABLES & set(os.environ)},
        },
    }


def _is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; one that was closed at the start is None."""
    return stream is not None and stream.isatty()


def _terminal_size() -> tuple[int, int]:
    columns, lines = _COLUMNS, _LINES
    for stream in (0, 1, 2):
        with suppress(OSError):
            columns, lines = os.get_terminal_size(stream)
            break
    if os.environ.get("TERM") in {"dumb", "unknown"}:
        columns, lines = 0, 0
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() else columns or _COLUMNS, lines or _LINES


def _write(stream: Any, text: str) -> None:  # noqa: ANN401 the streams of sys
    """Write a text, with marks for characters that the stream does not have."""
    if text and stream is not None:
        stream.flush()
        stream.buffer.write(text.encode(stream.encoding or "utf-8", stream.errors))
        stream.flush()
