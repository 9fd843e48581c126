"""Runs the tests of adapters with the oldest and newest versions of their frameworks.

Each runs in an environment of its own. The tests of LangGraph's own store, which are in its source
distribution, run against ours too.

Usage: `just frameworks [FRAMEWORK ...]`.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.serving import free_port, started

ROOT: Final = Path(__file__).parents[3]
TOOLS: Final = ("anyio", "hypothesis", "pytest>=9.2")
"""What the tests of adapters import apart from their framework."""
SERVER: Final = "COMMONBRAIN_TEST_SERVER"
"""The variable with the URL of the server that the tests of a client use."""
OWN_SUITE: Final = """
import tempfile
from pathlib import Path

import commonbrain
import langgraph.store.memory
from commonbrain_adapters.langgraph import CommonbrainStore


class Store(CommonbrainStore):
    __slots__ = ("index_config",)

    def __init__(self, *, index=None):
        brain = commonbrain.open(Path(tempfile.mkdtemp()) / "brain.db", agent="langgraph")
        super().__init__(brain, fields=(index or {}).get("fields") or ["$"])
        self.index_config = index


langgraph.store.memory.InMemoryStore = Store
"""
"""A conftest that puts our store in the place of the one which LangGraph's tests test."""


@dataclass(frozen=True, slots=True)
class Framework:
    """The requirements of the two ends of a range."""

    lowest: Sequence[str]
    highest: Sequence[str]
    options: Sequence[str] = ()
    """Options of pytest."""
    has_extra: bool = True
    is_remote: bool = False
    """Whether it uses a server: its environment has the client of one, and not this project."""

    def ends(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield both ends with their names."""
        yield "lowest", self.lowest
        yield "highest", self.highest


FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "langchain": Framework(lowest=("langchain-core==1.0.0",), highest=("langchain-core<2",)),
    "llamaindex": Framework(
        lowest=("llama-index-core==0.13.0",),
        highest=("llama-index-core<0.15",),
        # Its chat store does not close its connections.
        options=("-W", "ignore::ResourceWarning"),
    ),
    # It cannot be installed together with this project: it requires mcp<2 and pydantic<2.13.
    "crewai": Framework(
        lowest=("crewai==1.15.0",),
        highest=("crewai<2",),
        options=("-W", "ignore"),
        has_extra=False,
        is_remote=True,
    ),
    "langgraph": Framework(
        lowest=("langgraph-checkpoint==2.1.0", "langgraph==1.0.0"),
        highest=("langgraph-checkpoint<5", "langgraph"),
    ),
    "anthropic": Framework(lowest=("anthropic==1.0.0",), highest=("anthropic<3",)),
    "google-adk": Framework(
        lowest=("google-adk==2.2.0",),
        highest=("google-adk<3",),
        # The lock would move others back to what it requires.
        has_extra=False,
    ),
    "openai-agents": Framework(lowest=("openai-agents==0.20.0",), highest=("openai-agents<1",)),
    "pydantic-ai": Framework(lowest=("pydantic-ai-slim==2.0.0",), highest=("pydantic-ai-slim<3",)),
}


def main(names: Sequence[str]) -> int:
    """Run the tests of these frameworks, by default of all; return the exit status."""
    failed: list[str] = []
    for name in names or list(FRAMEWORKS):
        for end, requirements in FRAMEWORKS[name].ends():
            with tempfile.TemporaryDirectory() as folder:
                python = _environment(Path(folder), name, requirements)
                print(f"{name}, {end} versions:", flush=True)  # noqa: T201 it is a program
                if not _own_tests_pass(python, name, folder=Path(folder)):
                    failed.append(f"{name} {end}")
                if name == "langgraph" and not _own_suite_passes(python, Path(folder)):
                    failed.append(f"{name} {end}: its own tests")
    print("failed: " + ", ".join(failed) if failed else "all passed")  # noqa: T201
    return bool(failed)


def _environment(folder: Path, name: str, requirements: Sequence[str]) -> Path:
    """Make an environment with this project and a framework; return its Python."""
    python = folder / "venv" / "bin" / "python"
    _run("uv", "venv", "--quiet", "--python", sys.executable, str(folder / "venv"))
    packages = [f"./packages/commonbrain-{one}" for one in ("assets", "minilm")]
    extra = f"[{name}]" if FRAMEWORKS[name].has_extra else ""
    adapters = f"./packages/commonbrain-adapters{extra}"
    own = ["--editable", ".", "--editable", adapters, *packages]
    if FRAMEWORKS[name].is_remote:
        own = ["./packages/commonbrain-client", "--editable", adapters]
    _run("uv", "pip", "install", "--quiet", "--python", str(python), *own, *TOOLS, *requirements)
    return python


def _own_tests_pass(python: Path, name: str, *, folder: Path) -> bool:
    framework = FRAMEWORKS[name]
    tests = (
        f"packages/commonbrain-adapters/tests/test_{name.replace('-', '_')}.py",
        *framework.options,
    )
    if not framework.is_remote:
        return _passes(python, *tests, folder=ROOT)
    port = free_port()
    with started(folder / "brain.db", port=port):
        server = {SERVER: f"http://127.0.0.1:{port}"}
        return _passes(python, *tests, folder=ROOT, **server)


def _own_suite_passes(python: Path, folder: Path) -> bool:
    """Run the tests in the source distribution of langgraph-checkpoint, of the same version."""
    code = "from importlib.metadata import version; print(version('langgraph-checkpoint'))"
    shown = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    version = shown.stdout.strip()
    _run("uv", "pip", "install", "--quiet", "--python", str(python), "pip", "pytest-mock")
    download = ("-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:")
    _run(str(python), *download, "--dest", str(folder), f"langgraph-checkpoint=={version}")
    [archive] = folder.glob("langgraph_checkpoint-*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    suite = folder / archive.name.removesuffix(".tar.gz")
    (suite / "conftest.py").write_text(OWN_SUITE)
    (suite / "pytest.ini").write_text("[pytest]\nanyio_mode = auto\n")
    # It asserts the scores of the embedder that LangGraph's tests bring along.
    other_embedder = ("--deselect", "tests/test_store.py::test_embed_with_path")
    return _passes(python, "tests/test_store.py", *other_embedder, folder=suite)


def _passes(python: Path, *arguments: str, folder: Path, **variables: str) -> bool:
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = _variables() | variables
    return subprocess.run(command, check=False, cwd=folder, env=environment).returncode == 0


def _run(*command: str) -> None:
    subprocess.run(command, check=True, cwd=ROOT, env=_variables())


def _variables() -> dict[str, str]:
    return {name: one for name, one in os.environ.items() if not name.startswith("COMMONBRAIN_")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
