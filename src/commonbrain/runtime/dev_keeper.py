"""Keeps a server running for as long as whoever started it lives; run by its path, see `servers`.

Its standard input is a pipe whose other end closes when the starter ends, however it ends: a killed
test run leaves neither a server nor its folder behind. It imports nothing but the standard library,
so that it starts at once.
"""

import json
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

_GRACE_S: Final = 20
"""How long a server may take to stop before it is killed."""


def supervise(command: dict[str, Any]) -> int:
    """Start what is told, wait until it or the starter ends, and clean up; give its exit code."""
    with Path(command["log"]).open("ab") as log:
        server = subprocess.Popen(  # noqa: S603 the starter's own command
            command["command"],
            cwd=command["folder"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **command["owner"],
        )

        def stop(*_: object) -> None:
            server.send_signal(signal.SIGINT)
            killing = threading.Timer(_GRACE_S, server.kill)
            killing.daemon = True
            killing.start()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        threading.Thread(target=lambda: (sys.stdin.buffer.read(), stop()), daemon=True).start()
        code = server.wait()
    if command["is_temporary"]:
        shutil.rmtree(command["folder"], ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(supervise(json.loads(sys.argv[1])))
