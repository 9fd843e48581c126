"""`brain statusline`: one line for a client's status line, from files and a process that runs.

A client runs it after each message, so it never opens the store, and imports must be fast.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from commonbrain.hooks.table import INPUT_BYTES_MAX, read_event
from commonbrain.model.errors import CommonbrainError
from commonbrain.observability.hook_runs import HookRuns, state_folder
from commonbrain.runtime.callers import parse_command_line, store_socket
from commonbrain.runtime.local_socket import JsonObject, ask

if TYPE_CHECKING:
    from commonbrain.runtime.local_requests import LocalHost

KIND: Final = "status line"
_ANSWER_S: Final = 0.1
_LISTED: Final = 1


def run_status_line(words: Sequence[str]) -> bool:
    """Print what the session was shown, and how much waits for a decision.

    Args:
        words: the command line; its store, or that of the environment, has the decisions.

    Returns:
        Whether the command line is that of the status line; if not, nothing is printed.

    """
    options = parse_command_line(words, os.environ)
    if options is None or list(options.words) != ["statusline"]:
        return False
    session = ""
    with suppress(CommonbrainError, OSError):
        session = read_event(sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)).session
    path = store_socket(options.store, os.environ)
    reply = (path and ask(path, {"kind": KIND}, timeout_s=_ANSWER_S)) or {}
    parts = [f"{HookRuns(state_folder(os.environ)).shown(session)} shown"]
    if waiting := reply.get("waiting"):
        parts.append(f"{waiting} to decide")
    print(f"commonbrain: {', '.join(parts)}")  # noqa: T201 the output of the command
    return True


def answer_status_line(host: "LocalHost", _: JsonObject) -> JsonObject:
    """Count what waits for a decision."""
    queue = host.brain.review(limit=_LISTED)
    listed = (queue.conflicts, queue.needs_review, queue.proposals, queue.duplicates)
    return {"waiting": sum(map(len, listed)) + queue.more}
