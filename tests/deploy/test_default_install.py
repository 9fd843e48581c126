"""An install without extras remembers and recalls."""

import os
import subprocess
import sys
from pathlib import Path

OF_EXTRAS = (
    *("argon2", "fastapi", "huey", "lightgbm", "limits", "obstore", "opentelemetry", "pgvector"),
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


def test_remember_and_recall_need_no_extra(tmp_path: Path) -> None:
    brain(tmp_path, "remember", "The staging database is rebuilt every night")
    assert "rebuilt every night" in brain(tmp_path, "recall", "when is staging reset?")


def test_no_library_writes_into_the_home(tmp_path: Path) -> None:
    brain(tmp_path, "remember", "The staging database is rebuilt every night")
    written = {path.parent.name for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {"commonbrain"}


def test_file_is_staged_for_a_job_without_an_extra(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Staging\n\nThe staging port is 8080 for every service.\n")
    brain(tmp_path, "import", "markdown", str(tmp_path / "notes.md"), "--background")
    assert "import | queued" in brain(tmp_path, "job", "list")
