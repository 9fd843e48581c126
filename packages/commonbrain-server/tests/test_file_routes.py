"""Files over REST: sent to be imported by a job, and fetched of an export, by who may."""

import io
import json
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from commonbrain_server.http.app import BodyLimits
from starlette.testclient import TestClient
from test_rest import as_key, is_problem

from commonbrain.client import Brain
from commonbrain.jobs.registry import JOBS
from commonbrain.model.limits import ARCHIVE_RETENTION_H
from commonbrain.testing.builders import FakeClock, a_brain
from tests.serving import AS_FILE, an_app, calling
from tests.working import a_worker

NOTES = "## Kettle\n\nThe kettle stands in the blue cupboard of the kitchen.\n"


@pytest.fixture
def brain(path: Path, clock: FakeClock) -> Brain:
    return a_brain(path, clock=clock)


@pytest.fixture
def client(brain: Brain) -> Iterator[TestClient]:
    with calling(an_app(brain, limits=BodyLimits(upload_bytes_max=100_000))) as client:
        yield client


def sent(client: TestClient, body: bytes, **asked: str) -> dict[str, Any]:
    reply = client.post("/v1/import", params=asked, content=body, headers=AS_FILE)
    assert reply.status_code == 200, reply.text
    (job,) = reply.json()["jobs"]
    return job


def shown(client: TestClient, id_: str) -> dict[str, Any]:
    (job,) = client.post("/v1/job", json={"op": "show", "id": id_}).json()["jobs"]
    return job


def test_uploaded_file_is_imported_by_a_job_that_returns_the_report(
    brain: Brain, client: TestClient
) -> None:
    job = sent(client, NOTES.encode(), format="markdown", name="notes.md", project="tea")
    a_worker(brain).sweep()

    done = shown(client, job["id"])
    assert done["given"]["parcel"] == {"name": "notes.md", "size": len(NOTES)}
    assert (done["state"], done["result"]["stored"], done["result"]["refusals"]) == ("done", 1, [])
    items = client.post("/v1/recall", json={"query": "kettle in the cupboard"}).json()["items"]
    assert [one["project"] for one in items] == ["tea"]
    again = sent(client, NOTES.encode(), format="markdown", name="notes.md", project="tea")
    a_worker(brain).sweep()
    assert shown(client, again["id"])["result"]["exists"] == 1


def test_uploaded_zip_is_imported_without_writing_files_outside_its_folder(
    brain: Brain, client: TestClient, tmp_path: Path
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as held:
        held.writestr("deep/MEMORY.md", NOTES)
        held.writestr("../../out.md", "## Out\n\nThis one wants to lie outside of the folder.\n")
    job = sent(client, packed.getvalue(), format="markdown", name="notes.zip")
    broken = sent(client, b"no zip at all", format="markdown", name="notes.zip")
    a_worker(brain).sweep()

    assert shown(client, job["id"])["result"]["stored"] == 2
    assert not list(tmp_path.rglob("out.md"))
    dead = shown(client, broken["id"])
    assert (dead["state"], dead["error"]) == ("dead", "invalid")


def test_import_refuses_server_paths_large_files_unknown_formats_and_insufficient_roles(
    brain: Brain, client: TestClient
) -> None:
    for kind in ("import", "discard"):
        given = {"format": "markdown", "path": "/etc/passwd", "parcel": {"parts": ["0" * 64]}}
        request = {"op": "run", "kind": kind, "given": given}
        is_problem(client.post("/v1/job", json=request), 422, "invalid")

    def send(format_: str, content: bytes, **headers: str) -> httpx2.Response:
        query = {"format": format_}
        return client.post(
            "/v1/import", params=query, content=content, headers={**AS_FILE, **headers}
        )

    large = send("markdown", b"x" * 100_001)
    is_problem(large, 413, "limit_exceeded")
    unknown = send("odd", b"x")
    is_problem(unknown, 422, "invalid")
    whole = send("commonbrain", b"x")
    is_problem(whole, 403, "insufficient_role")
    reader = send("markdown", b"x", **as_key("key-of-rea"))
    is_problem(reader, 403, "insufficient_role")
    assert brain.jobs().jobs == ()


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "Text/Plain; charset=utf-8", "multipart/form-data; boundary=x"]
)
def test_import_refuses_bodies_that_a_foreign_page_can_send_without_a_preflight(
    brain: Brain, client: TestClient, kind: str
) -> None:
    headers = {"Content-Type": kind} if kind else {}
    query = {"format": "markdown", "name": "CLAUDE.md"}
    reply = client.post("/v1/import", params=query, content=b"- a note", headers=headers)
    is_problem(reply, 422, "content_type")
    assert "application/octet-stream" in reply.json()["hint"]
    assert brain.jobs().jobs == ()


def test_export_can_be_fetched_by_an_admin_of_its_tenant_for_one_day(
    brain: Brain, client: TestClient, clock: FakeClock
) -> None:
    brain.remember("The kettle is in the blue cupboard.", kind="fact")
    ada = as_key("key-of-ada")
    reply = client.post("/v1/job", json={"op": "run", "kind": "export"}, headers=ada).json()
    url = f"/v1/exports/{reply['jobs'][0]['id']}"
    is_problem(client.get(url, headers=ada), 404, "not_found")
    a_worker(brain).sweep()

    archive = client.get(url, headers=ada)
    assert archive.status_code == 200
    assert "blue cupboard" in archive.text
    assert json.loads(archive.text.splitlines()[0])
    is_problem(client.get(url), 403, "insufficient_role")
    is_problem(client.get(url, headers=as_key("key-of-zoe")), 404, "not_found")
    files = list(Path(brain.services.blobs().location).iterdir())
    clock.move(timedelta(hours=ARCHIVE_RETENTION_H))
    is_problem(client.get(url, headers=ada), 404, "not_found")
    # It is dropped a day after the latest moment at which the export could have ended.
    clock.move(JOBS["export"].limit)
    a_worker(brain, kinds=("discard",)).sweep()
    assert files
    assert not list(Path(brain.services.blobs().location).iterdir())
