"""Processes that a hook starts and does not wait for.

Imports must be fast: every hook loads this module.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_DETACHED: Final = 0x208 if sys.platform == "win32" else 0
"""DETACHED_PROCESS and CREATE_NEW_PROCESS_GROUP."""


def run_detached(words: Sequence[str], payload: bytes) -> None:
    """Run a command of this program in a background process, with an input.

    The input goes to stdin, because other users can read a command line. The process holds no pipe
    of the client, which waits until those of its hook are closed.
    """
    # Most hooks start nothing.
    import subprocess  # noqa: PLC0415

    process = subprocess.Popen(  # noqa: S603 our own program and arguments
        # Without -P, a folder in the project with our name would run instead.
        [sys.executable, "-P", "-m", "commonbrain", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Signals to the client's group and closing its console must not end the process.
        start_new_session=True,
        creationflags=_DETACHED,
    )
    if process.stdin is not None:
        process.stdin.write(payload)
        process.stdin.close()


def start_server(store: Path | None, *, session: str) -> None:
    """Start the process that serves a store as long as this session's client runs.

    It ends at once if another process serves the store. Without a client that outlives this hook,
    nothing is started.
    """
    # Only the first hook of a session needs it.
    from commonbrain.coordination.processes import LocalProcesses  # noqa: PLC0415

    client = LocalProcesses().client()
    if client is not None:
        options = ["--store", str(store)] if store else []
        user = {"pid": client.pid, "session": session}
        run_detached([*options, "mcp", "--background"], json.dumps(user).encode())
