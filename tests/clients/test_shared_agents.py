"""Foreign agents that `brain connect --url` connects to the shared server call it.

Their identity is read from the answer that their models are shown; the key is in
their environment, or in a file that a bridge reads.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clients.agents import AGENTS, run
from tests.clients.claude_code import ClaudeCode, call, shown
from tests.clients.conftest import CLAUDE_CODE
from tests.clients.processes import Place
from tests.clients.shared import WAYS, Credential, SharedServer, shared_server

pytestmark = pytest.mark.clients

CONNECT_S_MAX = 30


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    with shared_server(tmp_path_factory.mktemp("shared") / "brain.db") as server:
        yield server


@pytest.fixture(params=WAYS)
def credential(request: pytest.FixtureRequest, shared: SharedServer) -> Credential:
    return shared.credentials[request.param]


@pytest.fixture(params=["http", "bridge"])
def connected_to(
    request: pytest.FixtureRequest,
    place: Place,
    *,
    server_command: Path,
    shared: SharedServer,
    credential: Credential,
) -> Callable[[str], Place]:
    """Tells a client of the server, as its users do; gives where it finds the credential."""
    key = place.home / "key"
    key.write_text(credential.secret)
    keyed = ("--key-file", key) if request.param == "bridge" else ()
    known = {} if keyed else {"COMMONBRAIN_KEY": credential.secret}

    def connect(client: str) -> Place:
        command = (server_command, "connect", client, "--url", shared.url, *keyed)
        ended = place.run(command, timeout_s=CONNECT_S_MAX, **known)
        assert ended.status == 0, ended
        assert credential.secret not in ended.out + ended.err
        return replace(place, environment={**place.environment, **known})

    return connect


def test_claude_code_acts_as_the_agent_of_its_credential(
    modules: Path, connected_to: Callable[[str], Place], *, credential: Credential
) -> None:
    program = modules / CLAUDE_CODE / "claude"
    claude_code = ClaudeCode(place=connected_to("claude-code"), program=program)

    assert credential.is_named_in(shown(claude_code.converse(call("status"))))


@pytest.mark.requirement("CL-01", "DO-20")
@pytest.mark.parametrize("client", AGENTS)
def test_connected_client_acts_as_the_agent_of_its_credential(
    client: str,
    modules: Path,
    node: Path,
    *,
    connected_to: Callable[[str], Place],
    credential: Credential,
) -> None:
    if not (modules / AGENTS[client].package).exists():
        pytest.skip(f"{client} is fetched for Linux on x86-64 only")

    answer = run(AGENTS[client], connected_to(client), modules=modules, node=node, calls="status")

    assert credential.is_named_in(answer), answer
