"""Going on after the client has gone: the end of a session is kept by a process of its own."""

import subprocess
import sys
from collections.abc import Sequence


def run_detached(words: Sequence[str], payload: bytes) -> None:
    """Start the hook again in a background process, with the same input.

    Its input goes to stdin, because other users can read a command line.
    """
    process = subprocess.Popen(  # noqa: S603 this very program, with words of our own
        # Without -P a folder of our name in the project would be run in our place.
        [sys.executable, "-P", "-m", "commonbrain", "hook", *words, "--detached"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Neither a signal to the client's group nor a closed console is meant for it.
        start_new_session=True,
        creationflags=_flags(),
    )
    if process.stdin is not None:
        process.stdin.write(payload)
        process.stdin.close()


def _flags() -> int:
    if sys.platform == "win32":
        return subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
    return 0
