"""Runs a command in a process that already serves the store, which saves a second of loading.

Imports must be fast: only the standard library and what a hook imports too.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from commonbrain.api.errors import EXIT_INTERRUPTED, describe_error
from commonbrain.model.errors import InterruptedCallError
from commonbrain.runtime.callers import (
    CommandLine,
    describe_process,
    parse_command_line,
    store_file,
)
from commonbrain.runtime.local_socket import ask, socket_path

_TIMEOUT_S: Final = 600.0
"""Longer than a command waits for a locked store."""
_HELP: Final = frozenset({"--help", "-h", "--version"})
REPEATABLE: Final = frozenset(
    {"audit", "get", "recall", "recalls", "review", "status", "timeline", "trace"}
)
"""Commands that change nothing that matters, so they may run twice."""
_COLOUR_VARIABLES: Final = frozenset(
    {"COLORTERM", "FORCE_COLOR", "NO_COLOR", "TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
)
"""The variables by which Rich chooses colours."""
_COLUMNS, _LINES = 80, 25
"""The size that Rich assumes where there is no terminal."""


def forward_command(words: Sequence[str]) -> int | None:
    """Let a process that serves the store run a command; return the exit code.

    None if there is none or it declines: then nothing was done.
    """
    line = parse_command_line(words, os.environ)
    if line is None or _HELP & set(words) or "_BRAIN_COMPLETE" in os.environ:
        return None
    file = store_file(line.store, os.environ)
    path = file and socket_path(file, os.environ)
    if path is None:
        return None
    was_sent = False

    def note_sent() -> None:
        nonlocal was_sent
        was_sent = True

    answer = ask(path, _request(line), timeout_s=_TIMEOUT_S, on_sent=note_sent)
    if answer is None:
        if not was_sent or line.words[0] in REPEATABLE:
            return None
        _print_lost(as_json="--json" in words)
        return EXIT_INTERRUPTED
    if "code" not in answer:
        return None
    _write(sys.stdout, answer["out"])
    _write(sys.stderr, answer["err"])
    return int(answer["code"])


def _print_lost(*, as_json: bool) -> None:
    error = InterruptedCallError(
        "The process that ran the command ended; the command may have been carried out.",
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
        "words": line.words,
        **line.identity,
        **describe_process(),
        "is_interactive": sys.stdin.isatty() and sys.stdout.isatty(),
        "terminal": {
            "columns": columns,
            "lines": lines,
            "shows_out": sys.stdout.isatty(),
            "shows_err": sys.stderr.isatty(),
            "environment": {name: os.environ[name] for name in _COLOUR_VARIABLES & set(os.environ)},
        },
    }


def _terminal_size() -> tuple[int, int]:
    columns, lines = _COLUMNS, _LINES
    for stream in (0, 1, 2):
        with suppress(OSError):
            columns, lines = os.get_terminal_size(stream)
            break
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdigit() else columns, lines


def _write(stream: Any, text: str) -> None:  # noqa: ANN401 the streams of sys
    """Write a text, with marks for characters that the stream does not have."""
    if text:
        stream.flush()
        stream.buffer.write(text.encode(stream.encoding or "utf-8", "replace"))
        stream.flush()
