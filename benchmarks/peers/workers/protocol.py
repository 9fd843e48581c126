"""A worker's side of the protocol: a line of JSON on stdin, a line of JSON on stdout.

A worker imports the memory system, the embedder and the standard library: its environment has no
other packages.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

_PAGE_BYTES = 4096
Result = TypeVar("Result")


class Memory(Protocol):
    """What each memory is asked to do."""

    def write(self, reference: str, text: str) -> bool:
        """Store a text so that it survives the process and can be found; False if refused."""
        ...

    def search(self, question: str, limit: int) -> list[str]:
        """Return the references of the best matches, best first."""
        ...


class ImportingMemory(Memory, Protocol):
    """One that reads a file of conversations as well."""

    def import_(self, source: Path) -> int:
        """Store the turns of a file; return how many were stored."""
        ...


def serve(open_memory: Callable[[Path], Memory]) -> None:
    """Open a memory in the folder that the command line names, and do what stdin asks for."""
    # Libraries print to stdout, which is for replies alone.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    memory = open_memory(Path(sys.argv[1]))
    for line in sys.stdin:
        try:
            reply = _answer(memory, json.loads(line))
        # The driver shows the error of whatever library it comes from.
        except Exception as error:  # noqa: BLE001 see above
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def make_sqlite_loadable() -> None:
    """Replace `sqlite3` by pysqlite3 if this Python was built without loadable extensions."""
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        import pysqlite3  # noqa: PLC0415 installed only where extensions are needed
        import pysqlite3.dbapi2  # noqa: PLC0415 the same

        sys.modules["sqlite3"] = pysqlite3
        sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2


def _answer(memory: Any, request: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 see ImportingMemory
    if "write" in request:
        timed = [_timed(lambda: memory.write(*item)) for item in request["write"]]  # noqa: B023 at once
        return {"stored": sum(done for done, _ in timed), "laps": [lap for _, lap in timed]}
    if "import" in request:
        stored, lap = _timed(lambda: memory.import_(Path(request["import"])))
        return {"stored": stored, "laps": [lap]}
    if "search" in request:
        limit = request["limit"]
        timed = [_timed(lambda: memory.search(one, limit)) for one in request["search"]]  # noqa: B023 at once
        return {"found": [results for results, _ in timed], "laps": [lap for _, lap in timed]}
    return {"resident_mb": _resident_mb()}


def _timed(action: Callable[[], Result]) -> tuple[Result, tuple[float, float]]:
    """Return the result with milliseconds by the clock and of processor time of all threads."""
    wall, process = time.perf_counter(), time.process_time()
    result = action()
    lap = (time.perf_counter() - wall) * 1000, (time.process_time() - process) * 1000
    return result, lap


def _resident_mb() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    except OSError:
        # The largest it ever was, in bytes on macOS, is the nearest that other systems know.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return pages * _PAGE_BYTES / 1e6
