"""Generates the operations and models of a wheel from the OpenAPI description of the server."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

UNUSED = ("client.py", "errors.py")
"""Modules of the generator that the client does without."""
GENERATE_TIMEOUT_S = 120
OTHER_VERSIONS = "/v0/"


class CodeBuildHook(BuildHookInterface[Any]):
    """Puts the generated code into the package's source folder, for every kind of wheel.

    It is ignored by git, and stays there because an editable install reads it there. Every build
    generates it: what lies there is never trusted.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generate the code, and replace what is there if it differs."""
        root = Path(self.root)
        folder = root / "src" / "commonbrain_client" / "generated"
        _generate(root, folder)
        build_data["artifacts"].append(f"/{folder.relative_to(root).as_posix()}/**/*.py")


def _generate(root: Path, folder: Path) -> None:
    described = json.loads((root / "openapi.json").read_text("utf-8"))
    described["paths"] = {
        path: routes
        for path, routes in described["paths"].items()
        if not path.startswith(OTHER_VERSIONS)
    }
    _default_to_constants(described["components"]["schemas"])
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "openapi.json").write_text(json.dumps(described), "utf-8")
        _run_generator(work, templates=root / "templates")
        made = work / "generated"
        (made / "client.py").rename(made / "operations.py")
        (made / "repeatable.py").write_text(_repeatable(described), "utf-8")
        for unused in UNUSED:
            (made / unused).unlink(missing_ok=True)
        # Times are kept where nothing changes, so that uv does not build again because of them.
        if _modules(made) != _modules(folder):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(made, folder)


def _modules(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.py")}


def _default_to_constants(schema: object) -> None:
    """Let a caller leave out what has only one value, such as the verb of a request."""
    if isinstance(schema, dict):
        if "const" in schema:
            schema["default"] = schema["const"]
        for part in schema.values():
            _default_to_constants(part)
    elif isinstance(schema, list):
        for part in schema:
            _default_to_constants(part)


def _repeatable(described: dict[str, Any]) -> str:
    """Return a module that lists which requests may run twice."""
    rows = {
        route["operationId"]: route.get("x-repeatable", True)
        for routes in described["paths"].values()
        for route in routes.values()
    }
    return (
        '"""Which requests may run twice: all, none, or those with these values of `op`."""\n\n'
        f"REPEATABLE: dict[str, bool | list[str]] = {rows!r}\n"
    )


def _run_generator(work: Path, *, templates: Path) -> None:
    command = [
        *(sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning"),
        *("--path", "openapi.json", "--meta", "none"),
        *("--custom-template-path", str(templates), "--output-path", "generated"),
    ]
    # The generator formats its code with the ruff that was installed with it.
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", "")))
    done = subprocess.run(
        command,
        cwd=work,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=GENERATE_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"The client could not be generated.\n{done.stdout}{done.stderr}")
