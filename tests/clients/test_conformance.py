"""The protocol's own conformance suite against the shared server, for both eras.

The suite calls tools, resources and prompts by names of its own (`test_simple_text`,
`test://static-text`), and asks for capabilities that this server does not offer. Those scenarios
are expected to fail, by name and with the reason; another scenario that fails, and one that
does not fail though it is listed, fails the test.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from commonbrain_server.http.app import make_app
from commonbrain_server.security.logins import make_local_access

from commonbrain.testing.builders import a_brain
from tests.clients.example_server import server
from tests.clients.processes import Place
from tests.serving import free_port, listening, started

pytestmark = pytest.mark.clients

SUITE: Final = "@modelcontextprotocol/conformance/dist/index.js"
SUITE_S_MAX: Final = 300
NAMES: Final = """
    tools-call-simple-text tools-call-image tools-call-audio tools-call-embedded-resource
    tools-call-mixed-content tools-call-error
    resources-read-text resources-read-binary resources-templates-read
    prompts-get-simple prompts-get-with-args prompts-get-embedded-resource prompts-get-with-image
"""
"""They call what only the suite's own example server has."""
TEXT_PRESERVING_ACTIONS: Final = "tools-call-with-progress"
"""Nothing is sent but the answer, which is plain JSON."""
EXPECTED: Final[Mapping[str, Mapping[str, str]]] = {
    "2025-11-25": {
        "names": NAMES,
        "only ours": "completion-complete",
        "nothing beside the answer": f"{TEXT_PRESERVING_ACTIONS} tools-call-with-logging",
        "capabilities": "logging-set-level resources-subscribe resources-unsubscribe",
        "tools that ask the client": "tools-call-sampling tools-call-elicitation"
        " elicitation-sep1034-defaults elicitation-sep1330-enums",
    },
    "2026-07-28": {
        "names": f"{NAMES} input-required-result-ignore-extra-params",
        "only ours": "completion-complete input-required-result-validate-input",
        "nothing beside the answer": f"{TEXT_PRESERVING_ACTIONS} server-stateless",
        "tools that ask the client": """
            input-required-result-basic-elicitation input-required-result-basic-sampling
            input-required-result-basic-list-roots input-required-result-request-state
            input-required-result-multiple-input-requests input-required-result-multi-round
            input-required-result-missing-input-response input-required-result-non-tool-request
            input-required-result-result-type input-required-result-tampered-state
            input-required-result-capability-check
        """,
    },
}
"""By requirement set and reason; what only our server has, the example fails."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with started(tmp_path_factory.mktemp("conformance") / "brain.db", port=port):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(scope="module")
def example_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    brain = a_brain(tmp_path_factory.mktemp("example") / "brain.db")
    carried = server._lowlevel_server  # type: ignore[reportPrivateUsage] # noqa: SLF001 there is no other way
    with listening(make_app(brain, make_local_access(brain.caller), served=carried)) as url:
        yield f"{url}/mcp"


@pytest.fixture
def conforms(modules: Path, node: Path, place: Place) -> Callable[[str, str, list[str]], None]:
    """Runs a requirement set against a URL; fails unless just what is named fails."""

    def run(url: str, revision: str, failing: list[str]) -> None:
        baseline = place.home / "expected.yml"
        # JSON is YAML.
        baseline.write_text(json.dumps({"server": failing}))
        options = ("server", "--url", url, "--requirements", revision)
        command = (node, modules / SUITE, *options, "--expected-failures", baseline)
        ended = place.run(command, timeout_s=SUITE_S_MAX)
        assert ended.status == 0, ended.out[-2000:]
        assert "Baseline check passed" in ended.out

    return run


def expected(revision: str, *, but: str) -> list[str]:
    groups = EXPECTED[revision].items()
    return [one for why, names in groups if why != but for one in names.split()]


@pytest.mark.requirement("EV-12")
@pytest.mark.parametrize("revision", EXPECTED)
def test_server_passes_the_mcp_conformance_suite(
    revision: str, url: str, conforms: Callable[[str, str, list[str]], None]
) -> None:
    conforms(url, revision, expected(revision, but="only ours"))


@pytest.mark.requirement("EV-12")
@pytest.mark.parametrize("revision", EXPECTED)
def test_endpoint_with_the_example_tools_passes_the_mcp_conformance_suite(
    revision: str, example_url: str, conforms: Callable[[str, str, list[str]], None]
) -> None:
    conforms(example_url, revision, expected(revision, but="names"))
