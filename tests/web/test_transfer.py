"""Import, export and backup on the page: uploads within bounds, reports, downloads."""

import hashlib
import io
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import httpx2
import pytest
from anyio.from_thread import start_blocking_portal
from starlette.requests import Request
from starlette.testclient import TestClient
from starlette.types import Message, Receive

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import UPLOAD_BYTES_MAX
from commonbrain.model.scope import Caller, Role
from commonbrain.testing.builders import a_brain
from commonbrain.web.app import make_page
from commonbrain.web.backups import Backups, BackupState
from commonbrain.web.logins import LinkLogins
from commonbrain.web.transfers import FormUploads
from tests.distributions import add_distribution
from tests.faults.mounts import small_disk
from tests.processes import TIMEOUT_S
from tests.web.visitors import HOST, Markup, Visitor, as_role, visitor
from tests.working import a_worker

NOTES = b"""# Shop

## Ports

The staging port of the shop is 8080 for every service.

## Access

The password of the shop's database is password=hunter2hunter2 on every machine.
"""


@pytest.fixture
def brain(path: Path) -> Iterator[Brain]:
    with a_brain(path) as brain:
        yield brain


@pytest.fixture
def ann(brain: Brain) -> Visitor:
    return visitor(brain)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, so that a test sees what is left there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def send(
    visitor: Visitor,
    content: bytes,
    *,
    name: str = "notes.md",
    token: str | None = None,
    **fields: str,
) -> httpx2.Response:
    """Send a file by the form of the screen."""
    token = visitor.csrf() if token is None else token
    return visitor.client.post(
        f"/transfer/import?csrf={token}",
        data={"format": "markdown", **fields},
        files={"file": (name, content)},
    )


def jobs(visitor: Visitor) -> list[dict[str, Any]]:
    return visitor.json("/transfer").json()["jobs"]


def zipped(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"notes/{name}.md", content)
    return packed.getvalue()


def staged(brain: Brain) -> list[Path]:
    return list(Path(brain.services.blobs().location).iterdir())


@pytest.mark.requirement("MG-10")
def test_preview_then_import_reports_each_outcome(brain: Brain, ann: Visitor) -> None:
    mixed = zipped(MEMORY=NOTES, broken=b"# Tea\n\n\xff\xfe\n")
    sent = send(ann, mixed, name="notes.zip", project="shop", dry_run="true")
    assert (sent.status_code, sent.headers["location"]) == (303, "/transfer")
    a_worker(brain).sweep()
    [preview] = jobs(ann)
    assert preview["is_preview"]
    assert brain.status().memories == 0
    assert "Import it" in Markup(ann.get("/transfer").text).buttons

    assert ann.post("/transfer/previewed", {"id": preview["job"]["id"]}).status_code == 303
    a_worker(brain).sweep()
    assert "Import it" not in Markup(ann.get("/transfer").text).buttons
    [done] = [one for one in jobs(ann) if not one["is_preview"]]
    report = done["report"]
    assert (report["stored"], report["rejected"], report["unreadable"]) == (1, 1, 1)
    assert report["read"] == 3
    secret = next(one for one in report["refusals"] if "secret" in one["reason"])
    assert "placeholder" in secret["hint"]
    assert any("UTF-8" in one["reason"] for one in report["refusals"])
    assert done["unlisted"] == 0
    assert "8080" in (brain.recall("staging port of the shop").items[0].body or "")
    text = ann.get("/transfer").text
    assert "Correct in the source what was refused" in text
    assert "hunter2" not in text


def test_repeated_import_reports_existing_memories(brain: Brain, ann: Visitor) -> None:
    for _ in range(2):
        send(ann, b"## Ports\n\nThe staging port of the shop is 8080 for every service.\n")
        a_worker(brain).sweep()
    reports = [one["report"] for one in jobs(ann)]
    assert sorted((one["stored"], one["exists"]) for one in reports) == [(0, 1), (1, 0)]


def test_damaged_file_is_refused_with_the_next_step(brain: Brain, ann: Visitor) -> None:
    send(ann, b"PK this is no zip", name="notes.zip")
    send(ann, b"no archive", name="everything.jsonl", format="commonbrain")
    a_worker(brain).sweep()
    for one in jobs(ann):
        assert one["job"]["state"] == "dead"
        assert one["job"]["reason"]
        assert [step["text"] for step in one["steps"]]
    assert brain.status().memories == 0


def test_unknown_format_and_missing_file_stage_nothing(brain: Brain, ann: Visitor) -> None:
    assert send(ann, NOTES, format="word").status_code == 422
    assert send(ann, b"", name="").status_code == 422
    assert jobs(ann) == []
    assert staged(brain) == []


def test_upload_without_the_sessions_token_is_refused(
    brain: Brain, ann: Visitor, temporary: Path
) -> None:
    other = visitor(brain)
    for token in ("", "0" * 64, other.csrf()):
        assert send(ann, NOTES, token=token).status_code == 403
    assert jobs(ann) == []
    assert staged(brain) == []
    assert list(temporary.iterdir()) == []


def test_upload_without_a_session_is_refused(brain: Brain, ann: Visitor) -> None:
    token = ann.csrf()
    ann.client.cookies.clear()
    assert send(ann, NOTES, token=token).status_code == 401
    assert staged(brain) == []


def test_only_uploads_may_have_a_large_body(brain: Brain, ann: Visitor) -> None:
    large = b"x" * (1024 * 1024)
    assert send(ann, large, name="large.md").status_code == 303
    assert ann.post("/transfer/previewed", {"id": large.decode()}).status_code == 413
    headers = {"content-length": str(2 * UPLOAD_BYTES_MAX)}
    too_large = ann.client.post("/transfer/import", content=b"", headers=headers)
    assert too_large.status_code == 413
    assert "parts" in too_large.text
    assert len(jobs(ann)) == 1
    assert staged(brain)


@dataclass
class Aborted:
    """A browser that goes away in the middle of its upload."""

    waiting: list[Message]
    sent: list[Message] = field(default_factory=list[Message])

    async def receive(self) -> Message:
        return self.waiting.pop(0) if self.waiting else {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)


def test_aborted_upload_leaves_no_files_or_jobs(
    brain: Brain, ann: Visitor, temporary: Path
) -> None:
    cookie = f"commonbrain={ann.client.cookies['commonbrain']}"
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n'
    body = head + b"y" * (2 * 1024 * 1024)
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/transfer/import",
        "query_string": f"csrf={ann.csrf()}".encode(),
        "headers": [
            (b"host", HOST.encode()),
            (b"cookie", cookie.encode()),
            (b"content-type", b"multipart/form-data; boundary=x"),
            (b"content-length", str(2 * len(body)).encode()),
        ],
        "client": (HOST, 1),
    }
    browser = Aborted([{"type": "http.request", "body": body, "more_body": True}])
    with start_blocking_portal() as portal:
        portal.call(ann.client.app, scope, browser.receive, browser.send)
    assert browser.sent[0]["status"] == 400
    assert list(temporary.iterdir()) == []
    assert staged(brain) == []
    assert jobs(ann) == []


def a_request(receive: Receive) -> Request:
    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)


def test_upload_that_takes_too_long_is_abandoned(temporary: Path) -> None:
    async def silence() -> Message:
        await anyio.Event().wait()
        raise AssertionError

    async def receive() -> None:
        uploads = FormUploads(lambda _: nullcontext(), seconds_max=0)
        async with uploads.receive(a_request(silence), Caller(agent="ann")):
            raise AssertionError

    with (
        pytest.raises(UnavailableError, match="did not arrive"),
        start_blocking_portal() as portal,
    ):
        portal.call(receive)
    assert list(temporary.iterdir()) == []


def test_upload_to_a_full_disk_is_reported(
    ann: Visitor, brain: Brain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", size="1m") as disk, monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(disk))
        response = send(ann, b"z" * (3 * 1024 * 1024), name="large.md")
        assert list(disk.iterdir()) == []
    assert response.status_code == 503
    assert "The disk for temporary files is full" in response.text
    assert staged(brain) == []


def test_temporary_files_of_an_upload_are_removed(ann: Visitor, temporary: Path) -> None:
    assert send(ann, b"z" * (3 * 1024 * 1024), name="large.md").status_code == 303
    assert list(temporary.iterdir()) == []


def test_format_of_a_missing_package_is_named_with_the_extra_that_installs_it(
    ann: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_distribution(tmp_path / "hidden", "commonbrain-import")
    monkeypatch.syspath_prepend(tmp_path / "hidden")  # pyright: ignore[reportUnknownMemberType]
    text = ann.get("/transfer").text
    assert "pip install 'commonbrain[import]'" in text
    assert "mem0" in text
    refused = send(ann, b"[]", name="export.json", format="mem0")
    assert refused.status_code == 422
    assert "extra_missing" in refused.text


def test_reader_cannot_open_the_transfer_screen_or_send_a_file(brain: Brain) -> None:
    rita = visitor(brain, as_role(brain, role=Role.READER, agent="rita"))
    assert rita.get("/transfer").status_code == 403
    assert send(rita, NOTES).status_code == 403
    assert staged(brain) == []
    assert "/transfer" not in Markup(rita.get("/").text).links


def test_writer_sees_own_imports_and_no_admin_actions(brain: Brain, ann: Visitor) -> None:
    send(ann, NOTES)
    will = visitor(brain, as_role(brain, role=Role.WRITER, agent="will"))
    assert jobs(will) == []
    send(will, NOTES, name="his.md")
    [his] = jobs(will)
    assert his["name"] == "his.md"
    text = will.get("/transfer").text
    assert not {"Export everything", "Back up"} & set(Markup(text).buttons)
    assert "Commonbrain export" not in text
    assert send(will, NOTES, format="commonbrain").status_code == 403
    assert will.post("/transfer/export", {}).status_code == 403
    assert will.post("/transfer/backup", {"op": "start"}).status_code in {403, 404}
    strangers = next(one for one in jobs(ann) if one["name"] == "notes.md")
    assert will.post("/transfer/previewed", {"id": strangers["job"]["id"]}).status_code == 404


@pytest.mark.requirement("MG-10")
def test_exported_archive_is_downloaded_and_imported_into_another_store(
    brain: Brain, ann: Visitor, tmp_path: Path
) -> None:
    brain.remember("The staging port of the shop is 8080.")
    ann.post("/transfer/export", {})
    a_worker(brain).sweep()
    [export] = jobs(ann)
    fetched = ann.get(export["archive"])
    assert fetched.headers["content-disposition"].startswith("attachment")
    assert len(fetched.content) == export["job"]["result"]["bytes"]
    will = visitor(brain, as_role(brain, role=Role.WRITER, agent="will"))
    assert will.get(export["archive"]).status_code == 403

    with a_brain(tmp_path / "other.db") as other:
        there = visitor(other)
        send(there, fetched.content, name="everything.jsonl", format="commonbrain")
        a_worker(other).sweep()
        [merged] = jobs(there)
        assert merged["report"]["stored"] == merged["report"]["read"]
        assert other.recall("staging port").items


def test_missing_archive_is_not_found(ann: Visitor) -> None:
    assert ann.get("/transfer/archive/job_0000000000000").status_code == 404


def test_running_import_is_cancelled(brain: Brain, ann: Visitor) -> None:
    send(ann, NOTES)
    [waiting] = jobs(ann)
    assert ann.json("/transfer").json()["is_working"]
    fields = {"op": "cancel", "id": waiting["job"]["id"], "next": "/transfer"}
    assert ann.post("/do/job", fields).status_code == 303
    a_worker(brain).sweep()
    assert [one["job"]["state"] for one in jobs(ann)] == ["cancelled"]
    assert not ann.json("/transfer").json()["is_working"]
    assert brain.status().memories == 0


def test_screen_reloads_only_while_a_job_is_in_progress(brain: Brain, ann: Visitor) -> None:
    def reloads() -> set[bool]:
        text = ann.get("/transfer").text
        return {"every 1s" in text, 'http-equiv="refresh"' in text}

    assert reloads() == {False}
    send(ann, NOTES)
    assert reloads() == {True}
    a_worker(brain).sweep()
    assert reloads() == {False}


def wait_while(backups: Backups, state: BackupState) -> None:
    until = monotonic() + TIMEOUT_S
    while backups.last is not None and backups.last.state is state:
        assert monotonic() < until


@dataclass
class Backing:
    """A visitor of a page that makes backups."""

    visitor: Visitor
    backups: Backups

    def finished(self) -> dict[str, Any]:
        """Wait for the end of the backup and return it."""
        wait_while(self.backups, BackupState.RUNNING)
        return self.visitor.json("/transfer").json()["backup"]["last"]


def a_backing(brain: Brain, backups: Backups, caller: Caller | None = None) -> Backing:
    sessions = LinkLogins(caller or brain.caller, brain.services.clock)
    page = make_page(brain, sessions, threads=ThreadLimiter(2), backups=backups)
    client = TestClient(page, base_url=f"http://{HOST}", follow_redirects=False)
    client.post("/open", data={"token": sessions.make_link()})
    return Backing(visitor=Visitor(client=client, brain=brain), backups=backups)


@pytest.fixture
def backing(brain: Brain) -> Iterator[Backing]:
    backups = Backups.of(brain)
    assert backups is not None
    yield a_backing(brain, backups)
    backups.close()


@pytest.mark.requirement("MG-10")
def test_backup_is_verified_and_written_into_a_folder(
    brain: Brain, backing: Backing, tmp_path: Path
) -> None:
    brain.remember("The staging port of the shop is 8080.")
    ann, folder = backing.visitor, tmp_path / "my backups"
    assert ann.post("/transfer/backup", {"folder": str(folder)}).status_code == 422
    assert ann.post("/transfer/backup", {"folder": "backups"}).status_code == 422
    folder.mkdir()
    fields = {"op": "start", "folder": str(folder)}
    assert ann.post("/transfer/backup", fields).status_code == 303
    ended = backing.finished()
    [file] = folder.iterdir()
    done = ended["done"]
    assert (ended["state"], done["memories"], done["path"]) == ("written", 1, str(file))
    assert hashlib.sha256(file.read_bytes()).hexdigest() == done["digest"]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM memories").fetchone() == (1,)
    assert f"--digest {done['digest']}" in ann.get("/transfer").text


def test_backup_goes_into_the_folder_of_the_store_by_default(backing: Backing, path: Path) -> None:
    assert f'name="folder" required maxlength="4096" value="{path.parent}"' in (
        backing.visitor.get("/transfer").text
    )


def test_backup_needs_an_admin_and_the_session_token(brain: Brain, backing: Backing) -> None:
    will = a_backing(brain, backing.backups, as_role(brain, role=Role.WRITER, agent="will"))
    assert will.visitor.post("/transfer/backup", {"op": "start"}).status_code == 403
    assert will.visitor.json("/transfer").json()["backup"] is None
    forged = {"op": "start", "csrf": "0" * 64}
    assert backing.visitor.post("/transfer/backup", forged).status_code == 403
    assert backing.visitor.client.get("/transfer/backup").status_code == 405
    assert backing.backups.last is None


def test_page_without_backups_names_the_alternative(ann: Visitor) -> None:
    text = ann.get("/transfer").text
    assert "pg_dump" in text
    assert "Back up" not in Markup(text).buttons
    assert ann.post("/transfer/backup", {"op": "start"}).status_code == 404
