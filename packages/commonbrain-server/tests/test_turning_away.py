"""A refused request leaves a line in the audit, and nothing else."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import httpx2
import pytest
from commonbrain_server.guard import guard_of
from commonbrain_server.http.app import make_app
from commonbrain_server.http.authentication import ProtectedResource
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from commonbrain.client import Brain
from commonbrain.model.scope import Admission, Policy, Role
from commonbrain.testing.builders import NOON
from tests.guarded import a_guarded_brain
from tests.serving import CALLERS, KeyRing, calling

HASTY = Admission(credential="00000001", role=Role.WRITER, policy=Policy(key_calls_per_minute=2))


@pytest.fixture
def brain(path: Path) -> Brain:
    return a_guarded_brain(path)


@pytest.fixture
def hasty(brain: Brain) -> Iterator[TestClient]:
    """A client that may call twice a minute."""
    ring = KeyRing({"key-of-ann": replace(CALLERS["key-of-ann"], admission=HASTY)})
    app = make_app(
        brain, ring, resource=ProtectedResource(url="http://127.0.0.1:8377", issuer=None)
    )
    with calling(app) as client:
        yield client


def audited(brain: Brain) -> list[tuple[str, str | None, str | None, int]]:
    guard_of(brain.services).refusals.close()
    with brain.services.store.snapshot("default") as tx:
        noted = tx.credentials.audit_entries(limit=100)
    return [(one.action, one.code, one.agent, one.count) for one in reversed(noted)]


@pytest.mark.requirement("ST-14")
@pytest.mark.parametrize("what", ["tenant", "agent"])
def test_claim_of_another_tenant_or_agent_is_refused_and_audited(
    brain: Brain, hasty: TestClient, what: str
) -> None:
    reply = hasty.post("/v1/recall", headers={f"Commonbrain-{what}": "zoe"})

    assert reply.status_code == 403
    assert reply.json()["code"] == f"{what}_mismatch"
    assert audited(brain) == [("admit", f"{what}_mismatch", "ann", 1)]


@pytest.mark.requirement("ST-08")
def test_rate_limited_calls_create_no_session_and_no_event(brain: Brain, hasty: TestClient) -> None:
    def call(number: int) -> httpx2.Response:
        return hasty.post("/v1/recall", headers={"Commonbrain-Session": f"flood {number}"})

    assert [call(number).status_code for number in range(2)] == [200, 200]
    refused = [call(number) for number in range(2, 30)]

    assert {one.status_code for one in refused} == {429}
    assert {one.json()["code"] for one in refused} == {"rate_limited"}
    assert all(int(one.headers["Retry-After"]) > 0 for one in refused)
    brain.services.journal.flush()
    with brain.services.store.snapshot("default") as tx:
        stored = [one for one in range(30) if tx.sessions.get("ann", f"flood {one}")]
        events = tx.events.latest(limit=100, since=NOON - timedelta(days=1))
    assert stored == [0, 1]
    assert len(events) == 2
    turned_away = ("admit", "rate_limited", "ann")
    # Both lines are of one moment of this clock.
    assert sorted(audited(brain)) == [(*turned_away, 1), (*turned_away, 27)]


class Listened(Exception):
    """A body was read that is not to be read."""


@pytest.mark.requirement("ST-02")
async def test_body_of_a_request_without_a_valid_credential_is_never_read(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    app = make_app(brain, KeyRing())
    wrong = [(b"authorization", b"Bearer wrong")]
    for path in ("/v1/remember", "/v0/memory/retain", "/mcp", "/v1/nothing"):
        for headers in ([], wrong):
            with subtests.test(path=path, headers=headers):
                start = await answered(app, path, headers=headers)

                assert start["status"] == 401
                assert (b"www-authenticate", b"Bearer") in [
                    (name, value.split()[0]) for name, value in start["headers"]
                ]


async def test_body_is_not_read_for_paths_and_methods_that_take_none(brain: Brain) -> None:
    app = make_app(brain, KeyRing())
    assert (await answered(app, "/healthz"))["status"] == 405
    assert (await answered(app, "/nowhere"))["status"] == 404
    assert (await answered(app, "/v1/recall", method="PUT"))["status"] == 405


async def answered(
    app: ASGIApp,
    path: str,
    *,
    method: str = "POST",
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> dict[str, Any]:
    """Ask the application, and fail when it listens to the body; give how the answer starts."""
    messages: list[dict[str, Any]] = []

    async def receive() -> NoReturn:
        raise Listened

    async def send(message: Any) -> None:  # noqa: ANN401 whatever the protocol has
        messages.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8377),
    }
    await app(scope, receive, send)
    return messages[0]
