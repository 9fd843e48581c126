"""Foreign clients are let into the shared server, each with the identity of its credential.

They come over HTTP with a header, or over the bridge, with a key or with a token; what the tool
`status` tells them of themselves is what these tests read.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.inspector import ERAS, Inspector
from tests.clients.processes import Ended, Place
from tests.clients.setup import FOLDER, python_of
from tests.clients.shared import WAYS, Credential, SharedServer, shared_server

pytestmark = pytest.mark.clients

PROGRAMS = FOLDER / "programs"
PROGRAM_S_MAX = 60
MCPORTER = "mcporter/dist/cli.js"
WITHIN_PYTHON = {
    "fastmcp": "fastmcp_client.py",
    "langchain": "langchain_adapters.py",
    "openai-agents": "openai_agents.py",
    "pydantic-ai": "pydantic_agent.py",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    with shared_server(tmp_path_factory.mktemp("shared") / "brain.db") as server:
        yield server


@pytest.fixture(params=WAYS)
def credential(request: pytest.FixtureRequest, shared: SharedServer) -> Credential:
    return shared.credentials[request.param]


@pytest.fixture
def run_client(place: Place, shared: SharedServer, credential: Credential) -> Callable[..., Ended]:
    """Runs a program that finds the server and the credential in its environment."""

    def run(*command: str | Path) -> Ended:
        known = {"SHARED_URL": shared.mcp, "COMMONBRAIN_KEY": credential.secret}
        ended = place.run(command, timeout_s=PROGRAM_S_MAX, **known)
        assert ended.status == 0, ended
        return ended

    return run


@pytest.mark.requirement("CL-05")
@pytest.mark.parametrize("client", WITHIN_PYTHON)
def test_python_libraries_act_as_the_agent_of_their_credential(
    client: str, credential: Credential, run_client: Callable[..., Ended]
) -> None:
    python = python_of(client)
    if python is None:
        pytest.skip(f"{client} is not installed: run `just clients`")

    assert credential.is_named_in(run_client(python, PROGRAMS / WITHIN_PYTHON[client]).out)


@pytest.mark.requirement("CL-01")
@pytest.mark.parametrize("version", ["sdk_v1", "sdk_v2"])
def test_typescript_libraries_act_as_the_agent_of_their_credential(
    version: str,
    modules: Path,
    node: Path,
    *,
    credential: Credential,
    run_client: Callable[..., Ended],
) -> None:
    assert modules.is_dir()

    assert credential.is_named_in(run_client(node, PROGRAMS / f"{version}.mjs").out)


def test_mcporter_acts_as_the_agent_of_its_credential(
    modules: Path,
    node: Path,
    *,
    place: Place,
    credential: Credential,
    run_client: Callable[..., Ended],
) -> None:
    (place.home / "mcporter.json").write_text(
        '{"mcpServers": {"commonbrain": {"baseUrl": "${SHARED_URL}", "headers": '
        '{"Authorization": "Bearer ${COMMONBRAIN_KEY}"}}}, "imports": []}'
    )
    words = ("--config", place.home / "mcporter.json", "call", "commonbrain.status")

    assert credential.is_named_in(run_client(node, modules / MCPORTER, *words).out)


@pytest.mark.parametrize("era", ERAS)
def test_inspector_acts_as_the_agent_of_its_credential_in_both_protocol_eras(
    era: str, modules: Path, inspector: Inspector, *, shared: SharedServer, credential: Credential
) -> None:
    bearer = f"Authorization: Bearer {credential.secret}"
    reach = ("--server-url", shared.mcp, "--transport", "http", "--header", bearer)
    direct = Inspector(place=inspector.place, program=inspector.program, reach=reach, era=era)

    assert modules.is_dir()
    assert credential.is_named_in(direct.call("status", {}))


@pytest.mark.parametrize("era", ERAS)
def test_inspector_acts_as_the_agent_of_its_credential_through_the_bridge(
    era: str,
    inspector: Inspector,
    server_command: Path,
    *,
    tmp_path: Path,
    shared: SharedServer,
    credential: Credential,
) -> None:
    key = tmp_path / "key"
    key.write_text(credential.secret)
    bridge = (server_command, "mcp", "--url", shared.url, "--key-file", key)
    bridged = Inspector(place=inspector.place, program=inspector.program, server=bridge, era=era)

    assert credential.is_named_in(bridged.call("status", {}))
