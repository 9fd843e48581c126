import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from uuid import uuid4

import pytest

import commonbrain
from commonbrain.__main__ import main
from commonbrain.client import Brain
from commonbrain.embeddings.interface import CachingEmbedder, Embedder
from commonbrain.runtime.local_requests import answer_requests
from commonbrain.runtime.local_socket import LocalServer, socket_path
from tests.in_process import default_model, run_brain, unchanged_collector
from tests.laid_out_stores import lay_out_store
from tests.processes import AS_PERSON, TIMEOUT_S
from tests.stdio_servers import Server, served
from tests.tenant_rows import add_tenant

Command = Callable[..., tuple[int, str]]

FACT = "We chose Postgres over MySQL for its row-level security."
RULE = "Never push to the branch release without a green build."
NOT_COLD = {"COMMONBRAIN_MCP_PROFILE": "nonsense"}
"""A setting of the caller alone: a hook or command that opens the store itself refuses it."""


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    """The embedder of stores by default, which takes long to load."""
    return CachingEmbedder(default_model())


@contextmanager
def answering(brain: Brain, socket: Path) -> Generator[LocalServer]:
    """Answer hooks and commands at the socket of a store, in this process."""
    server = LocalServer(socket, answer_requests(brain, has_worker=False))
    assert server.start_if_free()
    with closing(server):
        yield server


@pytest.fixture
def command(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    embedder: Embedder,
) -> Iterator[Command]:
    """Run `brain` on the test's own store; give its exit code and its output.

    A brain of this process runs those commands that need no store of their own, as the process of
    an agent does on a user's machine. It opens the store and loads the model once.
    """
    lay_out_store(path)
    monkeypatch.setenv("COMMONBRAIN_STORE", str(path))
    monkeypatch.setenv("COLUMNS", "200")
    for name, value in AS_PERSON.items():
        monkeypatch.setenv(name, value)
    # The script has no package; its name is then that of the program.
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)

    def command(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["brain", *arguments])
        with pytest.raises(SystemExit) as left, unchanged_collector():
            main()
        printed = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return left.value.code, printed.out + printed.err

    with commonbrain.open(path) as brain, ExitStack() as stack:
        if (socket := socket_path(path, os.environ)) is not None:
            services = replace(brain.services, embedder=embedder)
            stack.enter_context(answering(Brain(services, brain.caller), socket))
        yield command


@pytest.fixture(scope="session")
def filled_store() -> Iterator[Path]:
    """A store with a rule and a fact, to be copied."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "brain.db"
        with commonbrain.open(path, agent="ann") as brain:
            brain.remember(RULE, kind="rule", severity="BLOCKER")
            brain.remember(FACT, kind="fact")
        yield path


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a path that is short enough for sockets in it."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def store(filled_store: Path, short_folder: Path) -> Path:
    """A store of the test's own with a rule and a fact, whose path is short enough for sockets."""
    return Path(shutil.copy(filled_store, short_folder))


@pytest.fixture(scope="session")
def stdio_server(filled_store: Path) -> Iterator[Server]:
    """The one `brain mcp` of the tests' session, which acts for codex and knows a rule and a fact.

    It answers bridges, hooks and commands; tests have a tenant or a session of their own in it.
    """
    with TemporaryDirectory() as folder:
        store = Path(shutil.copy(filled_store, folder))
        with served(store, COMMONBRAIN_AGENT="codex") as server:
            server.shake_hands()
            server.call("recall", query="postgres")
            until = monotonic() + TIMEOUT_S
            while run_brain("--store", str(store), "review", **NOT_COLD).status:
                assert monotonic() < until
            yield server


@pytest.fixture
def tenant(stdio_server: Server) -> str:
    """A tenant of the test's own in the store of the one server."""
    name = f"t{uuid4().hex[:8]}"
    with commonbrain.open(stdio_server.store) as brain:
        add_tenant(brain, name)
    return name


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and, as the current folder, an empty project."""
    home = tmp_path / "home"
    project = tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(project)
    return home
