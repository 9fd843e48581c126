"""Exports of chat services become threads, without what programs added.

Neither OpenAI nor Anthropic publishes its export, so the samples follow descriptions and readers of
them.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZipFile

import pytest
from import_samples import IMPORTERS

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.testing.builders import a_brain
from commonbrain.transfer.importer import ImportItem
from tests.import_items import drafts, messages, omitted, subjects, unreadable

SAMPLES = Path(__file__).parent / "samples"
FORMATS = ("chatgpt", "claude-ai")
STORED = {"chatgpt": 6, "claude-ai": 7}


def read(format_: str, source: Path) -> list[ImportItem]:
    return list(IMPORTERS[format_].read(source))


def test_current_branch_of_a_chatgpt_chat_is_imported() -> None:
    pieces = read("chatgpt", SAMPLES / "chatgpt" / "conversations.json")
    assert messages(pieces) == [
        ("user", "Which berth has power?"),
        ("assistant", "Berth 4 has power."),
        ("user", "And this one?"),
        ("assistant", "That is berth 7; it has water only."),
        ("user", "How long is the pier?"),
        ("assistant", "The pier is 212 metres long."),
    ]
    assert subjects(pieces) == ["Berths of the harbour", "How long is the pier?"]
    first, *_, last = drafts(pieces)
    assert (first.source_ref, first.occurred_at) == (
        "chatgpt#m3",
        datetime(2026, 1, 1, 10, 0, 2, 250_000, tzinfo=UTC),
    )
    assert last.occurred_at == datetime(2026, 2, 1, 10, 0, 2, tzinfo=UTC)
    assert unreadable(pieces) == ["chat c-3"]
    assert omitted(pieces) == {
        "context added by the program": 2,
        "images and attached files": 2,
        "messages of other branches": 1,
        "reasoning of the model": 1,
        "tool calls": 1,
        "tool results": 1,
    }


def test_chats_memories_and_projects_of_a_claude_export_are_imported() -> None:
    pieces = read("claude-ai", SAMPLES / "claude-ai")
    assert messages(pieces) == [
        ("user", "Who moors the Heron?"),
        ("assistant", "I look it up.\nBo moors the Heron."),
        ("user", "Remind me of the tides"),
    ]
    assert subjects(pieces) == ["Mooring plan", "Remind me of the tides"]
    notes = [one for one in drafts(pieces) if one.kind != Kind.MESSAGE]
    # The last part of each reference is a digest of the text.
    assert [((one.source_ref or "")[:-9], one.project) for one in notes] == [
        ("claude-ai#memory", None),
        ("claude-ai#memory/p-1", "Harbour"),
        ("claude-ai#project/p-1/prompt_template", "Harbour"),
        ("claude-ai#project/p-1/d-1#tides", "Harbour"),
    ]
    assert notes[2].kind == Kind.RULE
    assert omitted(pieces) == {
        "images and attached files": 2,
        "reasoning of the model": 1,
        "tool calls": 1,
        "tool results": 1,
    }


def test_export_is_read_the_same_from_its_archive_and_its_folder(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for format_ in ["chatgpt", "claude-ai"]:
        with subtests.test(format_=format_):
            archive = tmp_path / "export.zip"
            with ZipFile(archive, "w") as out:
                for file in sorted((SAMPLES / format_).iterdir()):
                    out.write(file, f"export/{file.name}")
                out.writestr("__MACOSX/._conversations.json", "no JSON")
            packed = [one.content for one in read(format_, archive)]
            assert packed == [one.content for one in read(format_, SAMPLES / format_)]


def test_chats_in_numbered_files_of_a_large_export_are_read(tmp_path: Path) -> None:
    chats = json.loads((SAMPLES / "chatgpt" / "conversations.json").read_text("utf-8"))
    for number, chat in enumerate(chats):
        file = tmp_path / f"conversations-{number:03d}.json"
        file.write_text(json.dumps([chat]), "utf-8")
    (tmp_path / "user.json").write_text("{}", "utf-8")
    assert len(messages(read("chatgpt", tmp_path))) == STORED["chatgpt"]


def test_truncated_export_is_imported_up_to_the_last_complete_record(tmp_path: Path) -> None:
    text = (SAMPLES / "chatgpt" / "conversations.json").read_text("utf-8")
    source = tmp_path / "conversations.json"
    source.write_text(text[: text.index('"c-2"')], "utf-8")
    pieces = read("chatgpt", source)
    assert len(messages(pieces)) == 4
    assert unreadable(pieces) == ["conversations.json, after 1"]


def test_export_of_another_service_is_refused(subtests: pytest.Subtests) -> None:
    for format_, other in [("chatgpt", "claude-ai"), ("claude-ai", "chatgpt")]:
        with (
            subtests.test(format_=format_, other=other),
            pytest.raises(InvalidInputError, match="is not from an export of"),
        ):
            read(format_, SAMPLES / other)


def test_sources_are_found_in_their_default_folders(tmp_path: Path) -> None:
    downloads = tmp_path / "home" / "Downloads"
    downloads.mkdir(parents=True)
    for name in ("data-2026-01-02-03-04-05-batch-0000.zip", "a1b2-2026-01-02-03-04-05-c3.zip"):
        (downloads / name).write_bytes(b"unread")
    results = {
        name: [one.path.name for one in IMPORTERS[name].find(tmp_path / "home")] for name in FORMATS
    }
    assert results == {
        "chatgpt": ["a1b2-2026-01-02-03-04-05-c3.zip"],
        "claude-ai": ["data-2026-01-02-03-04-05-batch-0000.zip"],
    }


@pytest.mark.requirement("MG-07")
def test_repeated_import_stores_every_message_once(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for format_ in FORMATS:
        with subtests.test(format_=format_):
            with a_brain(tmp_path / f"{format_}.db") as brain:
                dry = brain.import_(format_, SAMPLES / format_, dry_run=True)
                first = brain.import_(format_, SAMPLES / format_)
                again = brain.import_(format_, SAMPLES / format_)
            assert (dry.stored, dry.omitted) == (first.stored, first.omitted)
            assert (first.stored, again.stored) == (STORED[format_], 0)
            assert again.exists == first.stored
            assert first.omitted == omitted(read(format_, SAMPLES / format_))
