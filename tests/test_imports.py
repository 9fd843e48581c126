"""What the commands import: each what it uses, and nothing else that takes long."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

import commonbrain
from tests.laid_out_stores import lay_out_store

COMMANDS = """
import os
import sys
from commonbrain.__main__ import main

def run(line):
    sys.argv = ["brain", *line.split("|")]
    try:
        main()
    finally:
        print("imported:", *sys.modules, flush=True)

first, *others = sys.argv[1:]
try:
    run(first)
except SystemExit as ended:
    assert not ended.code
for line in others:
    child = os.fork()
    if not child:
        run(line)
        sys.exit()
    assert not os.waitpid(child, 0)[1]
"""
TOOLS = """
import sys
import commonbrain.cli.main
from commonbrain.mcp.server import build_server, tools_of
from commonbrain.api.operations import Profile
from commonbrain.api.schemas import compact_schema
build_server(lambda: None)
print("imported:", *sys.modules)
for tool in tools_of(Profile.CORE).values():
    compact_schema(tool.request)
    tool.agent_reply_adapter.json_schema(mode="serialization")
print("imported:", *sys.modules)
"""

METHODS = """
import sys
from commonbrain.__main__ import main

sys.argv = ["brain", *sys.argv[1:]]
try:
    main()
finally:
    files = [
        method.__code__.co_filename
        for cls in object.__subclasses__()
        if hasattr(cls, "__dataclass_fields__") and cls.__module__.startswith("commonbrain")
        for name in ("__init__", "__eq__", "__hash__")
        if (method := cls.__dict__.get(name)) is not None
    ]
    print("imported:", len(files), files.count("<string>"), flush=True)
"""
THREADS = """
import os
import sys
from commonbrain.__main__ import main

sys.argv = ["brain", *sys.argv[1:]]
main()
print("imported:", os.environ["OPENBLAS_NUM_THREADS"])
"""
HOOK = """
import sys
def print_import(event, about):
    if event == "import":
        sys.stderr.write(about[0] + "\\n")
sys.addaudithook(print_import)
from commonbrain.__main__ import main
main()
"""

MODEL = ("numpy", "onnxruntime", "tokenizers")
STORE = ("sqlalchemy", "commonbrain.storage.sql", "commonbrain.storage.repositories")
POSTGRES = (
    *("commonbrain_server", "sqlalchemy.dialects.postgresql"),
    *("asyncpg", "psycopg", "pgvector"),
)
NETWORK = (
    *("commonbrain_server", "commonbrain.mcp", "commonbrain_models.endpoint"),
    *("mcp", "starlette", "uvicorn", "httpx2"),
)
OTHERS = (
    *(
        "commonbrain_causes",
        "commonbrain_evals",
        "commonbrain_learn",
        "commonbrain.transfer",
        "commonbrain.jobs",
        "commonbrain.causality",
    ),
    *("commonbrain.hooks", "commonbrain.integrations", "commonbrain.consolidation"),
    *("commonbrain.coordination.sessions", "commonbrain_server.security.authentication"),
    "rich.progress",
    # They take longer to load than what a command would use of them.
    *("pydantic_settings", "dotenv", "tenacity"),
)
WRITE_PATH = ("commonbrain.ingestion.service", "commonbrain.ingestion.commit")
READ_PATH = ("commonbrain.retrieval.recall", "commonbrain.retrieval.score")
METRICS = ("commonbrain.administration", "commonbrain.observability.factory")
CHANGES = ("commonbrain.history.revise", "commonbrain.history.unit_of_work")


def imported_by(program: str, *arguments: str) -> Sequence[Sequence[str]]:
    """Run a program in a process of its own; return what it had imported where it says so."""
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    mark = "imported: "
    listings = [line for line in ran.stdout.splitlines() if line.startswith(mark)]
    return [line.removeprefix(mark).split() for line in listings]


def among(imported: Iterable[str], packages: Iterable[str]) -> list[str]:
    inside = tuple(f"{package}." for package in packages)
    return [one for one in imported if f"{one}.".startswith(inside)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with its schema: creating one runs the migrations, which opening does not."""
    path = tmp_path_factory.mktemp("imports") / "brain.db"
    lay_out_store(path)
    return path


UNUSED: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "--help": (*MODEL, *STORE, *POSTGRES, *NETWORK, *OTHERS, "commonbrain.runtime.bootstrap"),
        "status": (*MODEL, *POSTGRES, *NETWORK, *OTHERS, *WRITE_PATH, *READ_PATH, *CHANGES),
        "recall|staging": ("psutil", *POSTGRES, *NETWORK, *OTHERS, *WRITE_PATH, *CHANGES, *METRICS),
        "remember|Staging runs Postgres 16.": (
            *(*POSTGRES, *NETWORK, *OTHERS, *READ_PATH, *CHANGES),
            "commonbrain.administration",
        ),
    }
)
"""Commands and what each must not import; all run in forks of a process that ran the first."""


@pytest.mark.requirement("PF-14")
@pytest.mark.of_a_file
def test_command_imports_only_what_it_uses(
    store: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STORE", str(store))
    if hasattr(os, "fork"):
        listings = imported_by(COMMANDS, *UNUSED)
    else:
        listings = [imported_by(COMMANDS, line)[0] for line in UNUSED]
    for (line, unused), imported in zip(UNUSED.items(), listings, strict=True):
        with subtests.test(command=line):
            assert "commonbrain.cli.main" in imported
            assert among(imported, unused) == []


@pytest.mark.requirement("PF-14")
def test_version_imports_nothing_but_its_own_entry_point() -> None:
    [imported] = imported_by(COMMANDS, "--version")
    assert among(imported, ["commonbrain"]) == ["commonbrain", "commonbrain.__main__"]
    assert among(imported, (*MODEL, *STORE, "typer", "pydantic")) == []


@pytest.mark.requirement("PF-14")
@pytest.mark.of_a_file
def test_recall_compiles_few_of_the_methods_of_its_values(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STORE", str(store))

    [late, compiled] = imported_by(METHODS, "recall", "staging")[0]

    assert int(late) > 500
    assert int(compiled) < int(late) / 4


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("3", "3")])
def test_command_runs_numpy_on_one_thread_unless_the_user_chose(
    monkeypatch: pytest.MonkeyPatch, given: str | None, used: str
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)

    [shown] = imported_by(THREADS, "--version")

    assert shown == [used]


@pytest.mark.requirement("PF-14")
def test_mcp_server_lists_its_tools_without_store_and_model() -> None:
    answering, listing = imported_by(TOOLS)
    operations = among(answering, ["commonbrain.api.operations"])
    assert operations == ["commonbrain.api.operations"]
    assert among(listing, ["commonbrain.api.operations.recall"])
    assert among(listing, ["commonbrain.api.operations.doctor"]) == []
    assert among(listing, (*MODEL, *STORE, *POSTGRES, "commonbrain_server")) == []


@pytest.mark.requirement("PF-14")
@pytest.mark.of_a_file
def test_prompt_hook_imports_only_what_it_uses(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STORE", str(store))
    monkeypatch.setenv("COMMONBRAIN_STATE", str(tmp_path))
    monkeypatch.setenv("COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S", "50")
    # A hook that starts a process for later ones does not load the model.
    monkeypatch.setenv("COMMONBRAIN_MCP_SHARED", "off")
    with commonbrain.open(store) as brain:
        brain.remember("Staging runs Postgres 16 on four cores.", kind="fact")

    ran = subprocess.run(
        [sys.executable, "-c", HOOK, "hook", "claude-code", "user-prompt-submit"],
        input=json.dumps({"prompt": "which Postgres runs on staging, on how many cores?"}),
        capture_output=True,
        text=True,
        check=True,
    )

    imported = ran.stderr.splitlines()
    assert "Postgres 16" in ran.stdout
    others = tuple(one for one in OTHERS if one != "commonbrain.hooks")
    unused = (*POSTGRES, *NETWORK, *others, *WRITE_PATH, *CHANGES, *METRICS, "typer", "rich")
    assert among(imported, unused) == []
    # onnxruntime imports a part of numpy, which fails while another thread imports the whole.
    numpy, onnxruntime = (among(imported, [name])[0] for name in ("numpy", "onnxruntime"))
    assert imported.index(numpy) < imported.index(onnxruntime)


@pytest.mark.requirement("CL-14")
def test_takeover_opens_the_store_before_importing_the_sdk() -> None:
    modules = "commonbrain.mcp.shared_server, commonbrain.runtime.bootstrap"
    [imported] = imported_by(f"import sys, {modules}; print('imported:', *sys.modules)")
    assert among(imported, ("mcp", "mcp_types", "starlette", "uvicorn", "httpx2")) == []


@pytest.mark.requirement("PF-14")
@pytest.mark.parametrize(
    "module",
    ["commonbrain.cli.command_client", "commonbrain.hooks.runner", "commonbrain.mcp.bridge"],
)
def test_client_of_a_running_server_imports_little(module: str) -> None:
    heavy = (
        *("typer", "pydantic", "sqlalchemy", "numpy", "mcp", "psutil", "commonbrain.client"),
        *("argparse", "hashlib", "platformdirs", "tempfile"),
    )

    [imported] = imported_by(f"import sys, {module}; print('imported:', *sys.modules)")

    assert among(imported, heavy) == []
