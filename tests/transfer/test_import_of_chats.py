"""An imported chat is recalled for a query, and shown to no one without one."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import commonbrain
from commonbrain.client import Brain
from commonbrain.testing.builders import a_brain
from tests.hooking import SESSION, call_hook

PROJECT = "crane-web"
RULE = "Never push to main without a review."
FACTS = {
    "Why Postgres instead of MySQL?": "We chose Postgres over MySQL because of row-level security.",
    "When is the staging database rebuilt?": "The staging database is rebuilt every night at two.",
    "Where is the deploy key of Helios?": "The deploy key of Helios lives in vault slot 7.",
    "When do we cut releases?": "Releases are cut on Tuesdays by the team lead.",
}
CHATTER = (
    "Why did we choose Postgres again? MySQL was fine for the old shop.",
    "Is the staging database rebuilt? I think it breaks every night.",
    "Where is the deploy key of Helios? I cannot find it in the vault.",
    "Let us talk about when releases are cut, and by whom.",
    "You must not push to main again!",
    "No, I told you: always use tabs.",
    "TODO: fix the login before Friday.",
    "I prefer short answers.",
    "Remember to update the changelog, it is urgent.",
    "The build broke because the disk was full.",
)


def write_chats(folder: Path, *, count: int = 6) -> Path:
    """Write sessions of Claude Code in which the same is said in other words again and again."""
    projects = folder / "projects"
    for number in range(count):
        file = projects / "-home-ada-code-crane-web" / f"s-{number}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps(
                {
                    "type": ("user", "assistant")[place % 2],
                    "message": {"role": "user", "content": f"{text} ({number}.{place})"},
                    "uuid": f"u-{number}-{place}",
                    "timestamp": f"2025-0{number + 1}-03T09:00:{place:02d}Z",
                    "cwd": f"/home/ada/code/{PROJECT}",
                    "sessionId": f"s-{number}",
                }
            )
            for place, text in enumerate(CHATTER * 2)
        ]
        file.write_text("\n".join(lines) + "\n", "utf-8")
    return projects


def remember_facts(brain: Brain) -> None:
    brain.remember(RULE, kind="rule", severity="BLOCKER", project=PROJECT)
    for text in FACTS.values():
        brain.remember(text, kind="fact", project=PROJECT)


def without_ids(lines: str) -> Sequence[str]:
    """Return the lines of a briefing without the session that was just begun."""
    return [line for line in lines.splitlines() if "ses_" not in line]


@pytest.mark.requirement("MG-13")
def test_imported_chat_changes_neither_briefing_nor_inbox_nor_review_queue(
    tmp_path: Path,
) -> None:
    with a_brain(tmp_path / "b.db") as brain:
        remember_facts(brain)
        before = brain.boot(PROJECT, "Move the orders")
        report = brain.import_("claude-code", write_chats(tmp_path))
        after = brain.boot(PROJECT, "Move the orders")
        assert report.stored == 6 * 2 * len(CHATTER)
        assert without_ids(after.text) == without_ids(before.text)
        inbox = brain.message.inbox()
        assert (list(inbox.messages), inbox.unread) == ([], "0")
        queue = brain.review()
        assert (queue.conflicts, queue.needs_review) == ((), ())
        assert (queue.proposals, queue.duplicates) == ((), ())


@pytest.mark.requirement("MG-13")
def test_later_reader_has_no_unread_message_of_an_import(tmp_path: Path) -> None:
    with a_brain(tmp_path / "b.db") as brain:
        brain.import_("claude-code", write_chats(tmp_path))
    with a_brain(tmp_path / "b.db", agent="zoe") as other:
        assert "unread" not in other.boot(PROJECT, "Look around").text.lower()
        assert list(other.message.inbox(all=True).messages) == []


@pytest.mark.requirement("MG-13")
def test_stored_fact_precedes_imported_chats_in_recall_and_in_the_prompt_hook(
    tmp_path: Path,
) -> None:
    store = tmp_path / "b.db"
    with commonbrain.open(store) as brain:
        remember_facts(brain)
        brain.import_("claude-code", write_chats(tmp_path))
        for question, fact in FACTS.items():
            first, *_ = brain.recall(question, project=PROJECT).items
            assert first.body == fact
    for question, fact in FACTS.items():
        prompt: dict[str, object] = {
            "session_id": SESSION,
            "prompt": question,
            "cwd": str(tmp_path),
        }
        answered = call_hook(
            store,
            *("claude-code", "user-prompt-submit"),
            told=prompt,
            COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S="50",
            COMMONBRAIN_PROJECT=PROJECT,
        )
        # The hook shows what fits its budget.
        assert fact in answered.context
