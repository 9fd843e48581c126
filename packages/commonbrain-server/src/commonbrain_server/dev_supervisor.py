"""Supervises a server for the lifetime of its starter; run by its path, see `dev_servers`.

Its standard input is a pipe that closes when the starter ends for any reason: a killed test run
leaves neither a server nor its folder. Imports only the standard library, to start fast.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

_GRACE_S: Final = 20
"""Seconds that a server may take to stop before it is killed."""


def supervise(command: dict[str, Any]) -> int:
    """Start the command, wait until it or the starter ends, and clean up; return its exit code."""
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
        # Not by `sys.stdin`: this program is aborted if it ends while that is read.
        threading.Thread(target=lambda: (os.read(0, 1), stop()), daemon=True).start()
        code = server.wait()
    if command["is_temporary"]:
        shutil.rmtree(command["folder"], ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(supervise(json.loads(sys.argv[1])))
