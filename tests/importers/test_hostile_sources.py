"""Sources that are odd, damaged or made to harm: their memories are read, nothing else happens."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Content, Relation, Unreadable
from commonbrain.transfer.importers import IMPORTERS


def read(format_: str, source: Path) -> Sequence[Content]:
    return [one.content for one in IMPORTERS[format_].read(source, None)]


def drafts(contents: Sequence[Content]) -> list[Draft]:
    return [one for one in contents if isinstance(one, Draft)]


def bodies(contents: Sequence[Content]) -> list[str]:
    return [one.body for one in drafts(contents)]


def reasons(contents: Sequence[Content]) -> list[str]:
    return [one.reason for one in contents if isinstance(one, Unreadable)]


def written(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(value))
    return path


def test_a_fact_that_ended_before_it_was_recorded_has_ended(tmp_path: Path) -> None:
    edge = {
        "uuid": "e1",
        "fact": "Ada leads the billing team.",
        "created_at": "2025-06-01T00:00:00Z",
        "invalid_at": "2020-01-01T00:00:00Z",
    }
    code = {
        "id": "m1",
        "memory": "The discount code SPRING is valid in the shop.",
        "expiration_date": "2025-01-01",
        "updated_at": "2025-02-01T00:00:00Z",
    }
    ended = [
        *drafts(read("graphiti", written(tmp_path, "graph.json", {"edges": [edge]}))),
        *drafts(read("mem0", written(tmp_path, "mem0.json", [code]))),
    ]
    assert [one.expires_at.year for one in ended if one.expires_at] == [2020, 2025]
    assert all(
        one.occurred_at and one.occurred_at < one.expires_at for one in ended if one.expires_at
    )


@pytest.mark.parametrize(
    ("front_matter", "reason"),
    [
        pytest.param(
            "tags:\n"
            "  - &a [x, x, x, x, x, x, x, x, x]\n"
            + "".join(
                f"  - &{new} [{', '.join([f'*{old}'] * 9)}]\n"
                for old, new in zip("abcdefgh", "bcdefghi", strict=True)
            ),
            "Its front matter has anchors or aliases.",
            id="aliases",
        ),
        pytest.param(
            "log: |\n" + "  We decided to use Postgres in the shop.\n" * 2000,
            "Its front matter has more than 65,536 characters.",
            id="long",
        ),
    ],
)
def test_front_matter_that_would_fill_the_memory_is_reported(
    front_matter: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "note.md").write_text(f"---\n{front_matter}---\nThe shop is in Berlin.\n")
    contents = read("obsidian", tmp_path)
    assert bodies(contents) == ["The shop is in Berlin."]
    assert reasons(contents) == [reason]


def test_front_matter_is_read_as_texts(tmp_path: Path) -> None:
    matter = "tags: [yes, 1_0, 2025-01-02]\ndate: 2025-01-02\n"
    (tmp_path / "note.md").write_text(f"---\n{matter}---\nThe shop is in Berlin.\n")
    (note,) = drafts(read("obsidian", tmp_path))
    assert note.tags == ("yes", "1_0", "2025-01-02")
    assert note.occurred_at is not None
    assert note.occurred_at.isoformat() == "2025-01-02T00:00:00+00:00"


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


def test_a_message_that_mentions_a_command_keeps_its_words(tmp_path: Path) -> None:
    mention = "Why does <command-name>/x</command-name> show up in my logs?"
    whole = "<command-message>x</command-message>\n<command-name>/x</command-name>"
    source = claude_session(tmp_path, mention, f"{whole}\n<command-args>a b</command-args>")
    assert bodies(read("claude-code", source)) == [mention, "/x a b"]


def test_a_message_with_many_unclosed_tags_is_read_in_one_pass(tmp_path: Path) -> None:
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


def test_prompts_in_tags_of_the_users_own_are_kept(tmp_path: Path) -> None:
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


def edge(uuid: str, fact: str, **fields: object) -> dict[str, object]:
    common = {"name": "LEADS", "source_node_uuid": "ada", "target_node_uuid": "billing"}
    return {"uuid": uuid, "fact": fact, **common, **fields}


def superseding(contents: Sequence[Content]) -> list[tuple[str, str]]:
    pairs = [one for one in contents if isinstance(one, Relation) and one.type is None]
    return [(one.first[-2:], one.second[-2:]) for one in pairs]


def test_only_an_edge_about_the_same_relation_supersedes(tmp_path: Path) -> None:
    ended = edge("e1", "Ada leads billing.", valid_at="2024-01-01", invalid_at="2025-01-01")
    start = "2025-01-01T00:00:00Z"
    newer = edge("e2", "Ada leads search.", target_node_uuid="search", valid_at=start)
    also = edge("e3", "Ada leads ads.", target_node_uuid="ads", valid_at=start)
    other = edge("e4", "Ada likes tea.", name="LIKES", valid_at=start)
    into = edge("e5", "Bo leads billing.", source_node_uuid="bo", valid_at=start)
    for edges, expected in (
        ([ended, newer, other, into], [("e2", "e1")]),
        ([ended, other, into], []),
        ([ended, newer, also], []),
    ):
        contents = read("graphiti", written(tmp_path, "graph.json", {"edges": edges}))
        assert superseding(contents) == expected
        assert drafts(contents)[0].expires_at is not None
