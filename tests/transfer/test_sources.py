"""Where a source lies: shown without its password, uploaded whole, read without a look around."""

import io
import json
import re
import zipfile
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.jobs.service import JobView
from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import database_url, shown_source
from commonbrain.transfer.importers import IMPORTERS
from commonbrain.transfer.merge import OWN_FORMAT
from tests.working import a_worker

NOTES = "The lock of the harbour opens at noon in winter.\n"


@pytest.mark.parametrize(
    "source",
    [
        "postgresql://ada:s3cret@db.example:5433/brain?password=s3cret",
        "postgresql://ada:12/s3cret@db.example/brain",
        "postgresql://ada:1?s3cret@db.example/brain",
        "postgresql://ada:1#s3cret@db.example/brain",
        "postgresql://ada:p@s3cret@db.example/brain",
        "host=db.example password=s3cret",
    ],
)
def test_password_of_a_database_url_is_not_shown(source: str) -> None:
    assert database_url(source) == source
    assert "s3cret" not in shown_source(source)


def test_database_url_is_shown_as_user_host_and_name() -> None:
    shown = shown_source(Path("postgresql://ada:s3cret@db.example:5433/brain"))
    assert shown == "postgresql://ada@db.example:5433/brain"


URLS = [
    "postgresql://ada:s3cret@db.example/brain",
    "mysql://ada:s3cret@db.example/brain",
    "https://ada:s3cret@example.com/dump.json?token=s3cret",
    "sqlite+pysqlite://ada:s3cret@/brain.db",
    "host=db.example user=ada password=s3cret",
    "jdbc:postgresql://ada:s3cret@db.example/brain",
    "https://s3cret@example.com/dump.json",
    "redis://:s3cret@cache.example/0",
    "host = db.example password = s3cret",
    " postgresql+psycopg://ada:s3cret@db.example/brain",
    "'postgresql+psycopg://ada:s3cret@db.example/brain'",
    "ada:s3cret@db.example:5432/brain",
    "ada:12/s3cret@db.example:5432/brain",
    "ada:12 s3cret@db.example:5432/brain",
    "ada_b:1:2/s3cret@x@db.example",
    "brain.db#mysql://ada:s3cret@db.example/brain",
    f"host=db.example password=s3cret options={'x' * 300}",
    f"https://ada:s3cret@example.com/{'x' * 5_000}",
]


@pytest.mark.requirement("MG-35")
def test_refused_address_is_shown_without_its_password(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for format_ in sorted({*IMPORTERS, OWN_FORMAT}):
        for url in URLS:
            with subtests.test(format=format_, url=url):
                with pytest.raises(InvalidInputError) as foreground:
                    brain.merge(url) if format_ == OWN_FORMAT else brain.import_(format_, url)
                with pytest.raises(InvalidInputError) as background:
                    brain.jobs.import_(format_, Path(url))
                for refusal in (foreground.value, background.value):
                    assert "s3cret" not in f"{refusal} {refusal.hint}"
                assert "is an address" in str(foreground.value)


def test_file_named_like_an_address_is_shown_by_its_name(
    brain: Brain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "Meeting 10:30 bob@acme.md"
    Path(name).write_text(NOTES, "utf-8")
    assert brain.import_("markdown", name).source == name


def finished(brain: Brain, job: JobView) -> JobView:
    a_worker(brain).sweep()
    return brain.jobs.show(job.id)


def projects(brain: Brain) -> list[str | None]:
    return sorted((one.project for one in brain.list().memories), key=str)


def a_repository(folder: Path) -> Path:
    (folder / ".git").mkdir(parents=True)
    return folder


def packed(folder: Path, files: dict[str, str]) -> Path:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as held:
        for name, text in files.items():
            held.writestr(name, text)
    path = folder / "sent"
    path.write_bytes(archive.getvalue())
    return path


def session(folder: Path | None) -> str:
    message = {"role": "user", "content": NOTES}
    one = {"type": "user", "uuid": "a-1", "sessionId": "s", "message": message}
    return json.dumps(one if folder is None else {**one, "cwd": str(folder)}) + "\n"


@pytest.mark.parametrize("folder", ["there", "gone"])
def test_project_of_an_uploaded_transcript_does_not_reveal_local_folders(
    brain: Brain, tmp_path: Path, folder: str
) -> None:
    (a_repository(tmp_path / "secret") / "there").mkdir()
    sent = tmp_path / "sent"
    sent.write_text(session(tmp_path / "secret" / folder))
    finished(brain, brain.jobs.import_("claude-code", sent, name="s.jsonl"))
    assert projects(brain) == [folder]


def test_project_of_an_uploaded_flattened_path_does_not_reveal_local_folders(
    brain: Brain, tmp_path: Path
) -> None:
    (tmp_path / "secret-plan" / "b").mkdir(parents=True)
    flat = re.sub("[^A-Za-z0-9]", "-", str(tmp_path / "secret-plan" / "b"))
    sent = packed(tmp_path, {f".claude/projects/{flat}/s.jsonl": session(None)})
    finished(brain, brain.jobs.import_("claude-code", sent, name="claude.zip"))
    (project,) = projects(brain)
    # Who looks at the folders names it `b` or `secret-plan`.
    assert str(project).endswith("-secret-plan-b")


def test_uploaded_rollout_takes_no_title_from_local_files(
    brain: Brain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "session_index.jsonl").write_text('{"id": "r1", "thread_name": "Their secret"}')
    message = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": NOTES}],
    }
    lines = [
        {"type": "session_meta", "payload": {"id": "r1", "cwd": "/srv/shop"}},
        {"type": "response_item", "payload": message},
    ]
    sent = tmp_path / "sent"
    sent.write_text("".join(json.dumps(one) + "\n" for one in lines))
    finished(brain, brain.jobs.import_("codex", sent, name="rollout.jsonl"))
    (one,) = brain.recall(kinds=["message"]).items
    assert one.context == NOTES.strip()


def test_uploaded_file_with_any_name_is_not_opened_as_a_database(tmp_path: Path) -> None:
    assert database_url(tmp_path / "dump host=db.example dbname=brain") is None


def test_notes_uploaded_in_the_background_stay_in_their_projects(
    brain: Brain, tmp_path: Path
) -> None:
    shop, till = a_repository(tmp_path / "all" / "shop"), a_repository(tmp_path / "all" / "till")
    for folder in (shop / "docs" / "deep", till, tmp_path / "all" / "loose"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "NOTES.md").write_text(f"{NOTES.strip()} So says {folder.name}.\n")
    (shop / "docs" / "NOTES.md").write_text(NOTES)
    finished(brain, brain.jobs.import_("markdown", tmp_path / "all"))
    assert projects(brain) == [None, "shop", "shop", "till"]


def test_folder_of_a_repository_uploaded_in_the_background_stays_in_its_project(
    brain: Brain, tmp_path: Path
) -> None:
    docs = a_repository(tmp_path / "shop") / "docs"
    docs.mkdir()
    (docs / "NOTES.md").write_text(NOTES)
    finished(brain, brain.jobs.import_("markdown", docs))
    assert projects(brain) == ["shop"]


def test_session_of_a_repository_imported_in_the_background_stays_in_its_project(
    brain: Brain, tmp_path: Path
) -> None:
    web = a_repository(tmp_path / "shop") / "web"
    web.mkdir()
    (tmp_path / "projects" / "flat").mkdir(parents=True)
    (tmp_path / "projects" / "flat" / "s.jsonl").write_text(session(web))
    finished(brain, brain.jobs.import_("claude-code", tmp_path / "projects"))
    assert projects(brain) == ["shop"]


def source(folder: Path) -> Path:
    """Return a folder apart from the store."""
    path = folder / "source"
    path.mkdir(exist_ok=True)
    return path


def test_damaged_database_does_not_stop_the_upload_of_its_folder(
    brain: Brain, tmp_path: Path
) -> None:
    (source(tmp_path) / "cache.db").write_bytes(b"SQLite format 3\x00" + b"\x10\x00" * 500)
    (source(tmp_path) / "NOTES.md").write_text(NOTES)
    job = finished(brain, brain.jobs.import_("markdown", source(tmp_path)))
    assert job.result is not None
    assert job.result["stored"] == 1
