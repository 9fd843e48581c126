"""An upload is bounded in what it unpacks to, its files and the pieces that its import reads."""

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from commonbrain_server.tenants import tenants_of
from starlette.testclient import TestClient
from test_file_routes import sent, shown
from test_rest import is_problem

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import LOCAL_IMPORT, SENT_IMPORTS_MAX, ImportLimits
from commonbrain.storage.uploads import UploadStore
from commonbrain.testing.builders import a_brain
from tests.serving import AS_FILE, an_app, calling
from tests.working import a_worker

LIMITS = ImportLimits(
    unpacked_bytes_max=40_000_000, files_max=20, packed_ratio_max=100, pieces_max=100
)


@pytest.fixture
def brain(path: Path) -> Brain:
    brain = a_brain(path)
    return Brain(replace(brain.services, import_limits=LIMITS), brain.caller)


@pytest.fixture
def client(brain: Brain) -> Iterator[TestClient]:
    with calling(an_app(brain)) as client:
        yield client


def a_zip(files: dict[str, bytes], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def notes(count: int, *, topic: str = "Kettle") -> bytes:
    sections = (f"## {topic} {n}\n\n{topic} number {n} is in the kitchen.\n" for n in range(count))
    return "\n".join(sections).encode()


def test_zip_over_a_limit_is_refused_on_upload_by_its_list_of_files(
    brain: Brain, client: TestClient, subtests: pytest.Subtests
) -> None:
    archives: list[tuple[dict[str, bytes], str]] = [
        ({f"{n}.md": b"- x\n" * 3_000_000 for n in range(4)}, "48,000,000 bytes unpacked; 40,0"),
        ({"a.md": b"- x\n" * 5_000_000}, "times its size unpacked; 100 times"),
        ({f"{n}.md": b"- x" for n in range(21)}, "21 files and folders; 20"),
        ({f"{n}/{n}/{n}.md": b"- x" for n in range(7)}, "21 files and folders; 20"),
        ({"a/" * 65 + "a.md": b"- x"}, "a file below 65 folders; 64"),
        ({f"{n}{'a' * 60_000}.md": b"" for n in range(20)}, "its list of files"),
    ]
    query = {"format": "markdown", "name": "notes.zip"}
    for files, reason in archives:
        with subtests.test(reason=reason):
            reply = client.post("/v1/import", params=query, content=a_zip(files), headers=AS_FILE)

            is_problem(reply, 422, "limit_exceeded")
            assert reason in reply.json()["detail"]
            assert "in parts, or run brain import on the machine" in reply.json()["detail"]
            assert brain.jobs().jobs == ()


def test_zip_uploaded_without_a_file_name_has_the_same_limits(client: TestClient) -> None:
    chats = a_zip({"conversations.json": b"[" + b" " * 20_000_000 + b"]"})

    reply = client.post("/v1/import", params={"format": "chatgpt"}, content=chats, headers=AS_FILE)

    is_problem(reply, 422, "limit_exceeded")


def test_limits_are_checked_again_when_a_worker_unpacks_an_upload(
    tmp_path: Path, brain: Brain
) -> None:
    packed = tmp_path / "notes.zip"
    packed.write_bytes(a_zip({f"{n}.md": b"- x" for n in range(21)}))
    staging = UploadStore(brain.services.blobs)
    upload = staging.put(packed, name="notes.zip", on_start=lambda _: None)

    for stays_packed in (False, True):
        opened = staging.opened(upload, limits=LIMITS, stays_packed=stays_packed)
        with pytest.raises(InvalidInputError, match="21 files"), opened:
            pass
    with staging.opened(upload, limits=LOCAL_IMPORT) as folder:
        assert len(list(folder.iterdir())) == 21


def test_import_fails_beyond_the_limit_of_pieces_and_names_the_next_step(
    brain: Brain, client: TestClient
) -> None:
    within = sent(client, notes(100), format="markdown", name="within.md")
    beyond = sent(client, notes(101, topic="Pot"), format="markdown", name="beyond.md")
    a_worker(brain).sweep()

    assert shown(client, within["id"])["result"]["stored"] == 100
    dead = shown(client, beyond["id"])
    assert (dead["state"], dead["error"]) == ("dead", "limit_exceeded")
    assert dead["reason"].startswith("beyond.md has more pieces than the 100 that")
    assert "of these 100 are new. Send the rest in parts, or run brain import" in dead["reason"]
    assert brain.status().memories == 200
    assert not list(Path(brain.services.blobs().location).iterdir()), "the uploads are deleted"


def test_import_of_a_local_file_has_no_limit_of_pieces(brain: Brain, tmp_path: Path) -> None:
    source = tmp_path / "notes.md"
    source.write_bytes(notes(101))

    job = brain.jobs.import_("markdown", source)
    a_worker(brain).sweep()

    done = brain.jobs.show(job.id)
    assert done.result is not None
    assert done.result["stored"] == 101


def test_number_of_unfinished_imports_per_tenant_is_limited(
    brain: Brain, client: TestClient
) -> None:
    tenants_of(brain).make("other")
    for number in range(SENT_IMPORTS_MAX):
        sent(client, notes(1), format="markdown", name=f"{number}.md")

    one_more = client.post(
        "/v1/import", params={"format": "markdown"}, content=notes(1), headers=AS_FILE
    )

    is_problem(one_more, 403, "limit_exceeded")
    assert f"at most {SENT_IMPORTS_MAX}" in one_more.json()["detail"]
    other = {**AS_FILE, "Authorization": "Bearer key-of-zoe"}
    assert client.post(
        "/v1/import", params={"format": "markdown"}, content=notes(1), headers=other
    ).is_success


def test_chat_export_is_imported_from_its_zip(brain: Brain, client: TestClient) -> None:
    node = {
        "message": {
            "author": {"role": "user"},
            "content": {"content_type": "text", "parts": ["The kettle is red."]},
        }
    }
    chat = {"conversation_id": "c1", "current_node": "n1", "mapping": {"n1": {"id": "n1", **node}}}
    export = a_zip({"conversations.json": json.dumps([chat]).encode(), "chat.html": b"<html>"})
    job = sent(client, export, format="chatgpt", name="export.zip")
    a_worker(brain).sweep()

    assert shown(client, job["id"])["result"]["stored"] == 1
