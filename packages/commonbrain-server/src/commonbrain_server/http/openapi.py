"""Writes the OpenAPI description to a file: `python -m commonbrain_server.http.openapi FILE`."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from fastapi import FastAPI

from commonbrain.runtime.bootstrap import open_brain
from commonbrain_server.http.app import make_app
from commonbrain_server.security.logins import make_local_access


def to_json(app: FastAPI) -> str:
    """Return the description of an application, the same for the same routes."""
    return f"{json.dumps(app.openapi(), indent=1, ensure_ascii=False)}\n"


def _main() -> None:
    with TemporaryDirectory() as folder, open_brain(Path(folder) / "brain.db") as brain:
        text = to_json(make_app(brain, make_local_access(brain.caller)))
    Path(sys.argv[1]).write_text(text, "utf-8")


if __name__ == "__main__":
    _main()
