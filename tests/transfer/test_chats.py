"""Sessions of coding agents become threads, without what programs added.

The samples were written by these programs (`make/`).
"""

import json
import shutil
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import pytest

from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.testing.builders import a_brain
from commonbrain.transfer.importer import ImportItem
from commonbrain.transfer.importers import IMPORTERS
from commonbrain.transfer.importers.chats import title_of
from commonbrain.transfer.importers.json_lines import LINE_BYTES_MAX
from tests.import_items import drafts, messages, omitted, subjects, unreadable

SAMPLES = Path(__file__).parent / "samples"
FORMATS = ("claude-code", "codex")
STORED = {"claude-code": 11, "codex": 4}
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def read(format_: str, source: Path) -> list[ImportItem]:
    return list(IMPORTERS[format_].read(source))


def session(folder: Path, *records: object, name: str = "s-1.jsonl") -> Path:
    """Write a session of Claude Code: records of user and assistant, others as they are."""
    file = folder / "projects" / "-home-ada-code-heron" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in records
    )
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return file


def record(sender: str, content: object, number: int = 1, **fields: object) -> dict[str, object]:
    return {
        "parentUuid": None,
        "isSidechain": False,
        "type": sender,
        "message": {"role": sender, "content": content},
        "uuid": f"u-{number}",
        "timestamp": f"2026-03-01T09:00:{number:02d}.000Z",
        "cwd": "/home/ada/code/heron",
        "sessionId": "s-1",
        **fields,
    }


def test_sessions_of_claude_code_become_threads_of_user_and_assistant() -> None:
    pieces = read("claude-code", SAMPLES / "claude-code")
    assert messages(pieces) == [
        ("user", "Where is the berth table?"),
        ("assistant", "The berth table is in README.md."),
        ("user", "Which berth has power?"),
        ("assistant", "Berth 4 is the one with power."),
        ("user", "And which one is free?"),
        ("assistant", "Berth 7 is free."),
        ("user", "Which berth has water?"),
        ("assistant", "Berth 5 has water."),
        ("user", "Let an agent count the berths."),
        ("assistant", "There are nine."),
        ("assistant", "There are nine."),
    ]
    assert {one.project for one in drafts(pieces)} == {"heron-web"}
    assert {one.author for one in drafts(pieces)} == {None, "claude-opus-5-5"}
    assert all(one.occurred_at and one.occurred_at.year == 2026 for one in drafts(pieces))
    assert pieces[-1].progress == 1.0


def test_forked_session_adds_only_its_new_messages() -> None:
    pieces = read("claude-code", SAMPLES / "claude-code")
    assert subjects(pieces) == [
        "Where is the berth table?",
        "Which berth has water?",
        "Berth count",
    ]
    assert len({one.thread.key for one in drafts(pieces) if one.thread}) == 3
    assert omitted(pieces)["messages that a fork or a resumed session repeats"] == 4


def test_tool_calls_and_added_context_of_claude_code_are_counted_as_omitted() -> None:
    counts = omitted(read("claude-code", SAMPLES / "claude-code"))
    assert counts["tool calls"] == counts["tool results"] == 5
    assert counts["messages and transcripts of subagents"] == 1
    assert counts["context added by the program"] > 0


def test_message_contains_only_the_text_of_its_sender(tmp_path: Path) -> None:
    note = "<system-reminder>\nBe careful.\n</system-reminder>"
    command = "<command-name>/review</command-name><command-message>review</command-message>"
    picture = {"type": "image", "source": {"type": "base64", "data": "A" * 10_000}}
    source = session(
        tmp_path,
        record("user", f"Is the crane free?\n{note}", 1),
        record("user", f"{command}\n<command-args>the crane plan</command-args>", 2),
        record("user", f"{command}\n<command-args></command-args>", 3),
        record("user", [{"type": "text", "text": "See this"}, picture], 4),
        record("user", note, 5),
        record("user", "[Request interrupted by user]", 6),
        record("user", "A summary of it", 7, isCompactSummary=True),
        record("user", "A note of the program", 8, isMeta=True),
        record("assistant", [{"type": "thinking", "thinking": "Hm"}], 9),
        record("assistant", [{"type": "thinking"}, {"type": "text", "text": "It is."}], 10),
        record("assistant", [{"type": "text", "text": "No answer"}], 11, isApiErrorMessage=True),
        record("user", "Count the cranes", 12, isSidechain=True),
    )
    pieces = read("claude-code", source)
    assert messages(pieces) == [
        ("user", "Is the crane free?"),
        ("user", "/review the crane plan"),
        ("user", "See this"),
        ("assistant", "It is."),
    ]
    assert omitted(pieces) == {
        "context added by the program": 6,
        "images and attached files": 1,
        "messages and transcripts of subagents": 1,
        "reasoning of the model": 2,
    }


@pytest.mark.parametrize(
    "text",
    [
        '<teammate-message teammate_id="x">I prefer the blue crane.</teammate-message>',
        "This session is being continued from a previous conversation. I prefer the blue crane.",
        "Caveat: The messages below were generated by commands. I prefer the blue crane.",
    ],
)
def test_words_of_others_in_a_session_are_not_the_users(tmp_path: Path, text: str) -> None:
    source = session(tmp_path, record("user", text, 1), record("user", "Count them.", 2))

    assert messages(read("claude-code", source)) == [("user", "Count them.")]


def test_user_text_next_to_a_tool_result_is_read(tmp_path: Path) -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 200_000}
    source = session(
        tmp_path,
        record("user", [result], 1),
        record("user", [result, {"type": "text", "text": "Not that one."}], 2),
        record("user", [{**result, "content": [{"type": "text", "text": "a page"}]}], 3),
    )
    pieces = read("claude-code", source)
    assert messages(pieces) == [("user", "Not that one.")]
    assert omitted(pieces) == {"tool results": 3}


def test_thread_title_is_that_of_the_user_else_of_the_model_else_a_summary(tmp_path: Path) -> None:
    message = record("user", "Who moors the Heron?")
    titles = [{"type": "ai-title", "aiTitle": "Mooring", "sessionId": "s"}] * 2
    own = {"type": "custom-title", "customTitle": "My mooring", "sessionId": "s"}
    summary = {"type": "summary", "summary": "Of another file", "leafUuid": "u-9"}
    session(tmp_path, record("user", "First", 1), *titles, own, name="a.jsonl")
    session(tmp_path, record("user", "Second", 2), *titles, name="b.jsonl")
    session(tmp_path, summary, {**message, "uuid": "u-3"}, name="c.jsonl")
    session(tmp_path, record("user", "Ninth", 9), name="d.jsonl")
    # The two that began first have the same time, so their names decide.
    assert subjects(read("claude-code", tmp_path)) == [
        "My mooring",
        "Who moors the Heron?",
        "Mooring",
        "Of another file",
    ]


def test_session_file_with_other_json_spacing_is_read_the_same(tmp_path: Path) -> None:
    records = [
        record("user", "Is the crane free?", 1),
        record("user", [{"type": "tool_result", "content": "x"}], 2),
        record("assistant", [{"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}], 3),
        record("assistant", [{"type": "text", "text": "It is."}], 4),
        {"type": "mode", "mode": "normal", "sessionId": "s-1"},
    ]
    compact = read("claude-code", session(tmp_path / "a", *records))
    spaced = read("claude-code", session(tmp_path / "b", *map(json.dumps, records)))
    assert [one.content for one in compact] == [one.content for one in spaced]


def test_damaged_line_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    source = session(
        tmp_path,
        record("user", "Before", 1),
        '{"type":"user","message":{"content":"cut of',
        "[1, 2]",
        record("user", "After", 2),
    )
    pieces = read("claude-code", tmp_path / "projects")
    assert messages(pieces) == [("user", "Before"), ("user", "After")]
    place = f"-home-ada-code-heron/{source.name}"
    assert unreadable(pieces) == [f"{place}:2", f"{place}:3"]


def test_oversized_line_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    source = session(tmp_path, record("user", "Before", 1))
    with source.open("r+b") as out:
        out.seek(0, 2)
        out.write(b'{"type":"user","message":{"content":"')
        out.seek(LINE_BYTES_MAX + 5_000_000, 1)  # A hole, which takes no disk.
        out.write(b'"}}\n' + json.dumps(record("user", "After", 2)).encode() + b"\n")
    pieces = read("claude-code", source)
    assert messages(pieces) == [("user", "Before"), ("user", "After")]
    assert unreadable(pieces) == ["s-1.jsonl:2"]


def test_long_message_is_split_into_parts_with_the_same_reference_and_time(tmp_path: Path) -> None:
    text = "\n".join(f"Line {number} of the log." for number in range(2000))
    parts = drafts(read("claude-code", session(tmp_path, record("user", text))))
    assert [one.part for one in parts] == list(range(1, len(parts) + 1))
    assert "\n".join(one.body for one in parts) == text
    assert len({(one.source_ref, one.occurred_at) for one in parts}) == 1
    assert all(len(one.body.encode()) <= TEXT_BYTES_MAX for one in parts)


def test_rollout_of_codex_becomes_a_thread() -> None:
    pieces = read("codex", SAMPLES / "codex")
    assert messages(pieces) == [
        ("user", "Where is the berth table?"),
        ("assistant", "The berth table is in README.md."),
        ("user", "Which berth has power?"),
        ("assistant", "Berth 4 is the one with power."),
    ]
    assert subjects(pieces) == ["Where is the berth table?"]
    assert {one.project for one in drafts(pieces)} == {"heron-web"}
    # Its instructions, AGENTS.md and the environment.
    assert omitted(pieces)["context added by the program"] == 3


def rollout(folder: Path, *lines: object, name: str = "one") -> Path:
    file = (
        folder
        / ".codex"
        / "sessions"
        / "2025"
        / "08"
        / "01"
        / f"rollout-2025-08-01T10-00-00-{name}.jsonl"
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    return file


def item(role: str, text: str, **fields: object) -> dict[str, object]:
    sort = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": sort, "text": text}], **fields}


def wrapped(payload: Mapping[str, object], sort: str = "response_item") -> dict[str, object]:
    return {"timestamp": "2025-10-01T10:00:00.000Z", "type": sort, "payload": payload}


def test_old_rollouts_without_envelopes_are_read(tmp_path: Path) -> None:
    source = rollout(
        tmp_path,
        {"id": "one", "timestamp": "2025-08-01T10:00:00.000Z", "instructions": None},
        {"record_type": "state"},
        item("user", "<user_instructions>\n\nBe brief.\n\n</user_instructions>"),
        item("user", "<environment_context>\n  <cwd>/home</cwd>\n</environment_context>"),
        item("user", "# Context from my IDE setup:\n\n## My request for Codex:\nWhich lock?"),
        item("assistant", "The north lock."),
    )
    assert messages(read("codex", source)) == [
        ("user", "Which lock?"),
        ("assistant", "The north lock."),
    ]


def test_forked_rollout_adds_only_its_new_messages_and_a_subagent_adds_none(tmp_path: Path) -> None:
    begun = [
        wrapped({"id": "one", "cwd": "/home/ada/lock", "source": "cli"}, "session_meta"),
        wrapped(item("user", "Which lock?", id="msg_1")),
    ]
    rollout(tmp_path, *begun)
    fork = wrapped({"id": "two", "cwd": "/home/ada/lock", "source": "cli"}, "session_meta")
    rollout(tmp_path, fork, *begun, wrapped(item("user", "The other?", id="msg_2")), name="two")
    spawned = wrapped({"id": "three", "source": {"subagent": "review"}}, "session_meta")
    rollout(tmp_path, spawned, wrapped(item("user", "Review it", id="msg_3")), name="three")
    name = {"id": "two", "thread_name": "Locks", "updated_at": "2025-10-02T00:00:00Z"}
    (tmp_path / ".codex" / "session_index.jsonl").write_text(json.dumps(name) + "\n", "utf-8")
    pieces = read("codex", tmp_path / ".codex" / "sessions")
    assert messages(pieces) == [("user", "Which lock?"), ("user", "The other?")]
    assert subjects(pieces) == ["Which lock?", "Locks"]
    assert omitted(pieces)["messages and transcripts of subagents"] == 1


def test_compressed_rollout_without_an_unpacked_copy_is_reported(tmp_path: Path) -> None:
    plain = rollout(tmp_path, wrapped(item("user", "Which lock?")))
    plain.with_name(f"{plain.name}.zst").write_bytes(b"(\xb5/\xfd")
    plain.with_name("rollout-2025-08-02T10-00-00-two.jsonl.zst").write_bytes(b"(\xb5/\xfd")
    pieces = read("codex", tmp_path)
    assert messages(pieces) == [("user", "Which lock?")]
    [place] = unreadable(pieces)
    assert place.endswith("-two.jsonl.zst")


def test_sources_are_found_in_their_default_folders(tmp_path: Path) -> None:
    session(tmp_path / "home", record("user", "Hello"))
    shutil.move(tmp_path / "home" / "projects", tmp_path / "home" / ".claude" / "projects")
    rollout(tmp_path / "home", wrapped(item("user", "Which lock?")))
    results = {
        name: [one.path.name for one in IMPORTERS[name].find(tmp_path / "home")] for name in FORMATS
    }
    assert results == {"claude-code": ["projects"], "codex": ["sessions"]}


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


def test_secret_in_an_imported_message_is_redacted(tmp_path: Path) -> None:
    source = session(
        tmp_path, record("user", f"The old crane uses {TOKEN} until May; ask Bo for the new one.")
    )
    with a_brain(tmp_path / "b.db") as brain:
        report = brain.import_("claude-code", source)
        again = brain.import_("claude-code", source)
        [memory] = brain.recall("old crane token").items
    assert (report.stored, report.rejected, again.stored) == (1, 0, 0)
    assert report.omitted["secrets in messages, redacted"] == 1
    body = memory.body or ""
    assert TOKEN not in body
    assert "ask Bo for the new one" in body


def test_messages_are_read_one_by_one(tmp_path: Path) -> None:
    source = session(
        tmp_path, *(record("user", f"Tide {n}", n % 60, uuid=f"t-{n}") for n in range(1500))
    )
    taken = list(islice(IMPORTERS["claude-code"].read(source), 3))
    assert [one.progress < 0.01 for one in taken] == [True, True, True]
    assert len(read("claude-code", source)) == 1500


def test_title_of_a_thread_without_one_is_its_first_line_of_text() -> None:
    assert title_of("\n\n  Where   is it?\nThere.") == "Where is it?"
    assert title_of("berth " * 40).endswith("berth ...")
    assert title_of(" \n ") == ""
