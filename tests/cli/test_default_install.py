"""An install without extras remembers and recalls."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import commonbrain
from commonbrain.api.operations import OPERATIONS
from commonbrain.cli.groups import PACKAGED

OF_EXTRAS = (
    *("argon2", "fastapi", "lightgbm", "limits", "obstore", "opentelemetry", "pgvector"),
    *("prometheus_client", "psycopg", "jwt", "redis", "scipy", "uvicorn"),
)
PROGRAM = f"""
import sys
sys.modules.update(dict.fromkeys({OF_EXTRAS!r}))
from commonbrain.__main__ import main
main()
"""


def brain(home: Path, *arguments: str) -> str:
    """Run the command in a process that cannot import what only extras bring."""
    environment = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home / "data")}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a user who has remembered something."""
    home = tmp_path_factory.mktemp("home")
    brain(home, "remember", "The staging database is rebuilt every night")
    return home


def test_remember_and_recall_need_no_extra(home: Path) -> None:
    assert "rebuilt every night" in brain(home, "recall", "when is staging reset?")


def test_only_commonbrain_writes_files_into_the_home_folder(home: Path) -> None:
    written = {path.parent.name for path in home.rglob("*") if path.is_file()}
    assert written == {"commonbrain"}


def test_background_import_of_a_file_is_queued_without_an_extra(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Staging\n\nThe staging port is 8080 for every service.\n")
    brain(tmp_path, "import", "markdown", str(tmp_path / "notes.md"), "--background")
    assert "import | queued" in brain(tmp_path, "job", "list")


OF_OTHERS = ("adapters", "causes", "client", "evals", "import", "learn", "server")
"""Packages that only extras bring."""


@pytest.fixture(scope="module")
def core_alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two folders to import from: what is installed without these packages, and the core."""
    folder = tmp_path_factory.mktemp("installed")
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not path.name.startswith(tuple(f"commonbrain_{name}" for name in OF_OTHERS)):
            (folder / path.name).symlink_to(path)
    return str(folder), str(Path(commonbrain.__file__).parents[1])


def brain_alone(
    core_alone: tuple[str, str], home: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the command where only the core is installed."""
    path = f"import sys; sys.path += {core_alone!r}"
    program = f"{path}; from commonbrain.__main__ import main; main()"
    return subprocess.run(
        [sys.executable, "-S", "-c", program, *arguments],
        env={**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home / "data")},
        capture_output=True,
        text=True,
        check=False,
    )


EXTRAS = dict(PACKAGED) | {
    f"{group} list": row.extra
    for row in OPERATIONS
    if row.extra is not None
    for group in {command.split()[0] for command in row.commands}
}
"""By command of a package, one of each group, the extra that installs it."""


@pytest.mark.parametrize("command", sorted(EXTRAS))
def test_command_of_a_package_that_is_missing_says_what_to_install(
    core_alone: tuple[str, str], home: Path, command: str
) -> None:
    ended = brain_alone(core_alone, home, *command.split(), "--port", "8377")

    assert ended.returncode != 0
    assert f"pip install 'commonbrain[{EXTRAS[command]}]'" in ended.stderr


def test_worker_of_one_person_needs_no_server(core_alone: tuple[str, str], home: Path) -> None:
    ended = brain_alone(core_alone, home, "worker", "--once")

    assert ended.returncode == 0, ended.stderr


def test_text_is_remembered_where_nothing_extracts_its_causes(
    core_alone: tuple[str, str], home: Path
) -> None:
    text = "The release is late because the runner ran out of disk."
    remembered = brain_alone(
        core_alone, home, "remember", text, "--kind", "event", "--extract-causes"
    )
    sent = brain_alone(core_alone, home, "message", "send", text, "--to", "bo")

    assert (remembered.returncode, sent.returncode) == (0, 0), remembered.stderr + sent.stderr
    [warning] = [line for line in remembered.stdout.splitlines() if "causes" in line]
    assert "pip install 'commonbrain[causes]'" in warning
    assert "commonbrain[causes]" not in sent.stdout
