"""Sources that are odd, damaged or made to harm: their memories are read, nothing else happens."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Content, Unreadable
from commonbrain.transfer.importers import IMPORTERS


def read(format_: str, source: Path) -> Sequence[Content]:
    return [one.content for one in IMPORTERS[format_].read(source)]


def drafts(contents: Sequence[Content]) -> list[Draft]:
    return [one for one in contents if isinstance(one, Draft)]


def bodies(contents: Sequence[Content]) -> list[str]:
    return [one.body for one in drafts(contents)]


def reasons(contents: Sequence[Content]) -> list[str]:
    return [one.reason for one in contents if isinstance(one, Unreadable)]


def claude_session(folder: Path, *texts: str) -> Path:
    lines = [
        {
            "type": "user",
            "uuid": f"u{number}",
            "sessionId": "s",
            "timestamp": "2026-01-01T00:00:00Z",
            "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(texts)
    ]
    path = folder / "s.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def test_message_that_mentions_a_command_is_unchanged(tmp_path: Path) -> None:
    mention = "Why does <command-name>/x</command-name> show up in my logs?"
    whole = "<command-message>x</command-message>\n<command-name>/x</command-name>"
    source = claude_session(tmp_path, mention, f"{whole}\n<command-args>a b</command-args>")
    assert bodies(read("claude-code", source)) == [mention, "/x a b"]


def test_message_with_many_unclosed_tags_is_read(tmp_path: Path) -> None:
    tags = "<system-reminder>" * 200_000 + "".join(f"<ide_{one}>" for one in range(50_000))
    (first, *_) = bodies(read("claude-code", claude_session(tmp_path, tags)))
    assert first.startswith("<system-reminder>")


def codex_session(folder: Path, *texts: str) -> Path:
    begin = {"id": "one", "timestamp": "2025-08-01T10:00:00.000Z", "instructions": None}
    content = [[{"type": "input_text", "text": text}] for text in texts]
    lines = [begin, *({"type": "message", "role": "user", "content": one} for one in content)]
    path = folder / "rollout-2025-08-01T10-00-00-one.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def test_user_prompts_that_resemble_added_context_are_imported(tmp_path: Path) -> None:
    prompts = [
        "<task>Fix the gate of the lock.</task>",
        "<div>why does this not close?</div>",
        "Explain this heading:\n## My request for Codex:\nand what follows it.",
        "# AGENTS.md instructions are ignored, please find out why.",
    ]
    added = [
        "<turn_aborted>\nThe user stopped it.\n</turn_aborted>",
        "# AGENTS.md instructions for /home/ada\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>",
    ]
    editor = (
        "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nGo."
    )
    read_ = bodies(read("codex", codex_session(tmp_path, *prompts, *added, editor)))
    assert read_ == [*prompts, "Go."]


def test_values_of_wrong_types_in_a_session_are_skipped(tmp_path: Path) -> None:
    source = claude_session(tmp_path, "Hello there.")
    with source.open("a") as stream:
        stream.write(json.dumps({"message": {"content": "x"}, "type": ["user"]}) + "\n")
    assert bodies(read("claude-code", source)) == ["Hello there."]


@pytest.mark.parametrize(
    ("format_", "name"),
    [
        ("claude-code", "p/s.jsonl"),
        ("codex", "2026/rollout-2026-01-01T00-00-00-one.jsonl"),
    ],
)
def test_link_out_of_the_folder_is_not_followed(format_: str, name: str, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_bytes(b'[{"mapping": {}, "conversation_id": "c"}]\n')
    link = tmp_path / "given" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(private)
    with pytest.raises(InvalidInputError) as caught:
        read(format_, tmp_path / "given")
    assert "private" not in str(caught.value).replace(str(tmp_path), "")


SAMPLES = Path(__file__).parent / "samples"


@pytest.mark.parametrize(
    ("format_", "sample", "name"),
    [
        ("claude-code", "claude-code", "p/s.jsonl"),
        ("codex", "codex/sessions", "2020/rollout-2020-01-01T00-00-00-one.jsonl"),
        ("markdown", "notes", "far.md"),
    ],
)
def test_file_link_out_of_the_folder_is_reported_and_the_rest_is_read(
    format_: str, sample: str, name: str, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    shutil.copytree(SAMPLES / sample, given)
    before = read(format_, given)
    (given / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "private").write_bytes(b"private")
    (given / name).symlink_to(tmp_path / "private")
    after = list(read(format_, given))
    after.remove(Unreadable(where=name, reason="It is a link that leaves the folder."))
    assert after == before


@pytest.mark.parametrize(
    ("format_", "sample"), [("claude-code", "claude-code"), ("codex", "codex/sessions")]
)
def test_folder_link_out_of_the_folder_is_reported(
    format_: str, sample: str, tmp_path: Path
) -> None:
    given, private = tmp_path / "given", tmp_path / "private"
    shutil.copytree(SAMPLES / sample, given)
    shutil.copytree(SAMPLES / sample, private)
    (given / "out").symlink_to(private)
    contents = read(format_, given)
    assert Unreadable(where="out", reason="It is a link that leaves the folder.") in contents
